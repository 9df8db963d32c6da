"""What mustela-dev adds to the command line where it is installed, found by entry points alone.

A distribution adds a command by an entry point of the group `mustela.commands`: its name is the
command's, its value a function or a cyclopts App. The group `mustela.development` holds what the
library's own commands take from mustela-dev: Kafka's tools and the doctor's look at jars.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import mustela
from mustela.errors import UsageError

__all__ = [
    "DEVELOPMENT",
    "DevelopmentToolsError",
    "added_commands",
    "broker_line",
    "development_part",
    "install_line",
    "is_of_development",
    "missing",
]

DEVELOPMENT = "mustela-dev"
_COMMANDS = "mustela.commands"
_PARTS = "mustela.development"
_OF_DEVELOPMENT = ("broker", "demo")


class DevelopmentToolsError(UsageError):
    """A command belongs to mustela-dev, which is not installed, or not in the library's version."""

    code = "DEVELOPMENT_TOOLS"


def added_commands() -> dict[str, Any]:
    """Load what distributions add to the commands, by name."""
    return {entry.name: entry.load() for entry in entry_points(group=_COMMANDS) if _fits(entry)}


def development_part(name: str) -> Any | None:
    """Load a part of mustela-dev; None where it is not installed in the library's version."""
    found = [entry for entry in entry_points(group=_PARTS, name=name) if _fits(entry)]
    return found[0].load() if found else None


def _fits(entry: EntryPoint) -> bool:
    """Whether it may be loaded: mustela-dev knows the inside of one version of the library."""
    return _other_version(entry) is None


def _other_version(entry: EntryPoint) -> str | None:
    """Return the version of a mustela-dev that is not the library's."""
    if entry.dist is None or entry.dist.name != DEVELOPMENT:
        return None
    return None if entry.dist.version == mustela.__version__ else entry.dist.version


def install_line() -> str:
    """Return what to type to have mustela-dev."""
    return f"pip install {DEVELOPMENT}=={mustela.__version__}"


def broker_line() -> str:
    """Return what to type to have a development broker."""
    start = "mustela broker start"
    return start if "broker" in added_commands() else f"{install_line()} && {start}"


def is_of_development(command: str) -> bool:
    """Return whether a command exists where mustela-dev is installed."""
    return command in _OF_DEVELOPMENT or command.startswith("kafka-")


def missing(command: str) -> DevelopmentToolsError:
    """Return the error of a command that mustela-dev has and this environment has not."""
    others = {_other_version(entry) for entry in entry_points(group=_PARTS)} - {None}
    state = f"is installed in version {others.pop()}" if others else "is not installed"
    return DevelopmentToolsError(
        f"mustela {command} belongs to {DEVELOPMENT}, which {state}",
        evidence={"mustela": mustela.__version__},
        why="what only development needs is a second distribution, of the same version",
        fix=install_line(),
    )
