"""The public names of the DSL: a change of this list is a change of what users rely on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import mustela
import mustela_dev
from tests.public import MODULES as MODULES_BY_PURPOSE, names_of, public_names

ROOMS = ("mustela.api.", "mustela.dsl.")

MODULES = [
    *("mustela.dsl.builder", "mustela.dsl.kstream", "mustela.dsl.ktable", "mustela.dsl.grouped"),
    *("mustela.api.options", "mustela.topology.graph", "mustela.api.errors"),
    *("mustela.topology.checks", "mustela.planner.planner", "mustela.planner.explain"),
    *("mustela.planner.options", "mustela.dsl.routing", "mustela.api.timestamps"),
    *("mustela.dsl.stream_joins", "mustela.api.join_windows", "mustela.api.joined"),
    *("mustela.dsl.table_joins", "mustela.dsl.globalktable"),
    *("mustela.api.windows", "mustela.dsl.windowed", "mustela.api.suppression"),
    *("mustela.dsl.table_grouping", "mustela.dsl.grouped_table", "mustela.dsl.cogroup"),
    *(
        "mustela.api.stores",
        "mustela.api.upgrades",
        "mustela.api.schedule",
        "mustela.api.scheduled",
    ),
    *("mustela.dsl.processed", "mustela.api.outputs", "mustela.dsl.transacted"),
    *("mustela.api.watermarks", "mustela.api.aggregates", "mustela.dsl.said"),
    *("mustela.dsl.async_calls", "mustela.api.calls", "mustela.api.handlers"),
    *("mustela.dsl.distinct", "mustela.dsl.topology_builder"),
    *("mustela.api.processor", "mustela.api.context", "mustela.api.processor_wrapper"),
    *("mustela.api.timers", "mustela.api.value_transformer", "mustela.api.update"),
    *("mustela.api.custom_stores", "mustela.api.leaderboard", "mustela.api.intervals"),
    "mustela.api.count_min",
]


def test_what_a_module_of_the_dsl_gives_is_looked_at() -> None:
    """Each name that the package itself offers from its rooms stands in one of the modules."""
    modules = {import_module(name) for name in MODULES}
    names = public_names()
    offered = [name for name, found in names.items() if _home(found).startswith(ROOMS)]
    for name in offered:
        assert any(name in module.__all__ for module in modules), name


def _home(found: object) -> str:
    return getattr(found, "__module__", "")


def test_the_names_of_the_package(golden: Callable[[str, str], None]) -> None:
    """What ``from mustela import ...`` knows, and its modules by purpose."""
    lines = [f"mustela {name}" for name in sorted(mustela.__all__)]
    lines += [
        f"mustela.{module} {name}" for module in MODULES_BY_PURPOSE for name in names_of(module)
    ]
    lines += [f"mustela_dev {name}" for name in sorted(mustela_dev.__all__)]
    golden("public_names/package.txt", "\n".join(lines))


HEAD = """# Names

This page is generated from the code; `./dev golden-update` renews it.

The names that nearly every application needs are imported from `mustela`; the rest is in modules by
subject. A module repeats those names of the package that belong to its subject.
"""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "names.md"


def test_the_page_of_names_is_what_there_is(request: pytest.FixtureRequest) -> None:
    """docs/reference/names.md is generated; nobody edits it by hand."""
    parts = [HEAD]
    package = {name: getattr(mustela, name) for name in mustela.__all__}
    for module in ("", *MODULES_BY_PURPOSE):
        names = names_of(module) if module else package
        parts.append(
            f"\n## `{'.'.join(['mustela', module]).rstrip('.')}`\n\n| Name | |\n|---|---|\n"
        )
        parts += [
            f"| `{name}` | {sentence(found)} |\n"
            for name, found in sorted(names.items())
            if not module or name not in package
        ]
    parts.append("\n## `mustela_dev`\n\nFor development: `pip install mustela-dev`.\n")
    parts.append("\n| Name | |\n|---|---|\n")
    parts += [
        f"| `{name}` | {sentence(getattr(mustela_dev, name))} |\n"
        for name in sorted(mustela_dev.__all__)
    ]
    text = "".join(parts)
    if request.config.getoption("--golden-update"):
        PAGE.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == text, "write it anew with: ./dev golden-update -k page_of_names"


def sentence(found: object) -> str:
    """Return the first paragraph of a description, on one line, as Markdown."""
    told = isinstance(found, type) or inspect.isfunction(found)
    paragraph = (inspect.getdoc(found) or "").split("\n\n")[0] if told else ""
    return " ".join(paragraph.replace("``", "`").split()).replace("|", "\\|")


def test_public_names_of_the_dsl(golden: Callable[[str, str], None]) -> None:
    """Classes with their methods and parameters, functions with theirs, options with fields."""
    lines: list[str] = []
    for name in MODULES:
        module = import_module(name)
        lines.append(name)
        for public in sorted(module.__all__):
            lines += [f"  {line}" for line in describe(public, getattr(module, public))]
    golden("public_names/dsl.txt", "\n".join(lines))


def describe(name: str, value: object) -> list[str]:
    if isinstance(value, type) and issubclass(value, Exception):
        return [f"error {name} {getattr(value, 'code', '')}"]
    if isinstance(value, type) and is_dataclass(value):
        methods = [line for line in members(value) if not line.startswith("__")]
        shown = [f"{field.name}" for field in fields(value) if not field.name.startswith("_")]
        return [f"class {name}({', '.join(shown)})", *(f"  {m}" for m in methods if "(" in m)]
    if isinstance(value, type):
        return [f"class {name}", *(f"  {line}" for line in members(value))]
    if inspect.isfunction(value):
        return [f"{name}({parameters(value)})"]
    return [name]


def members(cls: type) -> list[str]:
    found: list[str] = []
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_"):
            continue
        if inspect.isfunction(value):
            found.append(f"{name}({parameters(value)})")
        elif isinstance(value, property):
            found.append(name)
    return found


def parameters(function: Callable[..., object]) -> str:
    shown: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        default = parameter.default
        shown.append(
            parameter.name if default is parameter.empty else f"{parameter.name}={default!r}"
        )
    return ", ".join(shown)
