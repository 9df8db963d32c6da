"""Copies that have been left behind, and logs that may have dropped what they missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.clock import SystemClock
from mustela.connectors.kafka import copies as lanes
from mustela.connectors.kafka.changelogs import _dropped_by, _taken_until
from mustela.connectors.kafka.copies import make_current
from mustela.model import TopicPartition
from mustela.spark.process import Process
from mustela.state.interfaces import Committed, StoreSpec, Token
from tests.unit.spark.test_lives import GROUP, STAGE, program

LOG = "app-counts-changelog"
PLACE = TopicPartition(LOG, GROUP)
DAY = 86_400_000
BASE = Token(1, 1, 0)


class Broker:
    """A changelog of which compaction has left some records.

    Args:
        appended: The time at which each record that is left was taken, by offset.
    """

    def __init__(self, appended: Mapping[int, int]) -> None:
        self.appended = appended
        self.asked: list[int] = []

    def offsets_for_times(self, times: Mapping[Any, int]) -> dict[Any, int | None]:
        assert set(times) == {PLACE}
        since = times[PLACE]
        self.asked.append(since)
        young = (offset for offset, stamp in sorted(self.appended.items()) if stamp >= since)
        return {PLACE: next(young, None)}

    def close(self) -> None:
        """Nothing is open."""


def restored_from(
    tmp_path: Path,
    patch: pytest.MonkeyPatch,
    broker: Broker,
    *,
    age: int = DAY // 2,
    time_ms: int = 0,
    base_ms: int = 0,
) -> int:
    """Let a worker make current what stands at offset 10 of 20; return where it begins to read."""
    made = replace(program(tmp_path, "life"), stale_after_ms={LOG: age})
    process = Process(0, made, _admin=broker)  # type: ignore[arg-type]
    environment = process.environment(STAGE, GROUP)
    environment.write_pending(BASE, Committed(), {"counts": [(b"deleted since", b"1")]})
    environment.fold(Committed(token=BASE, changelog_ends={"counts": 10}, time_ms=base_ms))
    begun: list[int] = []

    def log(_client: Any, _topic: str, _group: int, start: int, *_: Any, **__: Any) -> Any:
        begun.append(start)
        return []

    patch.setattr(lanes, "read_between", log)
    state = Committed(token=Token(1, 2, 0), changelog_ends={"counts": 20}, time_ms=time_ms)
    make_current(process, STAGE, GROUP, state)
    process.close()
    return begun[0]


def test_a_copy_that_was_left_behind_long_before_the_last_start_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key group was last written soon after it, two days ago: only the log knows."""
    now = SystemClock().now_ms()
    broker = Broker({12: now - 2 * DAY, 19: now - 2 * DAY})
    old = {"time_ms": now - 2 * DAY + 1_000, "base_ms": now - 2 * DAY}
    assert restored_from(tmp_path, monkeypatch, broker, **old) == 0


def test_a_copy_whose_next_records_are_young_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have stood still for days: nothing was written meanwhile."""
    now = SystemClock().now_ms()
    broker = Broker({9: now - 9 * DAY, 10: now - 5_000, 19: now - 1_000})
    assert restored_from(tmp_path, monkeypatch, broker) == 10


def test_a_copy_is_rebuilt_where_compaction_took_what_it_has_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether a deletion was among it, or when."""
    now = SystemClock().now_ms()
    broker = Broker({9: now - 9 * DAY, 15: now - 5_000, 19: now - 1_000})
    assert restored_from(tmp_path, monkeypatch, broker) == 0


def test_the_settings_of_the_topic_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that keeps deletions for a minute is believed for half of one."""
    now = SystemClock().now_ms()
    broker = Broker({10: now - 60_000, 19: now - 60_000})
    assert restored_from(tmp_path, monkeypatch, broker, age=30_000) == 0


def test_of_two_clocks_the_later_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose clock was set back a day would take old records for young ones."""
    now = SystemClock().now_ms()
    broker = Broker({10: now, 19: now})
    ahead = now + 2 * DAY
    stamps = {"time_ms": ahead, "base_ms": ahead}
    assert restored_from(tmp_path, monkeypatch, broker, **stamps) == 0
    assert broker.asked == [ahead - DAY // 2]


def test_what_a_restore_that_was_cut_short_had_read_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker was killed days ago, with rows written and no position, and one is deleted since."""
    made = program(tmp_path, "life")
    process = Process(0, made, {}, _admin=Broker({}))  # type: ignore[arg-type]
    environment = process.environment(STAGE, GROUP)
    environment.restore("counts", [(b"deleted since", b"1"), (b"kept", b"1")], 0)

    def log(*_: Any, **__: Any) -> Any:
        return [(b"kept", b"2")]

    monkeypatch.setattr(lanes, "read_between", log)
    state = Committed(token=Token(1, 2, 0), changelog_ends={"counts": 20})
    made_current, _ = make_current(process, STAGE, GROUP, state)
    view = made_current.snapshot(state)
    assert list(view.range("counts", None, None)) == [(b"kept", b"2")]
    view.close()
    process.close()


HOUR = 3_600_000
NOW = 1_800_000_000_000
BY_AGE = {"cleanup.policy": "compact,delete", "retention.ms": str(25 * HOUR)}


@pytest.mark.parametrize(
    ("settings", "first", "written", "until"),
    [
        ({"cleanup.policy": "compact"}, NOW - 9 * HOUR, NOW, NOW - 8 * HOUR),
        ({"cleanup.policy": "compact"}, None, NOW - 2 * HOUR, NOW - HOUR),
        (BY_AGE, NOW - HOUR, NOW, NOW - 24 * HOUR),
        (BY_AGE, NOW - 40 * HOUR, NOW, NOW - 39 * HOUR),
        ({**BY_AGE, "retention.bytes": "1000"}, NOW - HOUR, NOW, NOW),
        ({**BY_AGE, "retention.ms": "-1"}, NOW - HOUR, NOW, NOW),
    ],
)
def test_rows_that_are_gone_are_as_young_as_they_may_be(
    monkeypatch: pytest.MonkeyPatch, settings, first, written, until
) -> None:
    """Older than the first that is left, or where age alone deletes than that age; an hour less."""
    monkeypatch.setattr(SystemClock, "now_ms", lambda _self: NOW)
    assert _taken_until(settings, first, written) == until


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        ({}, 10 * HOUR - 2 * HOUR - HOUR),
        ({"kind": "session", "window_ms": None}, -1),
        ({"kind": "timestamped_key_value", "window_ms": None, "retention_ms": None}, -1),
    ],
)
def test_only_windows_that_the_watermark_drops_may_be_gone(tmp_path: Path, changes, until) -> None:
    """Every other store deletes by itself what it does not need."""
    store = StoreSpec(
        **{"name": "w", "kind": "window", "retention_ms": 2 * HOUR, "window_ms": HOUR, **changes}
    )
    process = Process(0, program(tmp_path, "life"), watermark=10 * HOUR)
    assert _dropped_by(process, store) == until
    by_stream = replace(process.program, kernel={"event_time": "stream-time"})
    assert _dropped_by(Process(0, by_stream, watermark=10 * HOUR), store) == -1
