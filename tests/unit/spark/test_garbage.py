"""A worker looks for garbage by itself: cycles go, and little of its time does."""

from __future__ import annotations

import gc
import subprocess
import sys
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


def test_what_was_freed_is_given_back() -> None:
    """In a process of its own: what others hold there would decide how much is."""
    program = """
from mustela.processes import resident_bytes
from mustela.spark.garbage import GARBAGE
import os
blocks = [bytes(4_000) for _ in range(20_000)]
top = bytes(4_000)
full = resident_bytes(os.getpid())
del blocks
kept = resident_bytes(os.getpid())
given = GARBAGE.give_back()
print(given, full - kept < 20 << 20, kept - resident_bytes(os.getpid()) > 40 << 20)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert told.stdout.split() == [b"True", b"True", b"True"]
