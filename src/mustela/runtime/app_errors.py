"""Errors of an application before it runs."""

from __future__ import annotations

from collections.abc import Iterable

from mustela.errors import UsageError
from mustela.topology.checks import unnamed_stateful_steps
from mustela.topology.node import Node

__all__ = ["AppStateError", "NoTopologyError", "UnnamedStepError", "refuse_unnamed"]


class NoTopologyError(UsageError):
    """The application has no topology."""

    code = "APP_NO_TOPOLOGY"


class AppStateError(UsageError):
    """The call is not possible in the application's current state."""

    code = "APP_STATE"


class UnnamedStepError(UsageError):
    """A stateful step has no explicit name, so a change of the program could lose its state."""

    code = "APP_UNNAMED_STEP"


def refuse_unnamed(nodes: Iterable[Node]) -> None:
    """Refuse stateful steps without an explicit name.

    Raises:
        UnnamedStepError: If there is one.
    """
    unnamed = unnamed_stateful_steps(nodes)
    if unnamed:
        first = unnamed[0]
        msg = f"the stateful step {first.name} has no name of its own"
        raise UnnamedStepError(
            msg,
            at=first.origin,
            why="state and changelog are found by this name; a name derived from the program's "
            "shape changes with it, and the state is lost",
            fix='give store="…" or name="…", or set naming.strict to false',
            fields={"steps": [node.name for node in unnamed]},
        )
