"""A worker looks for garbage by itself: cycles go, and little of its time does."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from mustela.spark import garbage
from mustela.spark.garbage import GarbageLooks


class _Cycle:
    """Refers to itself, so only a look frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def used_s(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What the process has worked, in seconds; each look takes one."""
    used = [0.0]
    collect = gc.collect

    def slow() -> int:
        used[0] += 1.0
        return collect()

    monkeypatch.setattr(garbage, "process_time", lambda: used[0])
    monkeypatch.setattr(gc, "collect", slow)
    yield used
    gc.enable()
    gc.unfreeze()


def _is_freed(looks: GarbageLooks) -> bool:
    cycle = weakref.ref(_Cycle())
    looks.between_tasks()
    return cycle() is None


def test_a_look_is_due_when_much_was_done_since_the_last_one(used_s: list[float]) -> None:
    """Fifty times what that one took."""
    looks = GarbageLooks()
    looks.take_over()
    assert not gc.isenabled()
    assert _is_freed(looks)
    assert not _is_freed(looks)
    used_s[0] += 49.0
    assert not _is_freed(looks)
    used_s[0] += 1.0
    assert _is_freed(looks)
    assert not _is_freed(looks)


def test_what_is_frozen_is_looked_at_no_more(used_s: list[float]) -> None:
    """Cycles that were there before are freed, those that are in use stay."""
    looks = GarbageLooks()
    looks.take_over()
    dropped = weakref.ref(_Cycle())
    looks.freeze()
    assert dropped() is None
    kept = _Cycle()
    looks.freeze()
    kept_too = weakref.ref(kept)
    del kept
    used_s[0] += 1_000.0
    looks.between_tasks()
    assert kept_too() is not None
