"""Kafka's own byte formats, and what the simple serdes refuse."""

from __future__ import annotations

import math
import pickle
import struct
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from mustela.serdes.base import SerdeError
from mustela.serdes.primitives import (
    BoolSerde,
    BytesSerde,
    Float32Serde,
    FloatSerde,
    Int16Serde,
    Int32Serde,
    IntSerde,
    StrSerde,
    UUIDSerde,
    VoidSerde,
)

SERDES = [
    StrSerde(),
    IntSerde(),
    Int32Serde(),
    Int16Serde(),
    FloatSerde(),
    Float32Serde(),
    BytesSerde(),
    BoolSerde(),
    UUIDSerde(),
    VoidSerde(),
]

# What Kafka 4.1's serializers of the same types write.
KAFKA_BYTES = [
    (StrSerde(), "", ""),
    (StrSerde(), "kafka", "6b61666b61"),
    (StrSerde(), "né 🦡", "6ec3a920f09fa6a1"),
    (IntSerde(), 0, "0000000000000000"),
    (IntSerde(), 1, "0000000000000001"),
    (IntSerde(), -1, "ffffffffffffffff"),
    (IntSerde(), 2**63 - 1, "7fffffffffffffff"),
    (IntSerde(), -(2**63), "8000000000000000"),
    (Int32Serde(), -2, "fffffffe"),
    (Int32Serde(), 2**31 - 1, "7fffffff"),
    (Int16Serde(), 258, "0102"),
    (FloatSerde(), 0.1, "3fb999999999999a"),
    (FloatSerde(), -0.0, "8000000000000000"),
    (FloatSerde(), math.inf, "7ff0000000000000"),
    (Float32Serde(), 0.5, "3f000000"),
    (BytesSerde(), b"\x00\xff", "00ff"),
    (BoolSerde(), True, "01"),
    (BoolSerde(), False, "00"),
    (
        UUIDSerde(),
        UUID("0E984725-C51C-4BF4-9960-E1C80E27ABA0"),
        "30653938343732352d633531632d346266342d393936302d653163383065323761626130",
    ),
]


@pytest.mark.parametrize(("serde", "value", "expected"), KAFKA_BYTES)
def test_bytes_are_those_of_kafka(serde, value, expected):
    """A Java program with Kafka's serde of the type reads and writes the same bytes."""
    data = bytes.fromhex(expected)
    assert serde.serialize(value) == data
    assert serde.serialize_many([value]) == [data]
    assert serde.deserialize(data) == value
    assert serde.deserialize_many([data]) == [value]
    assert type(serde.deserialize(data)) is type(value)


@pytest.mark.parametrize("serde", SERDES, ids=lambda serde: serde.name)
def test_none_and_null_stand_for_each_other(serde):
    """A tombstone is None in every serde, alone and in a batch."""
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None
    assert serde.serialize_many([None, None]) == [None, None]
    assert serde.deserialize_many([None, None]) == [None, None]


@pytest.mark.parametrize("serde", SERDES, ids=lambda serde: serde.name)
def test_a_serde_is_a_value(serde):
    """It survives pickle, equals its like, and is a dict key."""
    copy = pickle.loads(pickle.dumps(serde))
    assert copy == serde
    assert hash(copy) == hash(serde)
    assert {serde: 1}[copy] == 1
    assert [other for other in SERDES if other == serde] == [serde]
    assert serde.immutable


WRONG = [
    (StrSerde(), 7, "int"),
    (StrSerde(), b"x", "bytes"),
    (StrSerde(), ["x"], "list"),
    (BytesSerde(), "x", "str"),
    (BytesSerde(), bytearray(b"x"), "bytearray"),
    (IntSerde(), "7", "str"),
    (IntSerde(), 7.0, "float"),
    (IntSerde(), True, "bool"),
    (Int32Serde(), True, "bool"),
    (FloatSerde(), True, "bool"),
    (FloatSerde(), "1.5", "str"),
    (BoolSerde(), 1, "int"),
    (BoolSerde(), 0, "int"),
    (UUIDSerde(), "0e984725-c51c-4bf4-9960-e1c80e27aba0", "str"),
    (VoidSerde(), "", "str"),
]


@pytest.mark.parametrize(("serde", "value", "got"), WRONG)
def test_a_value_of_another_type_is_refused_by_name(serde, value, got):
    """The error names the type that came, the type that is held, and what to do."""
    with pytest.raises(SerdeError, match=f"got {got}") as caught:
        serde.serialize_many([None, value, None])
    assert caught.value.fields["index"] == 1
    assert caught.value.fields["serde"] == serde.name
    assert caught.value.fix
    assert caught.value.code == "SERDE"
    with pytest.raises(SerdeError):
        serde.serialize(value)


OUT_OF_RANGE = [
    (IntSerde(), 2**63),
    (IntSerde(), -(2**63) - 1),
    (Int32Serde(), 2**31),
    (Int16Serde(), 2**15),
    (FloatSerde(), 2**53 + 1),
    (FloatSerde(), 10**400),
    (Float32Serde(), 1e300),
    (StrSerde(), "\ud800"),
]


@pytest.mark.parametrize(("serde", "value"), OUT_OF_RANGE)
def test_a_value_that_does_not_fit_is_refused_with_a_fix(serde, value):
    """Nothing is cut off in silence."""
    with pytest.raises(SerdeError) as caught:
        serde.serialize_many([value])
    assert caught.value.fix
    assert caught.value.fields["index"] == 0


BAD_BYTES = [
    (StrSerde(), b"\xff"),
    (IntSerde(), b"\x00" * 4),
    (IntSerde(), b""),
    (IntSerde(), b"12"),
    (Int32Serde(), b"\x00" * 8),
    (FloatSerde(), b"\x00" * 7),
    (BoolSerde(), b"\x02"),
    (BoolSerde(), b""),
    (UUIDSerde(), b"not a uuid"),
    (UUIDSerde(), b"g" * 32 + b"----"),
    (UUIDSerde(), b"{e984725-c51c-4bf4-9960-e1c80e27aba}"),
    (VoidSerde(), b""),
]


@pytest.mark.parametrize(("serde", "data"), BAD_BYTES)
def test_bytes_of_another_format_are_refused(serde, data):
    """The error carries the bytes as a field and keeps them out of the text."""
    with pytest.raises(SerdeError) as caught:
        serde.deserialize_many([None, data])
    assert caught.value.fields["index"] == 1
    assert caught.value.fields["data"] == data
    assert pickle.loads(pickle.dumps(caught.value)).fields["index"] == 1


def test_the_text_of_an_error_does_not_show_the_data():
    """Records may be private, logs are not."""
    with pytest.raises(SerdeError) as caught:
        IntSerde().deserialize(b"4111-1111")
    assert "4111" not in str(caught.value)
    with pytest.raises(SerdeError) as caught:
        IntSerde().serialize("4111-1111")  # pyright: ignore
    assert "4111" not in str(caught.value)


def test_each_goes_on_after_a_failure():
    """One bad record meets the handler alone; the others are decoded once."""
    values, errors = IntSerde().deserialize_each([b"\x00" * 8, b"x", None, b"y"])
    assert values == [0, None, None, None]
    assert [error.fields["index"] for error in errors] == [1, 3]
    data, errors = StrSerde().serialize_each(["a", 1, "b"])  # pyright: ignore
    assert data == [b"a", None, b"b"]
    assert [error.fields["index"] for error in errors] == [1]
    assert StrSerde().serialize_each(["a"]) == ([b"a"], [])


def test_a_float_serde_takes_an_int_that_it_holds_exactly():
    """PEP 484 lets an int stand for a float; a loss is refused."""
    assert FloatSerde().serialize(3) == struct.pack(">d", 3.0)


BATCHES = [
    (StrSerde(), st.text(st.characters(exclude_categories=["Cs"]))),
    (IntSerde(), st.integers(-(2**63), 2**63 - 1)),
    (Int32Serde(), st.integers(-(2**31), 2**31 - 1)),
    (Int16Serde(), st.integers(-(2**15), 2**15 - 1)),
    (FloatSerde(), st.floats(allow_nan=False)),
    (Float32Serde(), st.floats(allow_nan=False, width=32)),
    (BytesSerde(), st.binary()),
    (BoolSerde(), st.booleans()),
    (UUIDSerde(), st.uuids()),
]


@pytest.mark.parametrize(("serde", "values"), BATCHES, ids=lambda case: getattr(case, "name", ""))
@given(data=st.data())
def test_batches_agree_with_single_calls_and_come_back(serde, values, data):
    """What is read is what was written, type and all; a batch is its items."""
    batch = data.draw(st.lists(st.none() | values))
    encoded = serde.serialize_many(batch)
    assert encoded == [serde.serialize(value) for value in batch]
    decoded = serde.deserialize_many(encoded)
    assert decoded == batch
    assert [type(value) for value in decoded] == [type(value) for value in batch]
    assert decoded == [serde.deserialize(item) for item in encoded]


@given(st.floats())
def test_floats_keep_every_bit_that_has_a_meaning(value):
    """NaN stays NaN and minus zero stays minus zero."""
    back = FloatSerde().deserialize(FloatSerde().serialize(value))
    assert back is not None
    assert math.isnan(back) == math.isnan(value)
    assert math.copysign(1, back) == math.copysign(1, value) or math.isnan(value)
