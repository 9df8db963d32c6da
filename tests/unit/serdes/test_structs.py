"""JSON, msgpack and declared types."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from mustela.serdes.base import Serde, SerdeError, SerdeTypeError
from mustela.serdes.json import JsonSerde
from mustela.serdes.msgpack import MsgpackSerde
from mustela.serdes.resolve import UnknownSerdeError, resolve_serde, serde_names
from mustela.serdes.structs import PydanticSerde, StructSerde


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


@dataclasses.dataclass
class Order:
    id: UUID
    lines: list[Line]
    at: datetime | None = None


class Sample(msgspec.Struct, frozen=True):
    name: str
    tags: tuple[str, ...] = ()


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(TypedDict):
    total: int


class Model(pydantic.BaseModel):
    total: int = pydantic.Field(ge=0)
    at: datetime | None = None


class Alias(pydantic.BaseModel):
    total: int = pydantic.Field(alias="Total")


CASES: list[tuple[Any, Any, bytes]] = [
    (dict, {"a": [1, None]}, b'{"a":[1,null]}'),
    (list, [1, "x"], b'[1,"x"]'),
    ("json", 5, b"5"),
    ("msgpack", {"a": 1}, b"\x81\xa1a\x01"),
    (
        Order,
        Order(UUID(int=1), [Line("a", Decimal("1.50"))], datetime(2026, 1, 2, tzinfo=UTC)),
        b'{"id":"00000000-0000-0000-0000-000000000001","lines":[{"sku":"a","price":"1.50"}],'
        b'"at":"2026-01-02T00:00:00Z"}',
    ),
    (Sample, Sample("a", ("b",)), b'{"name":"a","tags":["b"]}'),
    (Point, Point(1, 2), b"[1,2]"),
    (Row, {"total": 3}, b'{"total":3}'),
    (list[Point], [Point(1)], b"[[1,0]]"),
    (dict[str, int], {"a": 1}, b'{"a":1}'),
    (Model, Model(total=3), b'{"total":3,"at":null}'),
    (Alias, Alias(Total=3), b'{"Total":3}'),
]


@pytest.mark.parametrize(("spec", "value", "expected"), CASES, ids=lambda case: str(case)[:30])
def test_a_declared_value_comes_back(spec, value, expected):
    """The bytes are plain JSON or msgpack, what returns is of the declared type."""
    serde = resolve_serde(spec)
    assert serde.serialize(value) == expected
    assert serde.serialize_many([value, None]) == [expected, None]
    assert serde.deserialize(expected) == value
    assert serde.deserialize_many([None, expected]) == [None, value]
    assert type(serde.deserialize(expected)) is type(value)


@pytest.mark.parametrize("spec", [case[0] for case in CASES] + serde_names(), ids=str)
def test_a_serde_survives_pickle(spec):
    """It is shipped to workers: the copy is equal and works."""
    serde = resolve_serde(spec)
    copy = pickle.loads(pickle.dumps(serde))
    assert copy == serde
    assert hash(copy) == hash(serde)
    assert copy.name == serde.name
    assert copy.serialize(None) is None
    assert copy.deserialize(None) is None
    assert resolve_serde(serde) is serde


@pytest.mark.parametrize("spec", ["json", "msgpack", Order, Model], ids=str)
def test_a_serde_is_frozen(spec):
    """Its name is part of a fingerprint: nothing about it changes."""
    for name in ("name", "sort_keys", "other"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(resolve_serde(spec), name, "x")


WRONG: list[Any] = [
    (dict, [1]),
    (list, {"a": 1}),
    pytest.param("json", object(), id="json-object"),
    ("json", {1 + 2j: 1}),
    pytest.param("msgpack", object(), id="msgpack-object"),
    ("msgpack", 2**70),
    (Order, {"id": 1}),
    (Order, Sample("a")),
    (Order, Order("no uuid", [])),  # pyright: ignore[reportArgumentType]
    (Sample, Sample(5)),  # pyright: ignore[reportArgumentType]
    (Point, (1, 2)),
    (Row, {"total": "x"}),
    (Row, {}),
    (list[Point], [Point("x")]),  # pyright: ignore[reportArgumentType]
    (Model, {"total": 3}),
    (Model, Model.model_construct(total="x")),
    (Model, Model.model_construct(total=-1)),
]


@pytest.mark.parametrize(("spec", "value"), WRONG, ids=lambda case: str(case)[:30])
def test_a_value_that_could_not_be_read_back_is_refused_when_it_is_written(spec, value):
    """A store must never hold what its own serde cannot read."""
    with pytest.raises(SerdeError) as caught:
        resolve_serde(spec).serialize_many([None, value])
    assert caught.value.fields["index"] == 1
    assert caught.value.fix


BAD: list[tuple[Any, bytes]] = [
    ("json", b"{"),
    ("json", b""),
    ("json", b"\xff"),
    (dict, b"[]"),
    ("msgpack", b"\xc1"),
    ("msgpack", b""),
    (Order, b'{"id": 3, "lines": []}'),
    (Sample, b"{}"),
    (Model, b'{"total": "4111-1111"}'),
    (Model, b"{"),
]


@pytest.mark.parametrize(("spec", "data"), BAD, ids=str)
def test_bytes_of_another_format_are_refused(spec, data):
    """The error has the index and the bytes as fields; its text does not show the data."""
    with pytest.raises(SerdeError) as caught:
        resolve_serde(spec).deserialize_many([None, data])
    assert caught.value.fields["index"] == 1
    assert caught.value.fields["data"] == data
    assert "4111" not in str(caught.value)


def test_the_error_names_the_field():
    """A typed decode says where."""
    with pytest.raises(SerdeError, match=r"\$\.lines\[0\]\.price"):
        resolve_serde(Order).serialize(Order(UUID(int=1), [Line("a", "x")]))  # pyright: ignore
    with pytest.raises(SerdeError, match="total: "):
        resolve_serde(Model).deserialize(b'{"total": -1}')


def test_verification_can_be_switched_off():
    """Who is sure of the values may save the time."""
    serde = StructSerde(Sample, verify=False)
    assert serde.serialize(Sample(5)) == b'{"name":5,"tags":[]}'  # pyright: ignore
    assert serde != StructSerde(Sample)


@pytest.mark.parametrize("spec", ["json", dict, "msgpack", dict[str, int], Row])
def test_equal_keys_are_equal_bytes(spec):
    """As keys, dicts are written in sorted order; as values, in their own."""
    one, other = {"total": 1, "a": 2}, {"a": 2, "total": 1}
    key, value = resolve_serde(spec, key=True), resolve_serde(spec)
    assert key.serialize(one) == key.serialize(other)
    assert value.serialize(one) != value.serialize(other)
    assert key != value
    assert key.name != value.name


def test_pydantic_keys_are_sorted_inside():
    """A model's fields keep their order of declaration only as values."""
    key = resolve_serde(Model, key=True)
    assert key.serialize(Model(total=1)) == b'{"at":null,"total":1}'


def test_immutable_is_told_from_the_declared_type():
    """Stores keep what cannot change without a copy."""
    assert resolve_serde(Sample).immutable
    assert resolve_serde(Point).immutable
    for spec in (Order, Row, Model, dict, list, "json", "msgpack", list[Point]):
        assert not resolve_serde(spec).immutable
    assert resolve_serde(tuple[int, ...]).immutable
    assert not resolve_serde(tuple[list[int], ...]).immutable


@dataclasses.dataclass(frozen=True)
class Tree:
    left: Tree | None
    items: tuple[int, ...]


def test_immutability_of_a_recursive_type():
    """A type that names itself does not loop."""
    assert resolve_serde(Tree).immutable


UNKNOWN: list[Any] = [
    ("jsn", "json"),
    ("Strng", "string"),
    ("xyzzy", "pass a type"),
    pytest.param(object(), "dataclass", id="object-dataclass"),
    (complex, "dataclass"),
    (JsonSerde, "JsonSerde()"),
    (3, "dataclass"),
    ([str], "dataclass"),
]


@pytest.mark.parametrize(("spec", "fix"), UNKNOWN, ids=str)
def test_an_unknown_spec_is_an_error_with_a_hint(spec, fix):
    """The fix says what was probably meant."""
    with pytest.raises(UnknownSerdeError) as caught:
        resolve_serde(spec)
    assert fix in str(caught.value.fix)


def test_a_type_that_json_cannot_hold_is_refused_when_the_topology_is_built():
    """Not at the first record."""

    class Odd(msgspec.Struct):
        value: int | list[int] | Sample | Row

    with pytest.raises(SerdeTypeError):
        resolve_serde(Odd)


def test_names_and_types_of_the_same_format_agree():
    """``int`` and ``"int"`` are the same serde; so are Kafka's names for them."""
    for spec, *names in (
        (str, "str", "string"),
        (int, "int", "long"),
        (float, "float", "double"),
        (bytes, "bytes"),
        (bool, "bool", "boolean"),
        (UUID, "uuid"),
        (None, "void", type(None)),
        (dict, "dict"),
        (Any, "json"),
    ):
        for name in names:
            assert resolve_serde(spec) == resolve_serde(name)
    distinct = {resolve_serde(name) for name in serde_names()}
    assert len({serde.name for serde in distinct}) == len(distinct)


def test_a_serde_of_the_users_own_works_in_batches():
    """Whatever it raises is named with serde and index."""

    class Fussy(Serde[int]):
        name = "fussy"

        def serialize(self, value: int | None) -> bytes | None:
            return None if value is None else bytes([value])

        def deserialize(self, data: bytes | None) -> int | None:
            return None if data is None else data[0]

    assert Fussy().serialize_many([1, None]) == [b"\x01", None]
    assert Fussy().deserialize_many([b"\x01", None]) == [1, None]
    with pytest.raises(SerdeError, match="fussy failed: ValueError") as caught:
        Fussy().serialize_many([1, 256])
    assert caught.value.fields["index"] == 1
    values, errors = Fussy().deserialize_each([b"", b"\x02"])
    assert values == [None, 2]
    assert errors[0].fields["index"] == 0
    assert Fussy() == Fussy()
    assert repr(Fussy()) == "<Fussy fussy>"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("serde", [JsonSerde(), JsonSerde(sort_keys=True), MsgpackSerde()], ids=str)
@given(batch=st.lists(json_values))
def test_json_and_msgpack_come_back(serde, batch):
    """What JSON holds is what returns."""
    encoded = serde.serialize_many(batch)
    assert serde.deserialize_many(encoded) == batch
    assert encoded == [serde.serialize(value) for value in batch]


def test_workers_do_not_load_pydantic():
    """The rooms that run on executors start fast: no pydantic unless a model of it is used."""
    program = (
        "import sys; from mustela.serdes import resolve, values;"
        "resolve.resolve_serde(int); values.ValueSerde();"
        "print([name for name in ('pydantic', 'yaml', 'mustela.config') if name in sys.modules])"
    )
    root = str(Path(__file__).parents[3] / "src")
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


def test_a_pydantic_model_is_told_from_its_class():
    """Models go by pydantic's rules, dataclasses by msgspec's."""
    assert isinstance(resolve_serde(Model), PydanticSerde)
    assert isinstance(resolve_serde(Order), StructSerde)
