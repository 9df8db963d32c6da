"""Buffers and timers as bytes, against dicts and lists."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.buffer import RecordBuffer, SlotBuffer, WeighedSlotBuffer
from mustela.state.kinds.layout import STREAM_TIME, RowView, key_row
from mustela.state.kinds.lru import LruView
from mustela.state.kinds.timer import StoredTimer, TimerRows
from tests.unit.state.epochs import KEYS, backends, keys, steps, world

BUFFER = StoreSpec(name="b", kind="buffer")
TIMER = StoreSpec(name="t", kind="timer")

times = st.integers(-5, 30)
values = st.binary(max_size=3)


@given(
    backends,
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.lists(st.tuples(keys, times, values), max_size=3)),
            st.tuples(st.just("remove"), st.lists(keys, max_size=2)),
            st.tuples(st.just("weigh"), st.booleans()),
            steps,
        ),
        max_size=25,
    ),
    times,
)
def test_slots_are_those_of_a_dict(backend, ops, until):
    """The first time of a key stays its slot, the last value stays its value.

    What they weigh is right also where some who changed them did not weigh them.
    """
    model: dict[bytes, tuple[int, bytes]] = {}
    with world(backend, BUFFER) as epochs:
        epochs.view.put(STREAM_TIME, b"time")
        weighs = False
        for op in ops:
            buffer = _weighed(epochs.view) if weighs else SlotBuffer(epochs.view)
            match op:
                case "weigh", weighs:
                    pass
                case "put", rows:
                    buffer.put_many(
                        *([list(column) for column in zip(*rows, strict=True)] or [[], [], []])
                    )
                    for key, time, value in rows:
                        model[key] = (model[key][0] if key in model else time, value)
                case "remove", gone:
                    buffer.remove(gone)
                    for key in gone:
                        model.pop(key, None)
                case (step,):
                    epochs.step(step)
        buffer = _weighed(epochs.view) if weighs else SlotBuffer(epochs.view)
        expected = sorted((time, key, value) for key, (time, value) in model.items())
        assert list(buffer.due()) == expected
        assert list(buffer.due(until)) == [row for row in expected if row[0] <= until]
        assert buffer.oldest() == (expected[0] if expected else None)
        assert buffer.load_many(KEYS) == [model.get(key) for key in KEYS]
        assert buffer.count == len(model)
        assert buffer.bytes == sum(len(key) + len(value) for _, key, value in expected)
        weight = sum(len(key) + 9 * sum(value) for _, key, value in expected)
        assert _weighed(epochs.view).weight == weight
        assert epochs.view.get(STREAM_TIME) == b"time"


def _weighed(view: RowView) -> WeighedSlotBuffer:
    return WeighedSlotBuffer(view, lambda key, value: len(key) + 9 * sum(value))


@given(
    backends,
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.lists(st.tuples(keys, times, values), max_size=3)),
            st.tuples(st.just("take"), times),
            steps,
        ),
        max_size=25,
    ),
    times,
)
def test_waiting_records_are_those_of_a_list(backend, ops, until):
    """They leave by time, then by key, then as they came, whatever their keys begin with."""
    model: list[tuple[int, bytes, int, bytes]] = []
    sequence = 0
    with world(backend, BUFFER) as epochs:
        for op in ops:
            buffer = RecordBuffer(epochs.view)
            match op:
                case "put", rows:
                    buffer.put_many(
                        *([list(column) for column in zip(*rows, strict=True)] or [[], [], []])
                    )
                    for key, time, value in rows:
                        model.append((time, key, sequence, value))
                        sequence += 1
                case "take", now:
                    due = sorted(row for row in model if row[0] <= now)
                    model = [row for row in model if row[0] > now]
                    taken = buffer.take_due(now)
                    assert taken == [(time, key, value) for time, key, _, value in due]
                case (step,):
                    epochs.step(step)
        buffer = RecordBuffer(epochs.view)
        expected = [(time, key, value) for time, key, _, value in sorted(model)]
        assert list(buffer.due()) == expected
        assert list(buffer.due(until)) == [row for row in expected if row[0] <= until]
        assert buffer.next_time() == (expected[0][0] if expected else None)
        assert buffer.count == len(expected)
        assert buffer.bytes == sum(len(key) + len(value) for _, key, value in expected)


names = st.sampled_from([b"", b"n", b"n\x00"])


@given(
    backends,
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.lists(st.tuples(times, keys, names, values), max_size=3)),
            st.tuples(st.just("delete"), keys, names),
            st.tuples(st.just("take"), times),
            steps,
        ),
        max_size=25,
    ),
    times,
)
def test_timers_are_those_of_a_dict(backend, ops, until):
    """One for each key and name, fired by time, then by key, then by name."""
    model: dict[tuple[bytes, bytes], StoredTimer] = {}
    with world(backend, TIMER) as epochs:
        for op in ops:
            timers = TimerRows(epochs.view)
            match op:
                case "set", fresh:
                    timers.register_many(StoredTimer(*timer) for timer in fresh)
                    model |= {
                        (key, name): StoredTimer(t, key, name, d) for t, key, name, d in fresh
                    }
                case "delete", key, name:
                    assert timers.delete(key, name) is ((key, name) in model)
                    model.pop((key, name), None)
                case "take", now:
                    due = sorted(timer for timer in model.values() if timer.time <= now)
                    model = {place: t for place, t in model.items() if t.time > now}
                    assert timers.take_due(now) == due
                case (step,):
                    epochs.step(step)
        timers = TimerRows(epochs.view)
        expected = sorted(model.values())
        assert list(timers.due()) == expected
        assert list(timers.due(until)) == [timer for timer in expected if timer.time <= until]
        assert timers.next_time() == (expected[0].time if expected else None)
        for timer in expected:
            assert timers.time_of(timer.key, timer.name) == timer.time
        assert timers.time_of(b"unknown") is None


def test_the_name_of_a_timer_has_a_limit():
    """Its length is kept in two bytes."""
    with (
        world("memory", TIMER) as epochs,
        pytest.raises(StoreError, match="name of a timer"),
    ):
        TimerRows(epochs.view).register_many([StoredTimer(1, b"k", b"n" * 70_000)])


@given(
    backends,
    st.integers(1, 3),
    st.lists(
        st.one_of(
            st.tuples(
                st.just("put"),
                st.lists(st.tuples(keys, st.one_of(st.none(), values)), max_size=4),
            ),
            steps,
        ),
        max_size=25,
    ),
)
def test_the_keys_used_last_are_those_of_an_ordered_dict(backend, most, ops):
    """The others are forgotten, in the store and in its changelog."""
    model: dict[bytes, bytes] = {}
    with world(backend, StoreSpec(name="s", max_entries=most)) as epochs:
        for op in ops:
            match op:
                case "put", rows:
                    LruView(epochs.view, most).put_many(rows)
                    for key, value in dict(rows).items():
                        model.pop(key, None)
                        if value is not None:
                            model[key] = value
                    model = dict(list(model.items())[-most:])
                case (step,):
                    epochs.step(step)
        recent = LruView(epochs.view, most)
        assert list(recent.range()) == sorted(model.items())
        assert list(recent.range(reverse=True)) == sorted(model.items(), reverse=True)
        assert recent.getmulti(KEYS) == [model.get(key) for key in KEYS]
        assert recent.count() == len(model)
        assert recent.first() == min(model.items(), default=None)
        epochs.commit()
        recent = LruView(epochs.view, most)
        recent.delete(b"a")
        recent.expire([b"ab"])
        before = recent.before_many([b"a", b"ab"])
        assert before == [model.get(b"a"), model.get(b"ab")]
        assert recent.getmulti([b"a", b"ab"]) == [None, None]


@pytest.mark.parametrize("lost", [b"\x00n", b"\x00w", key_row(b"a")])
def test_rows_that_contradict_each_other_are_named(lost: bytes) -> None:
    """A copy that lacks a row of its changelog is no error of Python's in the middle of a step."""
    with world("memory", BUFFER) as epochs:
        _weighed(epochs.view).put_many([b"a", b"b"], [1, 2], [b"1", b"2"])
        epochs.view.put(lost, (0).to_bytes(8, "big") if lost == b"\x00w" else None)
        buffer, plain = _weighed(epochs.view), SlotBuffer(epochs.view)
        with pytest.raises(InvariantError, match="contradict each other"):
            buffer.remove(row.key for row in plain.due())
