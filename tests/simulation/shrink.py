"""Makes a failing script short: events are left out as long as it fails in the same way."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.invariants import NOT_HELD
from tests.simulation.play import play
from tests.simulation.script import Event, Script

__all__ = ["shrink"]

PLAYS_MAX = 250


def shrink(
    script: Script, invariant: str, *, alone: bool = False, plays_max: int = PLAYS_MAX
) -> Script:
    """Return a script that violates the same invariant with as few events as could be found.

    Args:
        script: A script that violates it.
        invariant: The invariant.
        alone: Without it the script violates nothing, and goes on to do so.
        plays_max: How many shorter scripts are tried.
    """
    plays = 0

    def fails(events: list[Event]) -> bool:
        nonlocal plays
        plays += 1
        tried = replace(script, events=tuple(events))
        found = play(tried).violations
        if not found or found[0].invariant != invariant:
            return False
        return not alone or not play(tried, off=NOT_HELD | {invariant}).violations

    events = list(script.events)
    size = len(events) // 2
    while size and plays < plays_max:
        start = 0
        while start < len(events) and plays < plays_max:
            fewer = events[:start] + events[start + size :]
            if fails(fewer):
                events = fewer
            else:
                start += size
        size //= 2
    for index, event in enumerate(events):
        if event.kind != "produce":
            continue
        topic, partition, rows, how = event.args
        while len(rows) > 1 and plays < plays_max:
            fewer = [*events]
            fewer[index] = replace(event, args=(topic, partition, rows[: len(rows) // 2], how))
            if not fails(fewer):
                break
            rows, events = rows[: len(rows) // 2], fewer
    return replace(script, events=tuple(events))
