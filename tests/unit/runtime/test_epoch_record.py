"""Epoch records: what is written comes back, and nothing else is ever taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError
from mustela.runtime.record.epoch_record import (
    EPOCH_RECORD_FORMAT,
    EpochRecord,
    EpochRecordFormatError,
    GroupState,
    PartitionState,
    decode_epoch_record,
    encode_epoch_record,
    epochs_topic,
)

_counts = st.integers(0, 2**62)
_stamps = st.integers(-1, 2**62)
_names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=20)
_partitions = st.builds(
    PartitionState, _names, st.integers(0, 10_000), _counts, _stamps, _counts, st.booleans()
)
_groups = st.lists(
    st.none() | st.builds(GroupState, _counts, _counts, _counts, _counts), max_size=8
)
records = st.builds(
    EpochRecord,
    incarnation=_counts,
    epoch=_counts,
    attempt=_counts,
    time_ms=_counts,
    partitions=st.lists(_partitions, max_size=8),
    topic_ids=st.dictionaries(_names, _names, max_size=4),
    groups=st.dictionaries(_names, _groups, max_size=3),
    changelog_ends=st.dictionaries(_names, st.lists(_counts, max_size=8), max_size=3),
    watermark=_stamps,
    key_groups=st.sampled_from([1, 32, 32_768]),
    lanes=st.integers(1, 64),
    fingerprint=_names,
    state_format=st.integers(1, 9),
    mirrored_ms=_counts,
)


@given(records)
def test_what_is_written_comes_back(record: EpochRecord) -> None:
    """Every field survives, the groups that were never written among them."""
    assert decode_epoch_record(encode_epoch_record(record)) == record


@given(st.binary(max_size=40).filter(lambda data: data[:3] != b"MEP"))
def test_foreign_bytes_are_no_epoch_record(data: bytes) -> None:
    """Whoever else writes to the topic is named, never believed."""
    with pytest.raises(InvariantError, match="not an epoch record"):
        decode_epoch_record(data)


@given(records, st.integers(0, 255).filter(lambda n: n not in (1, EPOCH_RECORD_FORMAT)))
def test_another_format_is_refused_with_both_numbers(record: EpochRecord, other: int) -> None:
    """A version that cannot read the last epoch does not guess."""
    data = bytearray(encode_epoch_record(record))
    data[3] = other
    with pytest.raises(EpochRecordFormatError) as caught:
        decode_epoch_record(bytes(data), "shop")
    assert "mustela reset shop" in str(caught.value.fix)
    assert f"format {other}" in str(caught.value)
    assert caught.value.code == "EPOCH_RECORD_FORMAT"


@given(records, st.data())
def test_a_record_that_was_cut_is_an_error_of_ours(
    record: EpochRecord, data: st.DataObject
) -> None:
    """A damaged body is a named stop, not whatever the decoder happens to raise."""
    whole = encode_epoch_record(record)
    cut = data.draw(st.integers(3, len(whole) - 1))
    with pytest.raises(InvariantError):
        decode_epoch_record(whole[:cut])


def test_a_full_record_of_a_large_application_is_small() -> None:
    """1,000 partitions and 3 stores of 256 groups fit well below a megabyte."""
    record = EpochRecord(
        incarnation=7,
        epoch=123_456,
        attempt=0,
        time_ms=1_700_000_000_000,
        partitions=[
            PartitionState("topic", n, 10**9 + n * 7919, 1_700_000_000_000 + n, 1, False)
            for n in range(1_000)
        ],
        topic_ids={"topic": "id"},
        groups={"stage": [GroupState(7, 123_456, 0, 1_700_000_000_000)] * 256},
        changelog_ends={f"store-{s}": [10**6 + s * 31 + n for n in range(256)] for s in range(3)},
        watermark=1_700_000_000_000,
        key_groups=256,
        lanes=8,
        fingerprint="f" * 16,
        state_format=1,
    )
    assert len(encode_epoch_record(record)) < 20_000


def test_the_topic_is_named_after_the_application() -> None:
    """People look for it, and access rules name it."""
    assert epochs_topic("word-count") == "word-count-epochs"
