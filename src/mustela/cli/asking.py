"""How commands that change an application show what they will do, and ask."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from mustela.cli.console import Bootstrap, Json, say
from mustela.errors import UsageError

__all__ = ["Application", "Manner", "NotConfirmedError", "confirm"]

Application = Annotated[str, Parameter(name="MODULE:APP|APPLICATION-ID")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a change is made.

    Attributes:
        yes: Do not ask.
        dry_run: Only show what would be done.
        force: Go ahead even if an instance is running.
        json: Print what is done as JSON.
        bootstrap_servers: The brokers.
    """

    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do not ask.")] = False
    dry_run: Annotated[
        bool, Parameter(name="--dry-run", negative=(), help="Only show what would be done.")
    ] = False
    force: Annotated[
        bool, Parameter(name="--force", negative=(), help="End a running instance.")
    ] = False
    json: Json = False
    bootstrap_servers: Bootstrap = None


class NotConfirmedError(UsageError):
    """A change was not confirmed."""

    code = "NOT_CONFIRMED"


def confirm(
    told: Iterable[str], *, what: str, error: type[NotConfirmedError] = NotConfirmedError
) -> None:
    """Show what is to be done, and go on only after a yes.

    Args:
        told: What is to be done, a line each.
        what: What is not done without a yes.
        error: What is raised without one.

    Raises:
        NotConfirmedError: If there is none.
    """
    say("\n".join(told))
    if not sys.stdin.isatty():
        text = f"{what} without confirmation"
        raise error(text, fix="add --yes")
    say("type yes to continue:")
    if sys.stdin.readline().strip().lower() not in {"yes", "y"}:
        raise error(what)
