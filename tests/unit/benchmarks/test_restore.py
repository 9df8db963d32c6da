"""How long a restore took."""

from __future__ import annotations

from benchmarks.peers.base import Event
from benchmarks.restore import restore_seconds


def said(*pairs: tuple[str, float]) -> list[Event]:
    return [Event(name=name, time=time, fields={}) for name, time in pairs]


def test_a_restore_lasts_from_its_first_start_to_its_last_end() -> None:
    """Partitions are restored beside one another."""
    events = said(
        ("restore_start", 1), ("restore_start", 2), ("restore_end", 4), ("restore_end", 6)
    )
    assert restore_seconds(events, 99) == 5


def test_a_peer_that_says_nothing_is_timed_from_outside() -> None:
    """By what the restore cost its start; nothing when it cost nothing that could be seen."""
    assert restore_seconds(said(("running", 1)), 3.5) == 3.5
    assert restore_seconds([], -0.2) is None
