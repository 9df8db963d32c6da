"""Deltas: a whole record and a small row say what one large row would say."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError
from mustela.model import TopicPartition
from mustela.runtime.commit.partition_rows import PartitionRows
from mustela.runtime.record.epoch_delta import (
    EpochDelta,
    decode_row,
    delta_between,
    encode_epoch_delta,
    with_delta,
)
from mustela.runtime.record.epoch_record import (
    EpochRecord,
    EpochRecordFormatError,
    GroupState,
    PartitionState,
    decode_epoch_record,
)
from mustela.runtime.time.watermark import PartitionTime
from tests.unit.runtime.test_epoch_record import records

_small = st.integers(0, 300)


def _moved(record: EpochRecord, draw: Any) -> EpochRecord:
    """A record that is the same but for what an epoch changes."""
    partitions = [
        PartitionState(
            p.topic,
            p.partition,
            draw(_small),
            draw(st.integers(-1, 2**41)),
            draw(st.sampled_from([p.seen_ms, 5])),
            draw(st.booleans()),
            draw(st.sampled_from([p.leader_epoch, 3])),
        )
        if draw(st.booleans())
        else p
        for p in record.partitions
    ]
    write = GroupState(draw(_small), draw(_small), 0, draw(_small))
    groups = {
        stage: [draw(st.sampled_from([write, None, old])) for old in states]
        for stage, states in record.groups.items()
    }
    ends = {
        store: [draw(st.sampled_from([end, end + 1, 7])) for end in known]
        for store, known in record.changelog_ends.items()
    }
    return msgspec.structs.replace(
        record,
        epoch=draw(_small),
        time_ms=draw(_small),
        watermark=draw(_small),
        partitions=partitions,
        groups=groups,
        changelog_ends=ends,
        global_ends={topic: ("id", [draw(_small)]) for topic in record.global_ends},
    )


@given(records, st.data())
def test_a_base_and_a_delta_are_the_record(base: EpochRecord, data: st.DataObject) -> None:
    """Over the wire's bytes too, whatever of partitions, groups and changelogs has changed."""
    base = msgspec.structs.replace(base, global_ends={"g": ("id", [1]), "h": ("id", [2])})
    now = _moved(base, data.draw)
    delta = delta_between(base, now)
    assert delta is not None
    again = decode_row(encode_epoch_delta(delta))
    assert isinstance(again, EpochDelta)
    assert with_delta(base, again) == now


@pytest.mark.parametrize(
    "field", [name for name in EpochRecord.__struct_fields__ if name not in ("time_ms", "epoch")]
)
def test_a_delta_says_each_field_or_there_is_none(field: str) -> None:
    """A field that is added to the record one day is never left out of it by a delta."""
    base = a_record()
    other: dict[str, Any] = {
        "partitions": base.partitions[1:],
        "groups": {"stage": [None]},
        "changelog_ends": {},
        "global_ends": {"g": ("id", [1])},
        "topic_ids": {"lines": "other"},
        "found_topics": ["lines"],
        "layouts": {"s": "l"},
        "adopts_unnamed": True,
        "stores": {"s": 1},
        "dormant": ["lines"],
    }
    value = other.get(field)
    if value is None:
        value = "other" if isinstance(getattr(base, field), str) else 99
    now = msgspec.structs.replace(base, **{field: value})
    delta = delta_between(base, now)
    assert delta is None or with_delta(base, delta) == now


def test_a_delta_does_not_fit_another_base() -> None:
    """What it is relative to is in it."""
    base = a_record()
    delta = delta_between(base, msgspec.structs.replace(base, epoch=9))
    assert delta is not None
    with pytest.raises(InvariantError, match="does not fit"):
        with_delta(msgspec.structs.replace(base, epoch=8), delta)


def test_a_version_that_knows_no_deltas_refuses_them_by_name() -> None:
    """It reads whole records only, as `decode_epoch_record` does, and takes no delta for one."""
    base = a_record()
    delta = delta_between(base, msgspec.structs.replace(base, epoch=9))
    assert delta is not None
    with pytest.raises(EpochRecordFormatError) as caught:
        decode_epoch_record(encode_epoch_delta(delta), "shop")
    assert caught.value.code == "EPOCH_RECORD_FORMAT"
    assert "format 3" in str(caught.value)


def test_a_damaged_delta_is_a_named_stop() -> None:
    """Not whatever the decoder happens to raise."""
    base = a_record()
    delta = delta_between(base, msgspec.structs.replace(base, epoch=9))
    assert delta is not None
    data = encode_epoch_delta(delta)
    for cut in range(4, len(data)):
        with pytest.raises(InvariantError):
            decode_row(data[:cut])


def test_deltas_are_small() -> None:
    """Of 10,000 partitions: a tenth of the base where 50 were read, half of it where all were."""
    source = random.Random(5)
    base = a_record(10_000)
    whole = len(msgspec.msgpack.encode(base))
    for active, share in ((50, 0.02), (10_000, 0.35)):
        partitions = list(base.partitions)
        for n in source.sample(range(10_000), active):
            was = partitions[n]
            partitions[n] = PartitionState(
                was.topic,
                n,
                was.end + source.randrange(1, 500),
                was.max_timestamp + source.randrange(2_000),
            )
        delta = delta_between(base, msgspec.structs.replace(base, partitions=partitions))
        assert delta is not None
        assert len(msgspec.msgpack.encode(delta)) < share * whole


_places = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 4))
_times = st.builds(PartitionTime, st.integers(-1, 3), st.integers(0, 3), st.booleans())


@given(
    st.lists(
        st.tuples(
            st.dictionaries(_places, st.integers(0, 3)),
            st.dictionaries(_places, _times),
            st.dictionaries(_places, st.integers(0, 2)),
        ),
        max_size=6,
    )
)
def test_rows_that_are_kept_say_what_new_ones_would(
    steps: list[
        tuple[
            dict[TopicPartition, int],
            dict[TopicPartition, PartitionTime],
            dict[TopicPartition, int],
        ]
    ],
) -> None:
    """Whichever partitions come and go, and whatever changes of them."""
    kept = PartitionRows()
    for ends, times, leaders in steps:
        rows = kept.rows(ends, times, leaders)
        assert rows == PartitionRows().rows(ends, times, leaders)
        assert [(row.topic, row.partition, row.end) for row in rows] == [
            (*place, end) for place, end in sorted(ends.items())
        ]
        rows.clear()  # what is returned is the caller's


def test_a_row_that_says_the_same_is_the_same_object() -> None:
    """That is what makes records of many partitions cheap."""
    kept = PartitionRows()
    a, b = TopicPartition("a", 0), TopicPartition("a", 1)
    times = {a: PartitionTime(5), b: PartitionTime(6)}
    before = kept.rows({a: 1, b: 1}, times, {})
    after = kept.rows({a: 1, b: 2}, {**times, b: PartitionTime(6, 9)}, {})
    assert after[0] is before[0]
    assert after[1] is not before[1]


def a_record(partitions: int = 3) -> EpochRecord:
    """Some epoch of an application with this many partitions and a store of four key groups."""
    return EpochRecord(
        incarnation=2,
        epoch=5,
        attempt=0,
        time_ms=1,
        partitions=[
            PartitionState("lines", n, 10**9 + n, 1_700_000_000_000 + n) for n in range(partitions)
        ],
        topic_ids={"lines": "id"},
        groups={"stage": [GroupState(2, 5, 0, 1)] * 4},
        changelog_ends={"counts": [1, 2, 3, 4]},
        watermark=7,
        key_groups=4,
        lanes=2,
        fingerprint="f",
        state_format=1,
    )
