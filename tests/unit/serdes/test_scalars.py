"""Decimals, dates, spans of time, enums; and the types that are made of them."""

# ruff: noqa: DTZ001, UP045
from __future__ import annotations

import enum
import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, Optional, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from mustela.model import Windowed
from mustela.serdes.base import Serde, SerdeError, SerdeTypeError
from mustela.serdes.meaning import serde_format, serde_shape
from mustela.serdes.resolve import UnknownSerdeError, resolve_serde
from mustela.serdes.row_versions import ROW_MARK, OldRows, RowVersions, UpgradingSerde
from mustela.serdes.scalars import EnumSerde
from mustela.serdes.structs import PydanticSerde
from mustela.serdes.values import ValueSerde
from mustela.serdes.widening import widening
from mustela.spark.pickling import dump_by_value
from mustela.topology.meaning_changes import compare_meanings
from mustela.topology.store_meaning import StoreMeaning


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blau"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Place(enum.Enum):
    HERE = (0, 0)
    THERE = (1, 1)


class Nobody(enum.Enum):
    pass


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Row(TypedDict):
    total: int


@attrs.define
class Cart:
    user: str
    items: list[str] = attrs.Factory(list)
    zone: int = 0


@attrs.frozen
class CartId:
    user: str
    number: int
    shop: str = "a"


@attrs.define
class Secret:
    _token: str


class Paid(msgspec.Struct, tag=True, frozen=True):
    total: Decimal


class Cancelled(msgspec.Struct, tag=True, frozen=True):
    reason: str


class Sent(msgspec.Struct, tag=True, frozen=True):
    to: str


class Untagged(msgspec.Struct):
    total: int


class Model(pydantic.BaseModel):
    total: int


class Other(pydantic.BaseModel):
    reason: str


@dataclass
class Line:
    total: int


@dataclass
class Note:
    text: str


DECIMALS = st.decimals(allow_nan=False)
SECONDS = st.integers(-24 * 3600 + 1, 24 * 3600 - 1).map(lambda s: timezone(timedelta(seconds=s)))
AWARE = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 30), timezones=SECONDS)
CARTS = st.builds(Cart, st.text(), st.lists(st.text()), st.integers(-(2**63), 2**63 - 1))
EVENTS = st.builds(Paid, DECIMALS) | st.builds(Cancelled, st.text())
TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Decimal, DECIMALS),
    (date, st.dates()),
    (datetime, st.datetimes()),
    (datetime, AWARE),
    (timedelta, st.timedeltas()),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Rights, st.sampled_from([*Rights, Rights.READ | Rights.WRITE])),
    (Place, st.sampled_from(Place)),
    (Optional[Decimal], st.none() | DECIMALS),
    (list[date], st.lists(st.dates())),
    (dict[int, Decimal], st.dictionaries(st.integers(-(2**63), 2**63 - 1), DECIMALS)),
    (dict[Colour, int], st.dictionaries(st.sampled_from(Colour), st.integers(0, 9))),
    (tuple[int, ...], st.lists(st.integers(-(2**63), 2**63 - 1)).map(tuple)),
    (tuple[str, timedelta], st.tuples(st.text(), st.timedeltas())),
    (frozenset[str], st.frozensets(st.text())),
    (Point, st.builds(Point, st.integers(0, 9), st.floats(allow_nan=False, allow_infinity=False))),
    (Row, st.fixed_dictionaries({"total": st.integers(0, 9)})),
    (Cart, CARTS),
    (list[Cart], st.lists(CARTS)),
    (Model, st.builds(Model, total=st.integers())),
    (list[Model], st.lists(st.builds(Model, total=st.integers()))),
    (Model | Other, st.builds(Model, total=st.integers()) | st.builds(Other, reason=st.text())),
    (Paid | Cancelled, EVENTS),
    (dict[str, Paid | Cancelled], st.dictionaries(st.text(), EVENTS)),
    (int | str, st.integers(-(2**63), 2**63 - 1) | st.text()),
    (Windowed[str], st.builds(Windowed, st.text(), st.integers(0, 9), st.integers(0, 9))),
]


@pytest.mark.parametrize("spec", TYPES, ids=lambda pair: str(pair[0]).rpartition(".")[2])
@given(data=st.data())
def test_a_value_comes_back_as_it_was(
    spec: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    """Alone and in a batch, as a value and as a key, and through pickle."""
    cls, values = spec
    for key in (False, True):
        serde = resolve_serde(cls, key=key)
        batch = [data.draw(values), None, data.draw(values)]
        rows = serde.serialize_many(batch)
        assert rows == [serde.serialize(value) for value in batch]
        assert serde.deserialize_many(rows) == batch == [serde.deserialize(row) for row in rows]
        twin = pickle.loads(pickle.dumps(serde))
        assert twin == serde
        assert twin.serialize_many(batch) == rows
        assert hash(twin) == hash(serde)


@pytest.mark.parametrize("values", [st.dates(), AWARE, st.datetimes(), st.text(), st.binary()])
@given(data=st.data())
def test_bytes_have_the_order_of_their_values(
    values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """So these can be keys of range queries, as can texts and bytes."""
    one, other = data.draw(values), data.draw(values)
    serde: Any = resolve_serde(type(one), key=True)
    assert (serde.serialize(one) < serde.serialize(other)) == (one < other)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_numbers_from_zero_on_have_the_order_of_their_bytes(one: int, other: int) -> None:
    """As Kafka's longs: negative ones come after them."""
    serde: Any = resolve_serde(int)
    assert (serde.serialize(one) < serde.serialize(other)) == (one < other)
    assert serde.serialize(-1) > serde.serialize(one)


@given(DECIMALS, st.integers(0, 40))
def test_equal_decimals_are_equal_keys(number: Decimal, zeros: int) -> None:
    """1.5 and 1.50 are one key, whatever the precision of the context."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return
    longer = Decimal((sign, (*digits, *(0,) * zeros), exponent - zeros))
    serde = resolve_serde(Decimal, key=True)
    assert longer == number
    assert serde.serialize(longer) == serde.serialize(number)
    assert resolve_serde(Decimal).serialize(longer) == str(longer).encode()


@given(AWARE, SECONDS)
def test_one_moment_is_one_key(moment: datetime, zone: timezone) -> None:
    """In whatever zone it is told."""
    serde = resolve_serde(datetime, key=True)
    assert serde.serialize(moment.astimezone(zone)) == serde.serialize(moment)


@pytest.mark.parametrize(
    ("spec", "value", "data"),
    [
        (Decimal, Decimal("-1.50E+3"), b"-1.50E+3"),
        (date, date(2026, 1, 31), b"2026-01-31"),
        (datetime, datetime(2026, 1, 31, 12), b"2026-01-31T12:00:00.000000"),
        (datetime, datetime(2026, 1, 31, 12, 0, 0, 5, UTC), b"2026-01-31T12:00:00.000005Z"),
        (timedelta, timedelta(days=1, milliseconds=500), b"P1DT0.5S"),
        (Colour, Colour.BLUE, b"blau"),
        (Level, Level.HIGH, b"\0\0\0\0\0\0\0\2"),
        (Place, Place.THERE, b"THERE"),
        (dict[int, str], {2: "b", 1: "a"}, b'{"2":"b","1":"a"}'),
        (tuple[int, str], (1, "a"), b'[1,"a"]'),
        (Paid | Cancelled, Cancelled("late"), b'{"type":"Cancelled","reason":"late"}'),
        (Windowed[str], Windowed("a", 0, 10), b'["a",0,10]'),
        ("json", Windowed("a", 0, 10), b'["a",0,10]'),
    ],
)
def test_bytes_are_what_the_guide_says(spec: Any, value: Any, data: bytes) -> None:
    """They are formats on disk and in topics: they never change."""
    assert resolve_serde(spec).serialize(value) == data


@pytest.mark.parametrize(
    ("spec", "value", "data"),
    [
        (dict[int, str], {2: "b", 1: "a"}, b'{"1":"a","2":"b"}'),
        (CartId, CartId("ann", 2), b'{"number":2,"shop":"a","user":"ann"}'),
        (Decimal, Decimal("1.50"), b"1.5"),
        (Decimal, Decimal("-0.00"), b"0"),
        (Decimal, Decimal("1e30"), b"1E+30"),
    ],
)
def test_bytes_of_keys_have_one_form(spec: Any, value: Any, data: bytes) -> None:
    """Sorted, and without what does not count."""
    assert resolve_serde(spec, key=True).serialize(value) == data


@pytest.mark.slow
def test_keys_are_the_same_in_each_process() -> None:
    """attrs lists its slots in an order that hashes make, which are other ones elsewhere."""
    serde = resolve_serde(CartId, key=True)
    program = (
        "import pickle, sys\n"
        "serde, value = pickle.loads(sys.stdin.buffer.read())\n"
        "sys.stdout.buffer.write(serde.serialize(value))"
    )
    sent = dump_by_value((serde, CartId("ann", 2)))
    for seed in ("1", "2", "3"):
        run = [sys.executable, "-c", program]
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(run, input=sent, capture_output=True, check=True, env=environment)
        assert done.stdout == serde.serialize(CartId("ann", 2))


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (Decimal, 1.5),
        (date, datetime(2026, 1, 1)),
        (datetime, date(2026, 1, 1)),
        (datetime, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        (timedelta, 5),
        (Colour, "red"),
        (Paid | Cancelled, Line(1)),
        (Cart, Line(1)),
    ],
)
def test_a_value_of_another_type_is_named(spec: Any, value: Any) -> None:
    """With what to do."""
    with pytest.raises(SerdeError) as caught:
        resolve_serde(spec).serialize(value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (Decimal, b"many"),
        (Decimal, b"\xff"),
        (date, b"2026-13-01"),
        (datetime, b"now"),
        (timedelta, b"5"),
        (Colour, b"green"),
        (Level, b"\0\0\0\0\0\0\0\x09"),
        (Place, b"NOWHERE"),
        (Paid | Cancelled, b'{"type":"Lost"}'),
    ],
)
def test_bytes_of_something_else_are_an_error_of_ours(spec: Any, data: bytes) -> None:
    """Never what a library raises."""
    with pytest.raises(SerdeError):
        resolve_serde(spec).deserialize(data)


def test_a_combination_without_a_name_is_written_by_its_number_or_refused() -> None:
    """Flags are numbers."""
    both = Rights.READ | Rights.WRITE
    assert resolve_serde(Rights).deserialize(resolve_serde(Rights).serialize(both)) == both


class Refusal(NamedTuple):
    spec: Any
    told: str
    fix: str


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(Nobody, "has no members", "give the enum a member"),
        Refusal(Untagged | Paid, "cannot be a serde", "Structs with a tag"),
        Refusal(Line | Note, "cannot be a serde", "Structs with a tag"),
        Refusal(str | bytes, "cannot be a serde", "types that JSON can distinguish"),
        Refusal(dict[tuple[int, int], int], "keys in JSON", "list of pairs"),
        Refusal(Secret, "field _token would not be in the JSON", "without a leading underscore"),
    ],
)
def test_a_type_that_cannot_be_is_refused_when_it_is_said(refusal: Refusal) -> None:
    """Not at the first record."""
    with pytest.raises(SerdeTypeError) as caught:
        resolve_serde(refusal.spec)
    assert refusal.told in str(caught.value)
    assert refusal.fix in str(caught.value.fix)


class Duck:
    def serialize(self, value: Any) -> bytes: ...
    def deserialize(self, data: bytes) -> Any: ...


class Codec:
    def encode(self, value: Any) -> bytes: ...
    def decode(self, data: bytes) -> Any: ...


@pytest.mark.parametrize(
    ("spec", "told", "fix"),
    [
        (Duck(), "Duck has serialize and deserialize", "class Duck(Serde[...])"),
        (Duck, "Duck has serialize and deserialize", "derive it from mustela.Serde"),
        (Codec(), "Codec has encode and decode", "serialize(value) calls encode"),
        (json, "module json has dumps and loads", "deserialize(data) calls loads"),
        (tuple, "tuple does not say what it contains", "tuple[int, ...]"),
    ],
)
def test_what_looks_like_a_serde_is_told_what_to_derive_from(
    spec: Any, told: str, fix: str
) -> None:
    """A serde of another library has no name for its format."""
    with pytest.raises(UnknownSerdeError) as caught:
        resolve_serde(spec)
    assert told in str(caught.value)
    assert fix in str(caught.value.fix)


def meaning_of(serde: Serde[Any]) -> StoreMeaning:
    return StoreMeaning(
        kind="key_value",
        layout="key_value 1",
        key="str",
        value=serde_format(serde),
        value_shape=serde_shape(serde),
    )


def attrs_class(**fields: Any) -> Any:
    return attrs.make_class("Cart", fields)


WITH_DEFAULT: Any = attrs.field(default=0, type=int)


class Fewer(enum.Enum):
    RED = "red"


class More(enum.Enum):
    RED = "red"
    BLUE = "blau"
    GREEN = "green"


@pytest.mark.parametrize(
    ("then", "now", "goes_on"),
    [
        (Colour, More, True),
        (Colour, Fewer, False),
        (Colour, str, True),
        (str, Colour, False),
        (int, Level, False),
        (Colour, Level, False),
        (Place, Colour, False),
        (Decimal, str, False),
        (Decimal, float, False),
        (date, datetime, False),
        (timedelta, int, False),
        (
            attrs_class(a=attrs.field(type=int)),
            attrs_class(a=attrs.field(type=int), b=WITH_DEFAULT),
            True,
        ),
        (
            attrs_class(a=attrs.field(type=int), b=WITH_DEFAULT),
            attrs_class(a=attrs.field(type=int)),
            False,
        ),
        (attrs_class(a=attrs.field(type=int)), attrs_class(a=attrs.field(type=str)), False),
        (Paid | Cancelled, Paid | Cancelled | Sent, True),
        (Paid | Cancelled, Paid | Sent, False),
        (list[Line], list[Line | int], True),
        (dict[int, str], dict[str, str], False),
        (tuple[int, str], tuple[int, str, int], False),
        (Model, list[Model], False),
    ],
)
def test_the_gate_tells_a_change_of_these_types(then: Any, now: Any, goes_on: bool) -> None:
    """Rows that cannot be read as what they were stop the start, before anything is written."""
    changes = compare_meanings(meaning_of(resolve_serde(then)), meaning_of(resolve_serde(now)))
    assert changes
    assert all(change.compatible for change in changes) == goes_on


@pytest.mark.parametrize("spec", [cls for cls, _ in TYPES], ids=str)
def test_a_type_means_the_same_tomorrow(spec: Any) -> None:
    """No address and no order of a set is in what is recorded."""
    serde = resolve_serde(spec)
    again = pickle.loads(pickle.dumps(serde))
    assert meaning_of(serde) == meaning_of(again)
    assert "0x" not in serde_shape(serde) + serde_format(serde)


@pytest.mark.parametrize("spec", TYPES, ids=lambda pair: str(pair[0]).rpartition(".")[2])
@given(data=st.data())
def test_rows_of_an_older_version_are_upgraded(
    spec: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    """None of these types writes bytes that look like the head of a row."""
    cls, values = spec
    old, new = resolve_serde(cls), resolve_serde(str)
    older = {1: OldRows(serde=old, upgrade=lambda value: f"was {value}")}
    serde = UpgradingSerde(new, RowVersions(version=2, older=older))
    value = data.draw(values.filter(lambda one: one is not None))
    row = old.serialize(value)
    assert row is not None
    assert not row.startswith(ROW_MARK)
    assert serde.deserialize(row) == f"was {old.deserialize(row)}"


def test_an_attrs_class_is_widened_in_fact() -> None:
    """What the gate allows is read."""
    narrow = attrs_class(a=attrs.field(type=int))
    row = resolve_serde(narrow).serialize(narrow(4))
    assert row == b'{"a":4}'
    wider = attrs_class(a=attrs.field(type=int), b=WITH_DEFAULT)
    assert resolve_serde(wider).deserialize(row) == wider(4, 0)


def test_attrs_classes_are_values_of_stores_without_a_serde_too() -> None:
    """By their path and fields, as dataclasses."""
    serde = ValueSerde([Cart, CartId, Secret])
    for value in (Cart("ann", ["tea"], 3), CartId("bob", 1), Secret("x")):
        assert serde.deserialize(serde.serialize([value])) == [value]


def test_a_list_of_models_is_written_by_pydantic() -> None:
    """Also in a union, where the tag is pydantic's own."""
    assert isinstance(resolve_serde(list[Model]), PydanticSerde)
    assert resolve_serde(dict[str, Model]).serialize({"a": Model(total=1)}) == b'{"a":{"total":1}}'


def test_frozen_values_are_known_to_be_so() -> None:
    """A store keeps those without a copy."""
    frozen = (Decimal, date, datetime, timedelta, Colour, CartId, Paid | Cancelled)
    assert all(resolve_serde(cls).immutable for cls in frozen)
    assert not any(resolve_serde(cls).immutable for cls in (Cart, list[int], Model))


def test_another_enum_is_another_serde() -> None:
    """Equal by the enum that it is of."""
    assert EnumSerde(Colour) == EnumSerde(Colour)
    assert EnumSerde(Colour) != EnumSerde(More)
    assert widening(["enum", "red"], ["enum", "red", "blau"]).readable
