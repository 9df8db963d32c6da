"""Outcomes of calls to the outside that have come between two epochs, as the driver sees them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mustela.connectors.calls.spool import CallSpool, Spooled, waiting_in
from mustela.plan.epoch import EpochOrder, Program, TaskReport
from mustela.plan.plan import Plan
from mustela.topology.async_calls import AsyncNode

__all__ = ["Arrivals", "call_steps", "calls_root"]


def call_steps(plan: Plan) -> dict[str, int]:
    """Return the steps that call the outside, each with its stage."""
    return {
        step.name: stage.index
        for stage in plan.stages
        for step in stage.steps
        if isinstance(step.node, AsyncNode)
    }


def calls_root(program: Program) -> Path:
    """Return the directory in which the processes of a host leave outcomes to each other."""
    if program.spool_dir:
        return Path(program.spool_dir) / "calls"
    return Path(tempfile.gettempdir()) / f"mustela-{os.getuid()}-calls" / program.identity


class Arrivals:
    """Looks for outcomes that no epoch has been told of.

    Only where the workers share the driver's disk; else see `callers`.

    Args:
        program: What runs.
    """

    def __init__(self, program: Program) -> None:
        steps = call_steps(program.plan)
        root = calls_root(program)
        self._places = {CallSpool.of_step(root, step): stage for step, stage in steps.items()}
        self._known: dict[Path, set[Spooled]] = {path: set() for path in self._places}

    def tell(self, order: EpochOrder) -> EpochOrder:
        """Return an order as it is: lanes see for themselves."""
        return order

    def hear(self, reports: Iterable[TaskReport]) -> None:
        """Learn nothing."""

    def new(self) -> set[tuple[int, int]]:
        """Return the stages and key groups for which outcomes have come since the last look."""
        found: set[tuple[int, int]] = set()
        for path, stage in self._places.items():
            there = set(waiting_in(path))
            found.update((stage, name.group) for name in there - self._known[path])
            self._known[path] = there
        return found
