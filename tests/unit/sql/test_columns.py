"""The columns of types, and what an index makes of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from mustela import (
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.admin.data.hidden import Hidden
from mustela.schemas import AvroSerde
from mustela.sql.asking import ask
from mustela.sql.process import SqlLimits
from tests.unit.sql.inside import statements_run_here


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    statements_run_here(monkeypatch)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Place(msgspec.Struct, frozen=True):
    city: str
    code: int | None = None


class Pair(NamedTuple):
    left: int
    right: str


class Extra(TypedDict):
    note: str


@dataclass
class Everything:
    text: str
    whole: int
    number: float
    yes: bool
    raw: bytes
    moment: datetime
    day: date
    clock: time
    span: timedelta
    price: Decimal
    ident: UUID
    colour: Colour
    level: Level
    kind: Literal["a", "b"]
    place: Place
    pair: Pair
    extra: Extra
    maybe: int | None = None
    numbers: list[int] = field(default_factory=list)
    places: tuple[Place, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    anything: Any = None
    either: int | str = 0


MOMENT = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
ROW = Everything(
    "ä", 2**62, 0.5, True, b"\x00", MOMENT, date(2026, 1, 31), time(1, 2, 3), timedelta(hours=26),
    Decimal("1.50"), UUID(int=7), Colour.RED, Level.LOW, "a", Place("Rome", 1), Pair(1, "r"),
    {"note": "n"}, None, [1, 2], (Place("Oslo"),), {"x": 1}, {"deep": [1]}, "text",
)  # fmt: skip


class Inner(pydantic.BaseModel):
    city: str
    code: int | None = None


class Model(pydantic.BaseModel):
    city: str = pydantic.Field(alias="theCity")
    place: Inner | None = None
    email: str = "secret@example.org"


class Key(msgspec.Struct, frozen=True):
    region: str
    city: str


def test_each_type_has_its_column_and_values_come_back_as_they_were():
    """Records become structs, and what SQL has no type for is JSON."""
    builder = StreamsBuilder()
    builder.table("rows", key=str, value=Everything, store="rows")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("rows").pipe_input("k", ROW)
        found = driver.sql("select * exclude (key, timestamp) from rows")
        [shown] = found.dicts()
        months, days, nanos = shown.pop("span")
        assert (months, timedelta(days=days, microseconds=nanos / 1000)) == (0, ROW.span)
        assert shown.pop("price") == ROW.price
        assert shown == {
            "text": "ä", "whole": 2**62, "number": 0.5, "yes": True, "raw": b"\x00",
            "moment": MOMENT, "day": ROW.day, "clock": ROW.clock, "ident": str(ROW.ident),
            "colour": "red", "level": 1, "kind": "a", "place": {"city": "Rome", "code": 1},
            "pair": {"left": 1, "right": "r"}, "extra": {"note": "n"}, "maybe": None,
            "numbers": [1, 2], "places": [{"city": "Oslo", "code": None}], "counts": [("x", 1)],
            "anything": '{"deep":[1]}', "either": '"text"',
        }  # fmt: skip
        asked = (
            "select place.city, price * 2, anything ->> 'deep' from rows where day < '2027-01-01'"
        )
        assert driver.sql(asked).rows == [("Rome", Decimal("3.00"), "[1]")]


def test_models_keys_that_are_records_and_names_that_are_taken():
    """Fields have their names in JSON; a key's come first."""
    builder = StreamsBuilder()
    builder.table("models", key=Key, value=Model, store="models")
    builder.table("odd", key=str, value=TypedDict("Odd", {"KEY": int, "value": int}), store="odd")  # type: ignore[arg-type]
    builder.table("loose", key=str, value=dict, store="loose")
    with TopologyTestDriver(builder) as driver:
        model = Model(theCity="Rome", place=Inner(city="Oslo"))
        driver.create_input_topic("models").pipe_input(Key("eu", "r"), model)
        driver.create_input_topic("odd").pipe_input("k", {"KEY": 1, "value": 2})
        driver.create_input_topic("loose").pipe_input("k", {"email": "a", "n": 1})
        models = driver.sql("select * exclude timestamp from models where region = 'eu'")
        assert models.dicts() == [
            {"region": "eu", "city": "r", "theCity": "Rome", "email": "secret@example.org",
             "place": {"city": "Oslo", "code": None}}
        ]  # fmt: skip
        odd = driver.sql("select * exclude timestamp from odd")
        assert odd.dicts() == [{"key": "k", "value_KEY": 1, "value": 2}]
        assert driver.sql("select value ->> 'n' from loose").rows == [("1",)]

        hidden = Hidden(fields=["models:place.city", "*:email"])

        def shown(statement):
            return ask(driver.queries, statement, limits=SqlLimits(), hidden=hidden).dicts()

        [row] = shown("select * from models")
        assert row["place"] == '{"city":"[hidden]","code":null}'
        assert "email" not in row
        [row] = shown("select value from loose")
        assert row == {"value": '{"email":"[hidden]","n":1}'}


def test_avro_with_a_type_or_a_schema_has_the_columns_of_its_record():
    """A schema without a type has columns too."""
    schema = {"type": "record", "name": "Shop", "fields": [
        {"name": "city", "type": "string"},
        {"name": "size", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]}  # fmt: skip
    builder = StreamsBuilder()
    config = {"url": "mock://sql-columns"}
    builder.table("typed", key=str, value=AvroSerde(Place, registry=config), store="typed")
    builder.table("plain", key=str, value=AvroSerde(schema=schema, registry=config), store="plain")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("typed").pipe_input("k", Place("Rome", 7))
        plain = {"city": "Oslo", "size": None, "tags": ["a"], "seen": MOMENT.replace(microsecond=0)}
        driver.create_input_topic("plain").pipe_input("k", plain)
        assert driver.sql("select city, code from typed").rows == [("Rome", 7)]
        assert driver.sql("select city, size, tags, seen from plain").rows == [
            tuple(plain.values())
        ]


class Counted(Serde[int]):
    """Whole numbers as text, which counts how often it reads one."""

    name = "counted"
    read: ClassVar[list[bytes]] = []

    def serialize(self, value: int | None) -> bytes | None:
        return None if value is None else str(value).encode()

    def deserialize(self, data: bytes | None) -> int | None:
        self.read.append(data or b"")
        return None if data is None else int(data)


def test_values_are_decoded_only_for_statements_that_show_them():
    """Keys, times, windows and sessions alone need none; an index gives its rows as ever."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=Counted())
    kept = Materialized(store="indexed", index={"low": lambda value: value < 3})
    grouped = numbers.group_by_key()
    grouped.reduce(max, materialized=kept)
    span, none = timedelta(minutes=1), timedelta(0)
    grouped.windowed_by(TimeWindows(size=span, grace=none)).reduce(max, store="windows")
    grouped.windowed_by(SessionWindows(inactivity_gap=span, grace=none)).reduce(
        max, store="sessions"
    )
    builder.table("plain", key=str, value=Counted(), store="plain")
    with TopologyTestDriver(builder) as driver:
        rows = [(f"k{n}", n) for n in range(5)]
        driver.create_input_topic("in").pipe_key_value_list(rows)
        driver.create_input_topic("plain").pipe_key_value_list(rows)
        for store in ("plain", "indexed", "windows", "sessions"):
            times = "window_start, window_end" if store[-1] == "s" else "timestamp"
            Counted.read.clear()
            assert driver.sql(f"select count(*) from {store}").rows == [(5,)]
            assert len(driver.sql(f"select key, {times} from {store} where key > 'k1'").rows) == 3
            assert len(driver.sql(f"select key from {store} where key = 'k1'").rows) == 1
            assert not Counted.read, store
            assert driver.sql(f"select sum(value::bigint) from {store}").rows == [(10,)]
            assert len(Counted.read) == 5, store


def test_an_index_is_read_by_the_column_that_it_is_of(monkeypatch):
    """A comparison of the field is a range of its index, whatever the name of that."""
    from mustela.sql import tables

    read = []
    rows_in = tables.rows_in
    monkeypatch.setattr(tables, "rows_in", lambda *given: read.append(given[2]) or rows_in(*given))
    builder = StreamsBuilder()
    kept = Materialized(store="places", index={"town": "city", "length": lambda v: len(v.city)})
    builder.table("places", key=str, value=Place, materialized=kept)
    with TopologyTestDriver(builder) as driver:
        towns = [(f"k{n}", Place(f"town{n}", n)) for n in range(9)]
        driver.create_input_topic("places").pipe_key_value_list(towns)
        statement = "select key from places where city >= 'town3' and city <= 'town5' and code <> 4"
        assert sorted(driver.sql(statement).rows) == [("k3",), ("k5",)]
        assert read.pop().index == ("town", "town3", "town5")
        plan = [line for (line,) in driver.sql(f"explain {statement}")]
        assert "  read of the store: a range of the index town" in plan
