"""The reference page of the errors says what the classes say."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import mustela
import mustela_dev
from mustela.errors import (
    DataError,
    EnvironmentFault,
    InvariantError,
    MustelaError,
    UsageError,
    all_codes,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"

HEAD = """# Errors

This page is generated from the error classes; `./dev golden-update` renews it.

Every error says what happened, with values, then the evidence, the line of your program (`at`), why
it is an error, how to fix it, and its code. Codes are stable: look for them here, and test for
them in programs (`error.code`), never for the text. `error.fields` holds values for programs.

There are four families, each a class that can be imported from `mustela`. `mustela run` and the
other commands exit with 2 for a `UsageError`, 3 for an `EnvironmentFault`, 4 when another instance
took over (`FENCED`: do not start again), and 1 for the rest.
"""

FAMILIES: dict[type[MustelaError], str] = {
    UsageError: "The program or its settings are wrong. Raised before anything runs.",
    DataError: "One record cannot be handled. Handlers decide: `fail`, `continue`, `dead_letter`.",
    EnvironmentFault: "The broker, Spark, Java or the disk failed. *Again* says whether the same"
    " may work later (`error.retryable`); Mustela tries those again by itself, within limits.",
    InvariantError: "A promise of Mustela's own is broken: a bug, or something else changed its"
    " topics or files.",
}


def sentence(kind: type[MustelaError]) -> str:
    """Return the first paragraph of a class's description, on one line, as Markdown."""
    paragraph = (inspect.getdoc(kind) or "").split("\n\n")[0]
    text = " ".join(paragraph.replace("``", "`").split()).replace("|", "\\|")
    return re.sub(r";? ?`fields` as in .*", "", text).rstrip(".") + "."


def render() -> str:
    """Return the page."""
    for package in (mustela, mustela_dev):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    known = sorted(
        (code, kind)
        for code, kind in all_codes().items()
        if kind.__module__.startswith(("mustela.", "mustela_dev."))
    )
    parts = [HEAD]
    for family, text in FAMILIES.items():
        again = family is EnvironmentFault
        parts.append(f"\n## {family.__name__}\n\n{text}\n\n")
        parts.append("| Code | Meaning |" + (" Again |" if again else "") + "\n")
        parts.append("|---|---|" + ("---|" if again else "") + "\n")
        for code, kind in known:
            if issubclass(kind, family):
                yes = (" yes |" if kind.retryable else " |") if again else ""
                parts.append(f"| `{code}` | {sentence(kind)} |{yes}\n")
    return "".join(parts)


def test_the_errors_page_is_what_the_classes_say(request: pytest.FixtureRequest) -> None:
    """docs/reference/errors.md is generated; nobody edits it by hand."""
    text = render()
    if request.config.getoption("--golden-update"):
        PAGE.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == text, "write it anew with: ./dev golden-update -k errors_page"
