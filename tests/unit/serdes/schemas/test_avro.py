"""Avro by type, by schema and by name: round trips, evolution, and what is refused."""

from __future__ import annotations

import enum
import json
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from mustela.model import Windowed
from mustela.serdes.base import Serde, SerdeError, SerdePlace
from mustela.serdes.meaning import serde_format, serde_shape
from mustela.serdes.schemas.avro import AvroRecord, AvroSerde
from mustela.serdes.schemas.client import RegistrySchema, registry_of
from mustela.serdes.schemas.faults import RegistryMissingError, SchemaTypeError, SubjectMissingError
from mustela.serdes.schemas.options import RegistryOptions
from mustela.serdes.widening import widening
from mustela.serdes.windowed import WindowedSerde


class Kind(enum.Enum):
    NEW = "NEW"
    OLD = "OLD"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Line:
    item: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    user: str
    total: int
    ratio: float
    paid: bool
    raw: bytes
    id: UUID
    day: date
    at: datetime
    clock: time
    took: timedelta
    kind: Kind
    level: Level
    note: str | None = None
    lines: list[Line] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    first: Line | None = None
    pair: tuple[int, ...] = ()


def bound(serde: Serde[Any], scope: str, topic: str = "orders", part: Any = "value") -> Any:
    return serde.bound(SerdePlace(topic, part), {"url": f"mock://{scope}"})


_LONGS = st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_LINES = st.builds(Line, _TEXTS, st.decimals(allow_nan=False, allow_infinity=False))
_ORDERS = st.builds(
    Order,
    user=_TEXTS,
    total=_LONGS,
    ratio=st.floats(allow_nan=False),
    paid=st.booleans(),
    raw=st.binary(),
    id=st.uuids(),
    day=st.dates(),
    at=st.datetimes(timezones=st.just(UTC)),
    clock=st.times(),
    took=st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
    kind=st.sampled_from(Kind),
    level=st.sampled_from(Level),
    note=st.none() | _TEXTS,
    lines=st.lists(_LINES),
    counts=st.dictionaries(_TEXTS, _LONGS),
    first=st.none() | _LINES,
    pair=st.lists(_LONGS).map(tuple),
)


@given(st.lists(st.none() | _ORDERS))
def test_what_a_dataclass_holds_comes_back(orders: list[Order | None]) -> None:
    serde = bound(AvroSerde(Order, namespace="shop"), "round-trip")
    assert serde.deserialize_many(serde.serialize_many(orders)) == orders
    assert [serde.deserialize(serde.serialize(one)) for one in orders] == orders
    by_name = bound(AvroSerde(), "round-trip")
    data = serde.serialize_many(orders)
    assert by_name.serialize_many(by_name.deserialize_many(data)) == data


@given(st.binary(max_size=60))
def test_foreign_bytes_are_bad_records_and_nothing_else(data: bytes) -> None:
    """Whatever stands in a topic is a value, or an error of one record."""
    serde = bound(AvroSerde(Order), "foreign")
    head = (serde.serialize(_order()) or b"")[:5]
    tried = [data, head + data]
    found, errors = serde.deserialize_each(tried)
    for error in errors:
        at = error.fields["index"]
        assert (error.fields["data"], found[at]) == (tried[at], None)


def _order(**more: Any) -> Order:
    values: dict[str, Any] = {
        "user": "ann",
        "total": 1,
        "ratio": 0.5,
        "paid": True,
        "raw": b"r",
        "id": UUID(int=1),
        "day": date(2026, 1, 1),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "clock": time(1, 2, 3),
        "took": timedelta(1),
        "kind": Kind.OLD,
        "level": Level.HIGH,
    }
    return Order(**{**values, **more})


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        (lambda data: b"", "at least 5"),
        (lambda data: data[:4], "at least 5"),
        (lambda data: b"\x01" + data[1:], "0x01"),
        (lambda data: data[:1] + b"\0\0\x30\x39" + data[5:], "no schema with id 12345"),
        (lambda data: data[:-1], ""),
        (lambda data: data + b"x", "1 of them are after the end"),
    ],
)
def test_what_is_wrong_with_a_record_is_told(cut: Any, told: str) -> None:
    serde = bound(AvroSerde(Order), "told")
    good = serde.serialize(_order())
    bad = cut(good)
    with pytest.raises(SerdeError) as caught:
        serde.deserialize(bad)
    assert told in str(caught.value)
    found, errors = serde.deserialize_each([good, bad, None, good])
    assert found == [_order(), None, None, _order()]
    assert [error.fields["index"] for error in errors] == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": "many"},
        {"total": 2**63},
        {"note": 3},
        {"at": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is the point
        {"lines": ["x"]},
    ],
)
def test_a_value_that_its_schema_does_not_take_is_refused(wrong: dict[str, Any]) -> None:
    serde = bound(AvroSerde(Order), "refused")
    with pytest.raises(SerdeError, match="cannot encode"):
        serde.serialize(_order(**wrong))


def test_a_value_of_another_class_is_refused() -> None:
    with pytest.raises(SerdeError, match=r"holds .*Order, got str"):
        bound(AvroSerde(Order), "class").serialize("x")


def test_nothing_of_a_plain_dict_is_lost_silently() -> None:
    schema = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "a", "type": "long", "default": 7}],
    }
    serde = bound(AvroSerde(schema=schema), "dict")
    assert serde.deserialize(serde.serialize({})) == {"a": 7}
    with pytest.raises(SerdeError, match="b"):
        serde.serialize({"a": 1, "b": 2})


@dataclass
class Before:
    user: str
    total: int
    gone: str = "g"


@dataclass
class After:
    total: float
    user: str
    added: list[int] = field(default_factory=lambda: [1])
    note: str | None = None


@dataclass
class Narrow:
    total: str


def test_values_are_read_as_the_class_is_whatever_they_were_written_as() -> None:
    """Fields in another order, gone, new with a default, and a number that became wider."""
    data = bound(AvroSerde(Before), "evolution").serialize(Before("ann", 3))
    read = bound(AvroSerde(schema=AvroSerde(After)._json | {"name": "Before"}), "evolution")
    assert read.deserialize(data) == {"total": 3.0, "user": "ann", "added": [1], "note": None}
    typed = AvroSerde(After, schema={**AvroSerde(After)._json, "name": "Before"})
    assert bound(typed, "evolution").deserialize(data) == After(3.0, "ann", [1], None)
    with pytest.raises(SerdeError, match="Schema mismatch"):
        bound(
            AvroSerde(Narrow, schema={**AvroSerde(Narrow)._json, "name": "Before"}), "evolution"
        ).deserialize(data)


@given(st.lists(st.tuples(st.booleans(), _TEXTS, _LONGS), max_size=8))
def test_old_and_new_rows_of_a_batch_are_each_read_with_their_schema(
    rows: list[tuple[bool, str, int]],
) -> None:
    newer = {**AvroSerde(After)._json, "name": "Before"}
    old, new = bound(AvroSerde(Before), "mixed"), bound(AvroSerde(After, schema=newer), "mixed")
    data = [
        old.serialize(Before(user, total)) if is_old else new.serialize(After(float(total), user))
        for is_old, user, total in rows
    ]
    wanted = [After(float(total), user) for _, user, total in rows]
    assert new.deserialize_many(data) == wanted


def test_what_is_kept_is_compared_by_the_shape_of_the_schema() -> None:
    """The gate tells a field with a default from one that is gone, by class and by schema."""
    shapes = [json.loads(serde_shape(AvroSerde(cls))) for cls in (Before, After, Line)]
    gained = {**AvroSerde(Before)._json}
    gained["fields"] = [*gained["fields"], {"name": "n", "type": "long", "default": 0}]
    later = json.loads(serde_shape(AvroSerde(schema=gained)))
    assert widening(shapes[0], later).gained == ["n: int is new"]
    assert widening(shapes[0], shapes[1]).problems == ["field gone is gone"]
    assert serde_format(AvroSerde(Before)) == serde_format(AvroSerde()) == "avro"


class Event(msgspec.Struct):
    user: str
    n: int = 0


class Model(pydantic.BaseModel):
    user: str
    at: datetime
    n: int | None = None


@pytest.mark.parametrize(
    "value",
    [
        Event("ann", 3),
        Model(user="ann", at=datetime(2026, 1, 1, tzinfo=UTC)),
        "ann",
        7,
        1.5,
        b"x",
        True,
    ],
)
def test_other_types_come_back(value: Any) -> None:
    serde = bound(AvroSerde(type(value)), "others")
    assert serde.deserialize(serde.serialize(value)) == value
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert again.deserialize(again.serialize(value)) == value


def test_maps_in_keys_are_sorted_so_that_equal_keys_are_equal_bytes() -> None:
    serde = bound(AvroSerde(dict[str, int]), "keys", part="key")
    assert serde.serialize({"a": 1, "b": 2}) == serde.serialize({"b": 2, "a": 1})


def test_windowed_keys_have_the_key_in_the_wire_format() -> None:
    """As Kafka Streams: the inner serializer's bytes, then the window's start."""
    inner = bound(AvroSerde(str), "windows", part="key")
    serde = bound(
        WindowedSerde(AvroSerde(str), window_size=timedelta(milliseconds=10)), "windows", part="key"
    )
    data = serde.serialize(Windowed("ann", 256, 266))
    assert data == inner.serialize("ann") + bytes([0, 0, 0, 0, 0, 0, 1, 0])
    assert serde.deserialize_many([data, None]) == [Windowed("ann", 256, 266), None]
    assert pickle.loads(pickle.dumps(serde)).deserialize(data) == Windowed("ann", 256, 266)


def test_a_record_by_name_is_written_with_its_own_schema_and_a_dict_with_the_latest() -> None:
    source = bound(AvroSerde(Before), "by-name")
    by_name = bound(AvroSerde(), "by-name", "copies")
    record = by_name.deserialize(source.serialize(Before("ann", 3)))
    assert isinstance(record, AvroRecord)
    with pytest.raises(SubjectMissingError, match="copies-value"):
        by_name.serialize({**record, "total": 4})
    data = by_name.serialize(record)
    assert by_name.deserialize(by_name.serialize({**record, "total": 4}))["total"] == 4
    assert source.deserialize(data) == Before("ann", 3)
    options = RegistryOptions.of({"url": "mock://by-name"})
    assert options is not None
    assert registry_of(options).latest("copies-value")[1].kind == "AVRO"


def test_a_schema_of_another_kind_is_a_bad_record() -> None:
    options = RegistryOptions.of({"url": "mock://kinds"})
    assert options is not None
    schema_id = registry_of(options).id_of("x-value", RegistrySchema("{}", "JSON"))
    with pytest.raises(SerdeError, match="of JSON, not of AVRO"):
        bound(AvroSerde(), "kinds").deserialize(bytes([0, 0, 0, 0, schema_id, 1]))


def test_without_a_registry_the_error_says_what_to_set() -> None:
    for act in (lambda: AvroSerde(str).serialize("a"), lambda: AvroSerde().deserialize(b"\0" * 6)):
        with pytest.raises(RegistryMissingError, match=r"set schema\.registry\.url"):
            act()


class Unfit:
    pass


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: AvroSerde(Unfit), "Unfit has no Avro schema"),
        (lambda: AvroSerde(dict[int, str]), "keys of an Avro map are strings"),
        (lambda: AvroSerde(schema="{"), "not JSON"),
        (lambda: AvroSerde(schema={"type": "recorb"}), "cannot be read as Avro"),
    ],
)
def test_a_type_without_a_schema_is_refused_when_the_serde_is_made(make: Any, told: str) -> None:
    with pytest.raises(SchemaTypeError, match=told):
        make()
