"""Records and what they carry."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from mustela.model import KeyValue, Record, RecordContext, TopicPartition


@given(st.integers(0, 253_402_300_799_999))
def test_time_is_the_timestamp_as_an_aware_datetime(timestamp: int) -> None:
    """To the millisecond, in UTC."""
    for made in (Record(key=1, value=2, timestamp=timestamp), RecordContext(timestamp=timestamp)):
        time = made.time
        assert time.tzinfo is UTC
        since = time - datetime(1970, 1, 1, tzinfo=UTC)
        assert since // timedelta(milliseconds=1) == timestamp


def test_records_are_equal_by_what_they_say_not_by_where_they_lie() -> None:
    """A test that compares outputs does not know the offsets."""
    first = Record(key="k", value=1, timestamp=5, topic="t", partition=0, offset=3)
    assert first == Record(key="k", value=1, timestamp=5, topic="t", partition=2, offset=9)
    assert first != Record(key="k", value=1, timestamp=6, topic="t")


def test_places_sort_by_topic_and_partition_and_are_plain_pairs() -> None:
    """A partition with ten comes behind one with nine."""
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]) == [
        ("a", 9),
        ("a", 10),
        ("b", 0),
    ]
    assert KeyValue("k", 1) == ("k", 1)


def test_records_travel() -> None:
    """Workers send contexts in errors."""
    context = RecordContext(topic="t", partition=1, offset=2, timestamp=3, headers=(("h", None),))
    assert pickle.loads(pickle.dumps(context)) == context
