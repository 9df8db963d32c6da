"""The bytes of an aggregate's cells: exactly what was kept, one by one or many at once."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import given, strategies as st

from mustela.serdes.aggregates import CellsSerde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.values import ValueSerde

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()
)
ODD = st.one_of(SCALARS, st.decimals(allow_nan=False), st.dates(), st.tuples(SCALARS))
CELL = st.recursive(ODD, lambda inner: st.lists(inner) | st.dictionaries(ODD, inner), max_leaves=6)


@given(st.lists(st.one_of(st.none(), st.lists(CELL, min_size=1, max_size=3)), max_size=4))
def test_many_cells_have_the_bytes_of_each_by_itself(cells: list[Any]) -> None:
    """And those of the serde of Python's types, from which they come back as they were."""
    serde = CellsSerde(("a", "b", "c"), ("plain",) * 3, None, tuple)
    data = serde.serialize_many(cells)
    assert data == [serde.serialize(one) for one in cells]
    assert data == [ValueSerde().serialize(one) for one in cells]
    assert repr(serde.deserialize_many(data)) == repr(cells)


def test_whole_values_have_the_bytes_of_their_own_serde() -> None:
    """Beside what they are ranked by."""
    holding = ("plain", "entry", "entries")
    serde = CellsSerde(("n", "best", "top"), holding, IntSerde(), tuple)
    for cells in ([Decimal(2), [date(2026, 1, 1), 7], [[1, 7], [2, 8]]], [0, None, []]):
        assert serde.deserialize(serde.serialize(cells)) == cells
        assert serde.deserialize_many(serde.serialize_many([cells, None])) == [cells, None]
    assert pickle.loads(pickle.dumps(serde)) == serde
    assert serde != CellsSerde(("n", "least", "top"), holding, IntSerde(), tuple)
    assert serde != CellsSerde(("n", "best", "top"), holding, None, tuple)
