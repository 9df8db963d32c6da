"""The public names of the DSL: a change of this list is a change of what users rely on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module

import mustela

MODULES = [
    *("mustela.dsl.builder", "mustela.dsl.kstream", "mustela.dsl.ktable", "mustela.dsl.grouped"),
    *("mustela.dsl.options", "mustela.topology.graph", "mustela.topology.errors"),
    *("mustela.topology.checks", "mustela.planner.planner", "mustela.planner.explain"),
    *("mustela.planner.options", "mustela.dsl.routing", "mustela.topology.timestamps"),
    *("mustela.dsl.stream_joins", "mustela.dsl.join_windows", "mustela.dsl.stream_table_join"),
    *("mustela.dsl.table_joins", "mustela.dsl.foreign_key_join", "mustela.dsl.globalktable"),
    *("mustela.dsl.windows", "mustela.dsl.windowed", "mustela.dsl.suppression"),
    *("mustela.dsl.table_grouping", "mustela.dsl.grouped_table", "mustela.dsl.cogroup"),
    *(
        "mustela.dsl.stores",
        "mustela.dsl.upgrades",
        "mustela.topology.schedule",
        "mustela.topology.scheduled",
    ),
    *("mustela.dsl.processed", "mustela.dsl.processing", "mustela.dsl.transacted"),
    *("mustela.topology.watermarks", "mustela.dsl.aggregates", "mustela.dsl.said"),
    *("mustela.dsl.async_calls", "mustela.topology.async_calls", "mustela.topology.request_reply"),
    "mustela.dsl.distinct",
]


def test_what_a_module_of_the_dsl_gives_is_looked_at() -> None:
    """Each name that the package itself offers from the DSL stands in one of the modules."""
    modules = {import_module(name) for name in MODULES}
    offered = [name for name in mustela.__all__ if _home(name).startswith("mustela.dsl.")]
    for name in offered:
        assert any(name in module.__all__ for module in modules), name


def _home(name: str) -> str:
    return getattr(getattr(mustela, name), "__module__", "")


def test_the_names_of_the_package(golden: Callable[[str, str], None]) -> None:
    """What ``from mustela import ...`` knows."""
    golden("public_names/package.txt", "\n".join(sorted(mustela.__all__)))


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
