"""Rows that the changelog hears of by the segment."""

from __future__ import annotations

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import time_key
from mustela.state.kinds.list import ListRows
from mustela.state.log_chunks import (
    CHUNK,
    CHUNK_BYTES_MAX,
    chunk_of,
    chunks_of,
    from_log,
    pack_chunk,
)
from tests.unit.state.epochs import Epochs, world

SEGMENT = 10
SPEC = StoreSpec(name="j", kind="list", segment_ms=SEGMENT)


def append(epochs: Epochs, *entries: tuple[bytes, int]) -> None:
    epochs.view.log_in_chunks()
    rows = ListRows(epochs.view, segment_ms=SEGMENT)
    for key, time in entries:
        rows.append_many({key: [(time, 0, b"v", 0)]})
    epochs.commit()


def test_an_epoch_logs_one_record_for_each_segment():
    """However many keys it wrote; and one deletion for each of them when the segment is over."""
    with world("memory", SPEC) as epochs:
        append(epochs, *((b"%d" % number, number // 50) for number in range(1_000)))
        assert [key[:1] for key, _ in epochs.log] == [CHUNK, CHUNK]
        append(epochs, (b"a", 1), (b"a", 15))
        assert len(epochs.log) == 4
        epochs.view.log_in_chunks()
        ListRows(epochs.view, segment_ms=SEGMENT).expire_before(100)
        epochs.commit()
        assert len(epochs.log) == 8
        assert {key for key, value in epochs.log if value is None} == {
            key for key, value in epochs.log if value is not None
        }
        assert epochs.view.count() == 0
        epochs.restore()
        assert epochs.view.count() == 0


def test_a_copy_that_missed_a_segments_end_drops_it_later():
    """It has no chunks of the segment any more, but its rows say how old they are."""
    with world("lmdb", SPEC) as epochs:
        rows = [(time_key(0, b"k"), b"row")]
        epochs.view.put_many(rows)
        epochs.commit()
        before = len(epochs.log)
        epochs.view.log_in_chunks()
        assert ListRows(epochs.view, segment_ms=SEGMENT).expire_before(50) == 1
        epochs.commit()
        assert epochs.log[before:] == [(rows[0][0], None)]
        assert epochs.view.count() == 0


def test_a_large_segment_goes_a_part_at_a_time():
    """The changelog hears of it with the last part; a copy restored before that has all again."""
    with world("lmdb", SPEC) as epochs:
        append(epochs, *((b"%d" % number, 5) for number in range(10)), (b"new", 60))
        assert len(epochs.log) == 2
        for left in (6, 2):
            epochs.view.log_in_chunks()
            assert ListRows(epochs.view, segment_ms=SEGMENT).expire_before(50, limit=4) == 4
            epochs.commit()
            assert epochs.view.count() == left + 1 + 2  # with the rows of the chunks
            assert len(epochs.log) == 2
        epochs.restore()
        assert epochs.view.count() == 11 + 2
        for count in (10, 0):
            epochs.view.log_in_chunks()
            assert ListRows(epochs.view, segment_ms=SEGMENT).expire_before(50, limit=10) == count
            epochs.commit()
        assert epochs.view.count() == 1 + 1
        assert [value for _, value in epochs.log[2:]] == [None]


def test_large_segments_go_in_several_records():
    """No record becomes much larger than the bound, and numbers go on where they were."""
    row = bytes(CHUNK_BYTES_MAX // 4)
    rows = [(time_key(0, b"%04d" % number), row) for number in range(20)]
    chunks = chunks_of(rows, lambda _segment: 6)
    assert list(chunks) == [chunk_of(rows[0][0][:8], number) for number in range(7, 14)]
    assert [row for chunk in chunks.values() for row in chunk] == rows
    assert max(len(pack_chunk(chunk)) for chunk in chunks.values()) < CHUNK_BYTES_MAX
    large = (time_key(0, b"0001x"), bytes(4 * CHUNK_BYTES_MAX))
    parts = chunks_of([*rows[:2], large, *rows[2:4]], lambda _segment: -1).values()
    assert list(parts) == [rows[:2], [large], rows[2:4]]


def test_a_chunk_that_is_replaced_takes_its_rows_with_it():
    """But not those that a later chunk wrote again."""
    one, two = chunk_of(bytes(8), 0), chunk_of(bytes(8), 1)
    log = [
        (one, pack_chunk([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])),
        (two, pack_chunk([(b"b", b"2")])),
        (one, pack_chunk([(b"c", b"3")])),
    ]
    assert dict(from_log(log)) == {one: b"", two: b"", b"a": None, b"b": b"2", b"c": b"3"}
