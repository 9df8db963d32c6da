"""The reference pages of the command line say what ``--help`` and the exit codes say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mustela.cli.console import ExitCode, exit_code_of
from mustela.cli.main import own_commands
from mustela.errors import MustelaError, all_codes
from tests.golden.test_errors_reference import render as import_all

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
HEAD = """# Commands

This page is written from the commands of `mustela`, as `mustela COMMAND --help` shows them;
`./dev golden-update` renews it. `MODULE:APP` is the module of a program and the name of the `App`
in it, as in `shop:app`; commands that change an application also take its id. `--json` prints one
document per line on standard output; messages and errors go to standard error, and the
[exit codes](exit_codes.md) are the same for all commands. `mustela-dev` adds `broker`, `demo` and
Kafka's own tools.

"""
EXIT_HEAD = """# Exit codes

This page is written from the error classes; `./dev golden-update` renews it. How supervisors use
these codes is in [running](../guides/running.md).

"""
MEANINGS = {
    ExitCode.OK: "Done. `mustela run`: stopped as asked; the last epoch is committed.",
    ExitCode.FAULT: "A fault in data or program, or a bug. `mustela doctor`: something is wrong.",
    ExitCode.USAGE: "Wrong usage: arguments, settings, topics, names, or a program that does not "
    "fit its state. The same start fails in the same way until that is corrected.",
    ExitCode.ENVIRONMENT: "Broker, Spark, Java, memory, disk, or a hook of the program's. It may "
    "pass: start again, after a pause. Also the exit code of `stall.action: exit`.",
    ExitCode.FENCED: "Another instance took over. Starting again would end that one.",
    ExitCode.UNFINISHED: "Stopped as asked, but the last epoch did not finish within "
    "`shutdown.grace`. It runs again at the next start.",
    ExitCode.STOPPED: "`mustela status`: no instance runs; the last one stopped as it was asked "
    "to. What an instance said of its end is kept for an hour; after that a failed one counts as "
    "stopped.",
    ExitCode.GONE: "`mustela status`: the last instance failed, or it is gone and never said "
    "that it ended.",
    ExitCode.NEVER_RAN: "`mustela status`: nothing is known of the application on these brokers: "
    "it never ran, or its id is another.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C before an application ran, or in another command.",
}


def commands_page() -> str:
    """Return the page of the library's commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["mustela"])  # usage is told with the name that was typed
        text = own_commands().generate_docs()
    text = text.replace("```console", "```text")
    return HEAD + text[text.index("## mustela run") :].rstrip() + "\n"


def exit_codes_page() -> str:
    """Return the page of the exit codes, each with the error codes that lead to it."""
    import_all()
    kinds = {
        code: kind
        for code, kind in all_codes().items()
        if kind.__module__.startswith(("mustela.", "mustela_dev."))
    }
    parts = [EXIT_HEAD, "| Exit code | Means |\n|---|---|\n"]
    parts += [f"| {code.value} | {MEANINGS[code]} |\n" for code in ExitCode]
    for exit_code in ExitCode:
        leads = sorted(code for code, kind in kinds.items() if _code_of(kind) is exit_code)
        if leads:
            codes = "".join(f"- `{code}`\n" for code in leads)
            parts.append(f"\n## {exit_code.value}\n\n{codes}")
    return "".join(parts)


def _code_of(kind: type[MustelaError]) -> ExitCode:
    error = kind.__new__(kind)
    MustelaError.__init__(error, "it failed")
    return exit_code_of(error)


@pytest.mark.parametrize(
    ("name", "render"), [("commands", commands_page), ("exit_codes", exit_codes_page)]
)
def test_the_command_line_pages_are_what_the_commands_say(
    name: str, render: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    """They are generated; nobody edits them by hand."""
    text, page = render(), REFERENCE / f"{name}.md"
    if request.config.getoption("--golden-update"):
        page.write_text(text, encoding="utf-8")
    written = page.read_text(encoding="utf-8") if page.exists() else ""
    assert written == text, "write it anew with: ./dev golden-update -k command_line_pages"


def test_each_exit_code_and_each_error_is_on_the_page() -> None:
    """Nobody can add one without saying what a supervisor is to do."""
    page = (REFERENCE / "exit_codes.md").read_text(encoding="utf-8")
    assert {f"| {code.value} |" for code in ExitCode} <= {
        line[: line.index("|", 2) + 1] for line in page.splitlines() if line.startswith("| ")
    }
    assert "`FENCED`" in page.partition("## 4")[2].partition("## 5")[0]
