"""Makes a failing script short: events are left out as long as it fails in the same way."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.play import play
from tests.simulation.script import Event, Script

__all__ = ["shrink"]

PLAYS_MAX = 250


def shrink(script: Script, invariant: str) -> Script:
    """Return a script that violates the same invariant with as few events as could be found."""
    plays = 0

    def fails(events: list[Event]) -> bool:
        nonlocal plays
        plays += 1
        found = play(replace(script, events=tuple(events))).violations
        return bool(found) and found[0].invariant == invariant

    events = list(script.events)
    size = len(events) // 2
    while size and plays < PLAYS_MAX:
        start = 0
        while start < len(events) and plays < PLAYS_MAX:
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
        while len(rows) > 1 and plays < PLAYS_MAX:
            fewer = [*events]
            fewer[index] = replace(event, args=(topic, partition, rows[: len(rows) // 2], how))
            if not fails(fewer):
                break
            rows, events = rows[: len(rows) // 2], fewer
    return replace(script, events=tuple(events))
