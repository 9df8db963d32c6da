"""The benchmark of timers measures what it says."""

from __future__ import annotations

from pathlib import Path

from benchmarks.timers import RECORDS, measure


def test_pending_timers_are_measured_beside_none_and_fire_when_they_are_due(tmp_path: Path):
    """A small run has every figure; that each due timer fired is checked inside."""
    found = measure(2_000, 1, tmp_path)
    assert found["fired, timers/s"] > 0
    assert f"epoch of {RECORDS} records, ratio" in found
    assert all(figure > 0 for figure in found.values())
