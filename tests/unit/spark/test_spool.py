"""Columns of values that stand in a file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.writers.placing import Placing
from mustela.spark.spool import StoredValues

VALUES = st.lists(st.none() | st.binary(max_size=20), max_size=30)


def stored(values: Sequence[bytes | None], start: int) -> StoredValues:
    file: Any = io.BytesIO(bytes(start) + b"".join(value or b"" for value in values))
    return StoredValues(file, start, [-1 if value is None else len(value) for value in values])


@given(VALUES, st.integers(0, 9), st.data())
def test_a_stored_column_is_like_a_list(
    values: list[bytes | None], start: int, data: st.DataObject
) -> None:
    """Each value by its place, and each part, also of a part."""
    column = stored(values, start)
    assert [*column] == values
    rows = range(-len(values), len(values))
    assert [column[row] for row in rows] == [values[row] for row in rows]
    with pytest.raises(IndexError):
        column[len(values)]
    part = data.draw(st.slices(len(values)).filter(lambda part: part.step in (None, 1)))
    again = slice(1, 4)
    assert [*column[part]] == values[part]
    assert [*column[part][again]] == values[part][again]
    assert [column[part][row] for row in range(len(values[part]))] == values[part]


class _InOrder(Sequence[bytes]):
    """Only to be read from its beginning to its end."""

    def __init__(self, values: list[bytes]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Any:
        return iter(self._values)

    def __getitem__(self, index: Any) -> Any:
        msg = f"{index} was asked for by itself"
        raise AssertionError(msg)


def test_rows_are_sorted_by_partition_with_one_look_at_each_value() -> None:
    """To jump in the file to each of a thousand took most of the driver's time."""
    keys, values = [b"%d" % n for n in range(50)], [b"value %d" % n for n in range(50)]
    columns = Columns(topics="out", keys=keys, values=_InOrder(values))  # type: ignore[arg-type]
    found = Placing(lambda _: 3).sorted(columns, None, now_ms=1)
    pairs = [pair for _, rows in found for pair in zip(rows.keys, rows.values, strict=True)]
    assert sorted(pairs, key=str) == sorted(zip(keys, values, strict=True), key=str)
