"""Frames come back as they were sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.plan.batch import Batch, Order, Origins, SourceChunk
from mustela.spark.frames import (
    FRAME_FORMAT,
    Frame,
    FrameColumns,
    dump_object,
    load_object,
    pack,
    pack_batch,
    pack_columns,
    unpack,
    unpack_batch,
    unpack_columns,
)
from tests.unit.plan.test_batch import batches, rows_of

frames = st.builds(
    Frame,
    kind=st.integers(0, 255),
    stage=st.integers(-1, 300),
    sender_stage=st.integers(-1, 300),
    sender_task=st.integers(-1, 2**31 - 1),
    sequence=st.integers(0, 2**32 - 1),
    name=st.text(max_size=30),
    body=st.binary(max_size=50),
)


@given(frames)
def test_a_frame_comes_back(frame: Frame) -> None:
    """Head, name and body; frames sort by sender and sequence."""
    assert unpack(pack(frame)) == frame
    assert frame.place == (frame.sender_stage, frame.sender_task, frame.sequence)


def test_a_frame_of_another_format_is_refused() -> None:
    """Driver and workers of one job run the same code; if not, somebody must know."""
    data = bytearray(pack(Frame(0, 1, 0, 0, 0, "x", b"")))
    data[0] = FRAME_FORMAT + 1
    with pytest.raises(AssertionError, match="format"):
        unpack(bytes(data))


_bytes = st.none() | st.binary(max_size=10)
_headers = st.lists(st.tuples(st.text(max_size=5), _bytes), max_size=2).map(tuple)


@given(st.data(), st.integers(0, 6))
def test_columns_come_back(data: st.DataObject, count: int) -> None:
    """Every column that may be missing, and every form that topics and partitions may have."""

    def column(each: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(each, min_size=count, max_size=count))

    columns = FrameColumns(
        data.draw(st.text(max_size=5) | st.just(column(st.text(max_size=5)))),
        column(_bytes),
        column(_bytes),
        data.draw(st.none() | st.just(column(st.integers(-1, 2**62)))),
        data.draw(st.none() | st.just(column(_headers))),
        data.draw(st.none() | st.integers(0, 9) | st.just(column(st.none() | st.integers(0, 9)))),
    )
    assert unpack_columns(pack_columns(columns)) == columns


@given(batches(), st.booleans(), st.data())
def test_a_batch_comes_back_without_its_keys(
    batch: Batch, ordered: bool, data: st.DataObject
) -> None:
    """Key bytes travel; order does where it matters; an index picks rows."""
    index = data.draw(
        st.none() | st.lists(st.integers(0, len(batch) - 1), max_size=6)
        if len(batch)
        else st.none()
    )
    packed = b"".join(pack_batch(batch, index, ordered=ordered))
    received = unpack_batch(packed, batch.origins.topics)
    assert received.keys == []
    received.keys = [None] * len(received)
    sent = batch if index is None else batch.take(index)
    expected = [
        row._replace(key=None, order=row.order if ordered else None) for row in rows_of(sent)
    ]
    assert rows_of(received) == expected


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(-1, 30), st.integers(0, 40), st.data())
def test_the_order_of_records_that_were_just_read_comes_back(
    times: list[int], floor: int, latest: int, data: st.DataObject
) -> None:
    """Topic and partition travel once; a record out of order, or too far ahead, has its place."""
    index = st.lists(st.integers(0, len(times) - 1), max_size=6) if times else st.just(list[int]())
    rows, asked = data.draw(st.none() | index), data.draw(st.none() | index)
    chunk = SourceChunk(
        topics=("a", "b"),
        topic_index=1,
        partition=7,
        offsets=[5 + 2 * row for row in range(len(times))],
        timestamps=times,
        floor=floor,
        latest=latest,
    )
    keys = [b"k"] * (len(times) if rows is None else len(rows))
    batch = Batch([*keys], [*keys], chunk, rows=rows, key_bytes=keys)
    if asked is not None:
        asked = [row for row in asked if row < len(keys)]
    received = unpack_batch(b"".join(pack_batch(batch, asked, ordered=True)), ("a", "b"))
    expected, top = list[Order](), floor
    for row, time in enumerate(times):
        top = max(top, time) if time <= latest else max(top, -1)
        expected.append((top, 1, 7, 5 + 2 * row))
    picked_rows = range(len(times)) if rows is None else rows
    taken = range(len(picked_rows)) if asked is None else asked
    assert received.order == [expected[picked_rows[row]] for row in taken]
    assert chunk.order == expected


def test_records_travel_as_they_were_read_if_that_is_asked_for() -> None:
    """Some of them may not be known."""
    origins = Origins([1, 2], None, None)
    origins.raws = [(b"k", None), None]
    batch = Batch(["a", "b"], [1, 2], origins, rows=[1, 0], key_bytes=[b"b", b"a"])
    for raw, expected in ((True, [None, (b"k", None)]), (False, None)):
        packed = b"".join(pack_batch(batch, ordered=False, raw=raw))
        assert unpack_batch(packed, ()).raws == expected


def test_orders_of_unequal_length_come_back() -> None:
    """Changes of a table and records of a source may leave a lane together."""
    order = [(5, 0, 0, 1), (5, 0, 0, 1, 3, 0), (6, 1, 0, 0)]
    batch = Batch(["a"] * 3, [1, 2, 3], Origins([5, 5, 6], None, list(order)), key_bytes=[b"a"] * 3)
    assert unpack_batch(b"".join(pack_batch(batch, ordered=True)), ()).order == order


def test_a_class_made_in_a_function_travels_by_value() -> None:
    """As the classes of the user's main program do."""

    @dataclass
    class Local:
        number: int

    again = load_object(dump_object([Local(7)]))
    assert again[0].number == 7


def test_what_cannot_travel_at_all_is_an_error() -> None:
    """Not silence."""
    with pytest.raises(TypeError):
        dump_object(n for n in range(3))


class _Name(str):
    """A string of the user's own type."""

    __slots__ = ()


@pytest.mark.parametrize("values", [[bytearray(b"x"), b"y"], [_Name("x"), "y"], [(1, "x"), None]])
def test_values_keep_their_types(values: list[Any]) -> None:
    """The fast way is for plain values only."""
    origins = Origins([5, 6], None, None)
    batch = Batch(["a"] * 2, values, origins, key_bytes=[b"a"] * 2)
    found = unpack_batch(b"".join(pack_batch(batch, ordered=False)), ()).values
    assert found == values
    assert list(map(type, found)) == list(map(type, values))
