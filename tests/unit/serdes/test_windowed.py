"""Serdes of windowed keys: Kafka's own bytes."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import SessionWindows, StreamsBuilder, TopologyTestDriver, Windowed
from mustela.model import TIME_MAX
from mustela.serdes.base import SerdeError
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.windowed import WindowSizeError
from mustela.windows import EmitStrategy, SessionWindowedSerde, WindowedSerde

TEN = timedelta(milliseconds=10)
TIMES = st.integers(0, 2**41)
KEYS = st.text(max_size=5)


def test_bytes_are_those_that_kafka_streams_writes() -> None:
    """TimeWindowedSerializer: key, start. SessionWindowedSerializer: key, end, start."""
    time = WindowedSerde(str, window_size=TEN)
    assert time.serialize(Windowed("k", 258, 268)) == b"k" + bytes([0] * 6) + b"\x01\x02"
    session = SessionWindowedSerde(int)
    expected = (7).to_bytes(8, "big") + (5).to_bytes(8, "big") + (3).to_bytes(8, "big")
    assert session.serialize(Windowed(7, 3, 5)) == expected


@given(st.lists(st.one_of(st.none(), st.tuples(KEYS, TIMES))))
def test_time_windows_come_back(rows: list[Any]) -> None:
    """One by one and in lists; None stays None."""
    serde = WindowedSerde(str, window_size=TEN)
    keys = [None if row is None else Windowed(row[0], row[1], row[1] + 10) for row in rows]
    data = serde.serialize_many(keys)
    assert data == [serde.serialize(key) for key in keys]
    assert serde.deserialize_many(data) == keys
    assert [serde.deserialize(item) for item in data] == keys


@given(st.lists(st.one_of(st.none(), st.builds(Windowed, KEYS, TIMES, TIMES))))
def test_sessions_come_back(keys: list[Any]) -> None:
    """As above."""
    serde = SessionWindowedSerde(str)
    data = serde.serialize_many(keys)
    assert data == [serde.serialize(key) for key in keys]
    assert serde.deserialize_many(data) == keys
    assert [serde.deserialize(item) for item in data] == keys


def test_a_window_without_end_has_the_end_of_time() -> None:
    """As in Kafka, where adding the size overflows."""
    serde = WindowedSerde(str, window_size=None)
    key = Windowed("k", 7, TIME_MAX)
    assert serde.deserialize(serde.serialize(key)) == key


@pytest.mark.parametrize("serde", [WindowedSerde(str, window_size=TEN), SessionWindowedSerde(str)])
def test_what_is_no_windowed_key_is_refused(serde: Any) -> None:
    """With the place in the list, and without showing the data."""
    for bad in ("text", ("k", 1, 2), Windowed(None, 1, 2), Windowed(3, 1, 2)):
        with pytest.raises(SerdeError):
            serde.serialize(bad)
        with pytest.raises(SerdeError) as found:
            serde.serialize_many([Windowed("a", 1, 11), bad])
        assert found.value.fields.get("index", 1) == 1
    for short in (b"", b"1234567"):
        with pytest.raises(SerdeError):
            serde.deserialize(short)
        with pytest.raises(SerdeError):
            serde.deserialize_many([short])


def test_a_size_must_be_a_size() -> None:
    """Negative spans hold nothing."""
    with pytest.raises(WindowSizeError):
        WindowedSerde(str, window_size=timedelta(seconds=-1))


def test_serdes_are_values() -> None:
    """Equal by what they hold, picklable, and given where types are."""
    one, other = WindowedSerde(str, window_size=TEN), WindowedSerde("str", window_size=TEN)
    assert one == other
    assert hash(one) == hash(other)
    assert one != WindowedSerde(int, window_size=TEN)
    assert one != WindowedSerde(str, window_size=2 * TEN)
    assert pickle.loads(pickle.dumps(one)) == one
    assert resolve_serde(one, key=True) is one
    session = SessionWindowedSerde(str)
    assert pickle.loads(pickle.dumps(session)) == session
    nested = WindowedSerde(session, window_size=TEN)
    assert nested.deserialize(nested.serialize(Windowed(Windowed("k", 1, 2), 3, 13))) == Windowed(
        Windowed("k", 1, 2), 3, 13
    )


def test_windowed_keys_are_values_too() -> None:
    """Hashable, in order, picklable, with moments."""
    key = Windowed("a", 60_000, 120_000)
    assert {key: 1}[Windowed("a", 60_000, 120_000)] == 1
    assert sorted([Windowed("b", 0, 1), key, Windowed("a", 0, 1)])[1] == key
    assert pickle.loads(pickle.dumps(key)) == key
    assert key.start_time == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert key.end_time == datetime(1970, 1, 1, 0, 2, tzinfo=UTC)
    assert Windowed("a", 0, TIME_MAX).end_time.year == 9999


def test_a_windowed_key_says_its_kind() -> None:
    """The end of a session is the time of a record, that of a window is none."""
    window = WindowedSerde(str, window_size=timedelta(milliseconds=10))
    endless = WindowedSerde(str, window_size=None)
    session = SessionWindowedSerde(str)
    kinds: list[str] = []
    for serde in (window, endless, session):
        (key,) = serde.deserialize_many([serde.serialize(Windowed("a", 1, 11))])
        assert key is not None
        assert key == serde.deserialize(serde.serialize(key))
        assert key.kind in repr(key) or key.kind != "session"
        assert pickle.loads(pickle.dumps(key)).kind == key.kind
        kinds.append(key.kind)
    assert kinds == ["time", "unlimited", "session"]


def test_sessions_say_so_wherever_they_come_from() -> None:
    """What goes on, what a store gives, and what is told when they are over."""
    builder = StreamsBuilder()
    sessions = SessionWindows(inactivity_gap=timedelta(seconds=1), grace=timedelta(0))
    grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(sessions)
    grouped.count(store="seen").to_stream().to("out")
    closed = grouped.emit_strategy(EmitStrategy.on_window_close()).count(store="over")
    closed.to_stream().map(lambda key, n: (key.key, repr(key)), key=str, value=str).to("told")
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", "x", timestamp=5)
        ((kept, _),) = driver.get_session_store("seen").fetch("a")
        topic.pipe_input("b", "x", timestamp=9_000)
        (key, *_) = driver.create_output_topic("out").read_key_values_to_map()
        told = driver.create_output_topic("told").read_values_to_list()
    assert repr(key) == repr(kept) == "Windowed(key='a', start=5, end=5, kind='session')"
    assert told == [repr(kept)]
    assert key == Windowed("a", 5, 5)
