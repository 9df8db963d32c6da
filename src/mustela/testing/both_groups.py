"""Runs a topology twice, in one key group and in many, and finds steps whose results differ."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

from mustela.plan.batch import Batch
from mustela.plan.plan import Plan
from mustela.testing.faults import GroupsDifferError, TestDriverError

__all__ = ["MANY_GROUPS", "BothGroups", "Tap", "check_both"]

MANY_GROUPS = 32
"""Key groups of the second run; the default of an application."""

_SHOWN_MAX = 3

Given = tuple[Any, Any, int]
"""Key, value and timestamp."""


class Tap:
    """Collects what each step forwards."""

    def __init__(self) -> None:
        self._given: dict[str, list[Given]] = {}

    def __call__(self, step: str, batch: Batch) -> None:
        """Keep a copy of what a step forwarded."""
        rows = zip(batch.keys, batch.values, batch.timestamps, strict=True)
        self._given.setdefault(step, []).extend(map(_kept, rows))

    def take(self) -> dict[str, list[Given]]:
        """Return what was forwarded since the last call, by step."""
        given, self._given = self._given, {}
        return given


class _Follower(Protocol):
    def close(self) -> None: ...


class _Run(NamedTuple):
    groups: int
    tap: Tap


class BothGroups:
    """The second run of a topology, which repeats what the first one does.

    Args:
        plan: The plan.
        first: Key groups of the first run, and its tap.
        second: The same of the second run.
        driver: The driver of the second run.
    """

    def __init__(
        self, plan: Plan, first: tuple[int, Tap], second: tuple[int, Tap], driver: _Follower
    ) -> None:
        self._steps = [step for stage in plan.stages for step in stage.steps]
        self._first, self._second = _Run(*first), _Run(*second)
        self.driver: Any = driver

    def follow(self, method: str, *given: Any, **named: Any) -> None:
        """Repeat what the first run did, and compare the results.

        Raises:
            GroupsDifferError: If a step forwarded something different.
        """
        getattr(self.driver, method)(*given, **named)
        self.compare()

    def compare(self) -> None:
        """Compare what steps forwarded since the last call, in program order.

        Raises:
            GroupsDifferError: For the first step that differs.
        """
        mine, others = self._first.tap.take(), self._second.tap.take()
        for step in self._steps:
            only_mine, only_others = _apart(mine.get(step.name, ()), others.get(step.name, ()))
            if only_mine or only_others:
                raise self._differ(step, only_mine, only_others)

    def _differ(self, step: Any, mine: list[Given], others: list[Given]) -> GroupsDifferError:
        one, many = self._first.groups, self._second.groups
        return GroupsDifferError(
            f"step {step.name!r} gives different results in {many} key groups than in {one}",
            evidence={
                f"only with {one}": _shown(mine),
                f"only with {many}": _shown(others),
            },
            at=step.node.origin,
            why="state, timers and stream time belong to a key group: what a step keeps under a "
            "key other than its record's, or in its own attributes, is kept once per group",
            fix="key the records by what the step stores: select_key(...) or group_by(...) before "
            "it, or group_all() for a single count",
            fields={"step": step.name},
        )


def check_both(groups: object, *, hold_calls: bool) -> None:
    """Check the ``groups`` argument of a test driver.

    Raises:
        TestDriverError: If it is not ``both``, or is combined with held calls.
    """
    if groups != "both":
        msg = f"groups cannot be {groups!r}"
        raise TestDriverError(msg, fix='write groups="both", or key_groups= with a number')
    if hold_calls:
        msg = "calls cannot be held with two runs"
        raise TestDriverError(msg, fix='leave out hold_calls=True, or groups="both"')


def _kept(row: Given) -> Given:
    try:
        return deepcopy(row)
    except Exception:  # noqa: BLE001 - what cannot be copied is compared as it is
        return row


def _apart(mine: Iterable[Given], others: Iterable[Given]) -> tuple[list[Given], list[Given]]:
    """Return the rows that only one of the two has, regardless of order."""
    rest = list(others)
    only: list[Given] = []
    for row in mine:
        if row in rest:
            rest.remove(row)
        else:
            only.append(row)
    return only, rest


def _shown(rows: list[Given]) -> str:
    told = [f"{key!r}: {value!r} at {timestamp}" for key, value, timestamp in rows[:_SHOWN_MAX]]
    more = len(rows) - _SHOWN_MAX
    return (", ".join(told) or "nothing") + (f", and {more} more" if more > 0 else "")
