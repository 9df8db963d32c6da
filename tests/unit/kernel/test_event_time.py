"""The clocks of operators, without an operator."""

from __future__ import annotations

from typing import Any

from mustela.kernel.core.event_time import Move, StreamTimeClock, WallClock, WatermarkClock
from mustela.kernel.core.lane_state import LaneState, LaneStore
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.time import EpochTime
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay


def store() -> LaneStore:
    place = EnvironmentSpec(
        application_id="app", stage="s", group=0, groups=1, stores=(StoreSpec(name="t"),)
    )
    overlay = Overlay(MemoryEnvironment(place).snapshot(Committed()))
    return LaneState({0: overlay}, key_groups=1).store("t")


def rows(*times: int) -> tuple[Batch, list[bytes]]:
    """Rows of one key, whose places in the order of records are their own times."""
    order: list[Order] = [(time, 0, 0, offset) for offset, time in enumerate(times)]
    keys = [b"k"] * len(times)
    values: list[Any] = list(times)
    return Batch(keys, values, Origins(list(times), None, order), key_bytes=keys), keys


def test_rows_do_not_move_the_watermark() -> None:
    """They are judged by their places, and behind them all it is as late as the epoch's end."""
    clock = WatermarkClock(EpochTime(before=5, watermark=20), lag_ms=2)
    assert clock.row_times(*rows(3, 9, 7, 30)) == [3, 7, 5, 18]
    assert clock.passed_by(*rows(3, 9)) is None
    assert clock.move(0, 30) is None
    assert clock.at(0, (9, 0, 0, 1)) == 7
    assert clock.at(0, None) == 3
    assert clock.closed_until(0) == 18
    assert clock.save() == []
    assert clock.kept_ms(needed=50, retained=60) == 50


def test_rows_move_stream_time_and_never_back() -> None:
    """Each row is judged by the largest timestamp up to itself."""
    clock = StreamTimeClock(store())
    assert clock.closed_until(0) == -1
    assert clock.row_times(*rows(3, 9, 7)) == [3, 9, 9]
    assert clock.passed_by(*rows(8, 12)) == [9, 12]
    assert [clock.move(0, 10), clock.move(0, 13)] == [12, 13]
    assert clock.at(0, (1, 0, 0, 1)) == clock.closed_until(0) == 13
    assert clock.kept_ms(needed=50, retained=60) == 59


def test_stream_time_goes_on_in_the_next_epoch_where_it_is_kept() -> None:
    """What did not move is not written, and no key group has moved twice."""
    kept = store()
    clock = StreamTimeClock(kept)
    assert clock.save() == []
    clock.row_times(*rows(9, 7))
    assert [clock.save(), clock.save()] == [[0], []]
    again = StreamTimeClock(kept)
    assert again.move(0, 8) == 9
    assert again.save() == []
    assert StreamTimeClock(None).closed_until(0) == -1


def test_it_is_known_which_row_moved_stream_time() -> None:
    """Where somebody wants to know: the first row with which time was that far."""
    clock, (batch, keys) = StreamTimeClock(store()), rows(5, 20, 15, 30)
    clock.keep_moves()
    clock.row_times(batch, keys)
    assert clock.moved_to(0, 6) == clock.moved_to(0, 20) == Move((20, 0, 0, 1), 1)
    assert clock.moved_to(0, 21) == Move((30, 0, 0, 3), 3)
    assert clock.moved_to(0, 31) is None
    assert WatermarkClock(EpochTime(watermark=50)).moved_to(0, 6) is None


def test_the_wall_clock_stands_still_in_an_epoch() -> None:
    """Whatever the records say."""
    clock = WallClock(EpochTime(before=5, watermark=20, now_ms=1_000))
    assert clock.row_times(*rows(3, 2_000)) == [1_000, 1_000]
    assert clock.passed_by(*rows(2_000)) is None
    assert clock.move(0, 2_000) is None
    assert clock.at(0, None) == clock.closed_until(0) == 1_000
