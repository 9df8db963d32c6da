"""Columns of values come out as their values one by one, however large."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from mustela.serdes.base import SerdeError
from mustela.serdes.encoding import encode_each
from mustela.serdes.resolve import resolve_serde

VALUES = st.lists(
    st.none()
    | st.integers(-(2**63), 2**63)
    | st.builds(str.__mul__, st.text(min_size=1, max_size=4), st.sampled_from([1, 100, 400, 2_000]))
    | st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=3),
    max_size=30,
)


@given(VALUES, st.sampled_from([msgspec.json.Encoder(), msgspec.msgpack.Encoder()]))
def test_each_value_has_its_own_bytes(values: list[Any], encoder: Any) -> None:
    """Small ones after large ones too, which all go through one buffer."""
    expected = [None if value is None else encoder.encode(value) for value in values]
    assert encode_each(encoder, values) == expected


@pytest.mark.parametrize("first", ["x", "x" * 1_000])
@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_a_value_that_cannot_be_encoded_is_named(name: str, first: str) -> None:
    """With large values as with small ones, and the others come out when it is gone."""
    serde = resolve_serde(name)
    values: list[Any] = [first, *range(9), object(), "last"]
    with pytest.raises(SerdeError, match="object") as raised:
        serde.serialize_many(values)
    assert raised.value.evidence["index"] == "10"
    del values[10]
    assert serde.deserialize_many(serde.serialize_many(values)) == values
