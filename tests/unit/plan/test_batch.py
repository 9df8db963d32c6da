"""Batches against a naive model: a list of rows, each with everything it carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from mustela.model import Headers
from mustela.plan.batch import Batch, Order, Origins, SourceChunk

TOPICS = ("orders", "prices")


class Row(NamedTuple):
    """One row, spelled out."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers
    order: Order | None
    old: Any
    key_bytes: bytes | None
    latest: bool


def rows_of(batch: Batch) -> list[Row]:
    """Return what the columns of a batch say, row by row."""
    count = len(batch)
    missing = [None] * count
    columns = (
        batch.keys,
        batch.values,
        batch.timestamps,
        batch.headers if batch.headers is not None else [()] * count,
        batch.order or missing,
        batch.olds or missing,
        batch.key_bytes or missing,
        batch.latest if batch.latest is not None else [True] * count,
    )
    assert all(len(column) == count for column in columns)
    return [Row(*fields) for fields in zip(*columns, strict=True)]


@st.composite
def batches(draw: st.DrawFn, *, ordered: bool | None = None, least: int = 0) -> Batch:
    """Draw a batch; any optional column may be missing, and rows may share their records."""
    count = draw(st.integers(max(least, 1), 6))

    def column(each: st.SearchStrategy[Any], size: int) -> list[Any]:
        return draw(st.lists(each, min_size=size, max_size=size))

    def maybe(each: st.SearchStrategy[Any], size: int) -> list[Any] | None:
        return column(each, size) if draw(st.booleans()) else None

    small = st.integers(0, 3)
    order = st.tuples(small, st.integers(0, 1), small, st.integers(0, 9))
    with_order = draw(st.booleans()) if ordered is None else ordered
    origins = Origins(
        column(small, count),
        maybe(st.sampled_from([(), (("h", b"1"),)]), count),
        column(order, count) if with_order else None,
        TOPICS,
    )
    size = draw(st.integers(least, 8)) if draw(st.booleans()) else None
    rows = None if size is None else column(st.integers(0, count - 1), size)
    length = count if rows is None else len(rows)
    return Batch(
        column(st.text("ab", max_size=2), length),
        column(st.integers(0, 99), length),
        origins,
        rows=rows,
        olds=maybe(st.integers(), length),
        key_bytes=maybe(st.binary(max_size=2), length),
        latest=maybe(st.booleans(), length),
    )


@given(batches(), st.data())
def test_select_keeps_the_rows_that_are_true(batch: Batch, data: st.DataObject) -> None:
    """With all that they carry, in their order."""
    mask = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    expected = [row for row, keep in zip(rows_of(batch), mask, strict=True) if keep]
    assert rows_of(batch.select(mask)) == expected


@given(batches(least=1), st.data())
def test_take_gives_the_rows_asked_for(batch: Batch, data: st.DataObject) -> None:
    """In the order asked for, some of them twice; taking from what was taken works the same."""
    index = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=8))
    rows = rows_of(batch)
    taken = batch.take(index)
    assert rows_of(taken) == [rows[i] for i in index]
    again = list(range(len(index)))[::-1]
    assert rows_of(taken.take(again)) == [rows[i] for i in index[::-1]]


@given(batches(), st.booleans(), st.data())
def test_expand_repeats_each_row(batch: Batch, rekeyed: bool, data: st.DataObject) -> None:
    """Times and headers come from the row that it was made from; old values do not apply."""
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(batch), max_size=len(batch)))
    total = sum(counts)
    values = list(range(total))
    keys = [f"k{n}" for n in range(total)] if rekeyed else None
    repeated = [
        row for row, count in zip(rows_of(batch), counts, strict=True) for _ in range(count)
    ]
    expected = [
        row._replace(value=value, old=None, latest=True)
        for row, value in zip(repeated, values, strict=True)
    ]
    if keys is not None:
        expected = [
            row._replace(key=key, key_bytes=None) for row, key in zip(expected, keys, strict=True)
        ]
    assert rows_of(batch.expand(iter(counts), values, keys)) == expected


@given(batches(), st.data())
def test_new_values_and_keys_leave_the_rest(batch: Batch, data: st.DataObject) -> None:
    """New keys have no bytes yet; old values belonged to the old values."""
    new = data.draw(st.lists(st.text(), min_size=len(batch), max_size=len(batch)))
    rows = rows_of(batch)
    assert rows_of(batch.with_values(new)) == [
        row._replace(value=value, old=None, latest=True)
        for row, value in zip(rows, new, strict=True)
    ]
    assert rows_of(batch.with_keys(new)) == [
        row._replace(key=key, old=None, key_bytes=None, latest=True)
        for row, key in zip(rows, new, strict=True)
    ]
    both = batch.with_keys(new, list(range(len(batch))))
    assert both.values == list(range(len(batch)))


def _without_missing(parts: list[Batch]) -> list[list[Row]]:
    """Return the rows as a concatenation shows them: a column is whole or not there."""
    full = [part for part in parts if len(part)]
    columns: dict[str, Callable[[Batch], Any]] = {
        "order": lambda part: part.order,
        "old": lambda part: part.olds,
        "key_bytes": lambda part: part.key_bytes,
    }
    lost = {name: None for name, get in columns.items() if any(get(part) is None for part in full)}
    return [[row._replace(**lost) for row in rows_of(part)] for part in parts]


@given(st.lists(batches(), max_size=4))
def test_concatenate_joins_rows(parts: list[Batch]) -> None:
    """One batch after the other; a column that one of them lacks is missing."""
    expected = [row for rows in _without_missing(parts) for row in rows]
    assert rows_of(Batch.concatenate(parts)) == expected


@given(st.lists(batches(ordered=True), max_size=4))
def test_merge_sorts_by_order_and_is_stable(parts: list[Batch]) -> None:
    """Rows of equal order keep their sequence; each part is in order already."""
    ranked = [
        part.take(sorted(range(len(part)), key=(part.order or []).__getitem__)) for part in parts
    ]
    rows = [row for part in _without_missing(ranked) for row in part]
    assert rows_of(Batch.merge(ranked)) == sorted(rows, key=lambda row: row.order or ())


def test_changes_of_one_lane_are_put_in_order_too() -> None:
    """Else one lane would give another order than two: the key groups of a record's changes."""
    order: list[Order] = [(5, 0, 0, 1, 3, 0), (5, 0, 0, 1, 1, 1), (5, 0, 0, 1, 1, 2)]
    batch = Batch(["c", "a", "b"], [1, 2, 3], Origins([5] * 3, None, order))
    assert Batch.merge([batch]).keys == ["a", "b", "c"]
    assert Batch.merge([Batch.empty(), batch]).keys == ["a", "b", "c"]


@given(st.lists(batches(ordered=False), max_size=3))
def test_merge_without_order_joins(parts: list[Batch]) -> None:
    """Where order was given up there is nothing to sort by."""
    assert rows_of(Batch.merge(parts)) == rows_of(Batch.concatenate(parts))


@given(batches())
def test_a_row_knows_where_it_came_from(batch: Batch) -> None:
    """Topic, partition and offset where order is known; time and headers always."""
    for number, row in enumerate(rows_of(batch)):
        context = batch.context(number)
        assert (context.timestamp, context.headers) == (row.timestamp, row.headers)
        if row.order is None:
            assert (context.topic, context.partition, context.offset) == (None, -1, -1)
        else:
            assert context.topic == TOPICS[row.order[1]]
            assert (context.partition, context.offset) == row.order[2:4]


def test_a_record_without_a_topic_has_none() -> None:
    """A timer's order has the topic index -1."""
    batch = Batch(["k"], [1], Origins([5], None, [(5, -1, -1, 0)], TOPICS))
    assert batch.context(0).topic is None


def test_the_order_of_a_chunk_is_the_running_maximum_of_its_timestamps() -> None:
    """From the partition's floor on: a record never goes before an earlier one of its partition."""
    chunk = SourceChunk(
        topics=TOPICS,
        topic_index=1,
        partition=7,
        offsets=[10, 11, 13, 14],
        timestamps=[5, 3, 9, 8],
        floor=4,
    )
    assert chunk.order == [(5, 1, 7, 10), (5, 1, 7, 11), (9, 1, 7, 13), (9, 1, 7, 14)]
    assert chunk.order is chunk.order


@pytest.mark.parametrize("floor", [-1, 100])
def test_a_chunk_of_one_record_has_an_order(floor: int) -> None:
    """The floor wins where the record is older."""
    chunk = SourceChunk(
        topics=TOPICS, topic_index=0, partition=0, offsets=[3], timestamps=[7], floor=floor
    )
    assert chunk.order == [(max(7, floor), 0, 0, 3)]


def test_the_empty_batch_has_no_rows() -> None:
    """And can be joined with others."""
    assert rows_of(Batch.empty()) == []
    assert len(Batch.merge([Batch.empty(), Batch.empty()])) == 0
