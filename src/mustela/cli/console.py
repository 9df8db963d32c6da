"""How commands print: tables for people, JSON for programs, errors as their text."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mustela.errors import EnvironmentFault, MustelaError, UsageError
from mustela.logs.redaction import redact_text

__all__ = [
    "Bootstrap",
    "ExitCode",
    "Json",
    "exit_code_of",
    "print_json",
    "print_table",
    "say",
    "show_error",
    "table_text",
]

Json = Annotated[
    bool, Parameter(name="--json", negative=(), help="Print JSON, one document per line.")
]
Bootstrap = Annotated[
    str | None,
    Parameter(
        name=["--bootstrap-servers", "-b"],
        help="Brokers to connect to, host:port; by default the setting bootstrap_servers.",
    ),
]


class ExitCode(int, Enum):
    """What a command's exit code means.

    Whoever restarts an application by itself should do so after 1 and 3, never after 4: another
    instance has taken over then. After 5 it was stopped as it was asked to, but its last epoch was
    not done in time, and runs again with the next start. 10 to 12 are answers of ``mustela status``
    alone.
    """

    OK = 0
    FAULT = 1
    USAGE = 2
    ENVIRONMENT = 3
    FENCED = 4
    UNFINISHED = 5
    STOPPED = 10
    GONE = 11
    NEVER_RAN = 12
    INTERRUPTED = 130


_FENCED_CODE = "FENCED"
_UNFINISHED_CODE = "SHUTDOWN_UNFINISHED"


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code that an error leads to."""
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, MustelaError) and error.code == _FENCED_CODE:
        return ExitCode.FENCED
    if isinstance(error, MustelaError) and error.code == _UNFINISHED_CODE:
        return ExitCode.UNFINISHED
    if isinstance(error, UsageError):
        return ExitCode.USAGE
    if isinstance(error, EnvironmentFault):
        return ExitCode.ENVIRONMENT
    return ExitCode.FAULT


def say(text: str) -> None:
    """Tell the user something that is no result, on standard error."""
    print(text, file=sys.stderr, flush=True)


def show_error(error: BaseException, *, debug: bool, secrets: Sequence[str] = ()) -> None:
    """Print an error as its text; its stack only when debugging.

    Args:
        error: The error.
        debug: Whether the stack is wanted.
        secrets: Texts to mask, beside what looks like a secret.
    """

    def tell(text: str) -> None:
        say(redact_text(text, secrets))

    if debug:
        tell("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, MustelaError):
        tell(f"error: {error}")
    elif not isinstance(error, KeyboardInterrupt):
        more = "" if debug else "; --debug shows where"
        tell(f"error: {type(error).__name__}: {error}{more}")


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document on one line."""
    print(json.dumps(value, default=_plain, ensure_ascii=False), flush=True)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table for people."""
    print(table_text(head, rows), flush=True)


def table_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a table: columns as wide as they must be, the last one free.

    Example:
        >>> print(table_text(["topic", "records"], [["lines", 3], ["counts", 12]]))
        topic   records
        lines   3
        counts  12
    """
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)
