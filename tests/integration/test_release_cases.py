"""The cases of the guide on releases: two versions of a program, one after the other, on Spark."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from pydantic import BaseModel

from mustela import Materialized, Serde, StreamsBuilder, TimeWindows
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

Build = Callable[[StreamsBuilder], None]


@dataclass
class Plain:
    total: int


@dataclass
class Noted:
    total: int
    note: str = "none"


@dataclass
class NotedAlways:
    total: int
    note: str


@dataclass
class Summed:
    sum: int


@dataclass
class AsText:
    total: str


@dataclass
class AsFloat:
    total: float


@dataclass
class Perhaps:
    total: int | str | None


class Packed(msgspec.Struct):
    total: int


class PackedNoted(msgspec.Struct):
    total: int
    note: str = "none"


class Model(BaseModel):
    total: int


class ModelNoted(BaseModel):
    total: int
    note: str = "none"


class Color(enum.Enum):
    RED = "red"


class MoreColors(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Painted:
    total: int
    color: Color = Color.RED
    size: Literal["S"] = "S"


@dataclass
class PaintedAnew:
    total: int
    color: MoreColors = MoreColors.RED
    size: Literal["S", "M"] = "S"


@dataclass
class Renamed:
    total: int


class Pair(NamedTuple):
    total: int
    note: str = "a"


class Triple(NamedTuple):
    extra: int = 0
    total: int = 0
    note: str = "a"


FIRST: dict[str, Any] = {
    "dataclass": Plain,
    "struct": Packed,
    "pydantic": Model,
    "or": Plain,
    "float": Plain,
    "painted": Painted,
    "named": Plain,
    "two": Noted,
    "pair": Pair,
    "number": float,
}
"""The values of each store in the first version."""

SECOND: dict[str, Any] = {
    **FIRST,
    "dataclass": Noted,
    "struct": PackedNoted,
    "pydantic": ModelNoted,
    "or": Perhaps,
    "float": AsFloat,
    "painted": PaintedAnew,
    "named": Renamed,
}
"""Those of a second one, which can read the rows of the first."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A version of a program.

    Attributes:
        values: The type of each store's values.
        steps: What the names of steps begin with.
        added: How much each record adds: the body of a function.
        hours: The size of windows.
        grace: In minutes.
        headers: Whether a store keeps headers.
        key: The type of a store's keys.
        plain: Whether the windowed count is one without windows.
        mapped: Whether there is one step more.
    """

    source: str
    sink: str
    values: dict[str, Any]
    steps: str = "one"
    added: int = 1
    hours: int = 1
    grace: int = 0
    headers: bool = False
    key: Any = int
    plain: bool = False
    mapped: bool = False

    def __call__(self, builder: StreamsBuilder) -> None:
        """Build it."""
        lines = builder.stream(self.source, key=str, value=str)
        if self.mapped:
            lines = lines.map_values(str.upper).filter(lambda _, text: bool(text))
        grouped = lines.group_by_key()
        added = self.added
        for store, value in self.values.items():
            made, read = _made(value), _read(value)
            table = grouped.aggregate(
                lambda made=made: made(0),
                lambda _, __, held, made=made, read=read: made(read(held) + added),
                store=store,
                value=value,
                name=f"{self.steps}.{store}",
            )
            self._tell(table, store)
        size, grace = timedelta(hours=self.hours), timedelta(minutes=self.grace)
        windows = TimeWindows(size=size, grace=grace)
        counted: Any = grouped if self.plain else grouped.windowed_by(windows)
        self._tell(counted.count(store="windows"), "windows")
        keyed = lines.group_by(lambda *_: self.key(7), key=self.key)
        self._tell(keyed.count(store="keyed"), "keyed")
        kept = Materialized[str, int](store="headed", with_headers=self.headers)
        self._tell(grouped.count(materialized=kept), "headed")

    def _tell(self, table: Any, store: str) -> None:
        told = table.to_stream(lambda *_: store, name=f"{self.steps}.named.{store}")
        texts = told.map_values(repr, name=f"{self.steps}.told.{store}")
        texts.to(self.sink, key=str, value=str)


def _made(value: Any) -> Callable[[Any], Any]:
    """Return what makes a value of a type; those that are refused are never made."""
    return (lambda total: value(total)) if value is float else (lambda total: value(total=total))


def _read(value: Any) -> Callable[[Any], Any]:
    return (lambda held: held) if value is float else (lambda held: held.total)


def test_what_the_guide_says_of_programs_that_follow_one_another(world: World) -> None:
    """What goes on counts on; what cannot is stopped, and the program before it still goes on."""
    source, sink = world.topic("in"), world.topic("out")
    first = Program(source=source, sink=sink, values=FIRST)
    stops: dict[str, tuple[Program, str, dict[str, Any]]] = {}

    def refused(what: str, code: str = "STORE_MEANING_CHANGED", **change: Any) -> None:
        settings = change.pop("settings", {})
        stops[what] = (replace(first, **change), code, settings)

    for store, value, what in (
        ("dataclass", NotedAlways, "a field is added without a default"),
        ("struct", AsText, "a field changes its type"),
        ("named", Summed, "a field changes its name"),
        ("two", Plain, "a field is taken away"),
        ("pair", Triple, "a NamedTuple gains a field before others"),
        ("number", int, "another serde"),
        ("or", "msgpack", "JSON becomes msgpack"),
    ):
        refused(what, values={**FIRST, store: value})
    refused("another type of keys", key=float)
    refused("windows of another size", hours=2)
    refused("another kind", "STORE_LAYOUT_CHANGED", plain=True)
    refused("event_time", "EVENT_TIME_CHANGED", settings={"event_time": "stream-time"})

    world.send(source, [("a", "x", 1_700_000_000_000)])
    world.run(first)
    assert told(world, sink)["dataclass"] == "Plain(total=1)"
    for what, (program, code, settings) in stops.items():
        error = world.fail(program, **settings)
        assert getattr(error, "code", error) == code, what

    second = replace(
        first, values=SECOND, steps="two", added=10, grace=30, headers=True, mapped=True
    )
    world.send(source, [("a", "x", 1_700_000_000_001)])
    world.run(second)
    wanted = {
        "dataclass": "Noted(total=11, note='none')",
        "struct": "PackedNoted(total=11, note='none')",
        "pydantic": "ModelNoted(total=11, note='none')",
        "or": "Perhaps(total=11)",
        "float": "AsFloat(total=11.0)",
        "named": "Renamed(total=11)",
        "two": "Noted(total=11, note='none')",
        "pair": "Pair(total=11, note='a')",
        "number": "11.0",
        "windows": "2",
        "keyed": "2",
        "headed": "2",
    }
    found = told(world, sink)
    painted = found.pop("painted")
    assert found == wanted
    assert painted.startswith("PaintedAnew(total=11, color=<MoreColors.RED")


def told(world: World, sink: str) -> dict[str, str]:
    return {(row.key or b"").decode(): (row.value or b"").decode() for row in world.rows(sink)}


class Own(Serde[Any]):
    """A serde whose bytes change, though neither its class nor its name does."""

    name = "own"

    def __init__(self, *, changed: bool) -> None:
        self.changed = changed

    def serialize(self, value: Any) -> bytes | None:
        """Write a number with a comma, or later a whole one."""
        return None if value is None else (b"%d" if self.changed else b"%d,0") % value

    def deserialize(self, data: bytes | None) -> Any:
        """Read what `serialize` writes."""
        return None if data is None else int(data if self.changed else data[:-2])


def test_a_row_that_cannot_be_decoded_is_named_with_its_place_in_the_changelog(
    world: World,
) -> None:
    """The record knows such a serde by its name only: store, key, offset and both shapes."""
    source = world.topic("in")

    def program(*, changed: bool) -> Build:
        def build(builder: StreamsBuilder) -> None:
            grouped = builder.stream(source, key=str, value=str).group_by_key()
            own = Own(changed=changed)
            grouped.aggregate(lambda: 0, lambda _, __, n: n + 1, store="sums", value=own)

        return build

    world.send(source, [("a", "x"), ("b", "x"), ("c", "x")])
    world.run(program(changed=False))
    (row,) = [one for one in world.rows(f"{world.name}-sums-changelog") if one.key == b"b"]
    world.send(source, [("b", "x")])
    told = str(world.fail(program(changed=True)))
    assert "STORED_VALUE" in told
    assert "store 'sums'" in told
    assert "'b'" in told
    assert f"{world.name}-sums-changelog-{row.partition}, offset {row.offset}" in told


def test_what_the_guide_says_of_stores_without_a_changelog(world: World) -> None:
    """It may be taken away; not given back, nor may others come to live beside such a store."""
    source, sink = world.topic("in"), world.topic("out")

    def program(*, logged: bool, beside: bool = False) -> Build:
        def build(builder: StreamsBuilder) -> None:
            grouped = builder.stream(source, key=str, value=str).group_by_key()
            kept = Materialized[str, int](store="counts", logged=logged)
            counts = grouped.count(materialized=kept)
            counts.to_stream(name="told").to(sink, key=str, value=int)
            if beside:
                grouped.reduce(lambda old, _: old, store="first")

        return build

    for logged in (True, False):
        world.send(source, [("a", "x")])
        world.run(program(logged=logged))
    assert world.fail(program(logged=True)).code == "CHANGELOG_INCOMPLETE"
    moved = world.fail(program(logged=False, beside=True))
    assert moved.code == "STORE_MOVED_WITHOUT_CHANGELOG"
    world.send(source, [("a", "x")])
    world.run(program(logged=False))
    assert world.numbers(sink) == {"a": 3}


def test_what_the_guide_says_of_a_store_that_leaves_and_comes_back(world: World) -> None:
    """It is unclaimed; its rows are right as long as nothing was read without it."""
    source, sink = world.topic("in"), world.topic("out")

    def program(store: str) -> Build:
        def build(builder: StreamsBuilder) -> None:
            counts = builder.stream(source, key=str, value=str).group_by_key().count(store=store)
            counts.to_stream(name="told").to(sink, key=str, value=int)

        return build

    world.send(source, [("a", "x")])
    world.run(program("counts"))
    world.run(program("others"))
    world.send(source, [("a", "x")])
    world.run(program("counts"))  # nothing was read meanwhile
    assert world.numbers(sink) == {"a": 2}
    world.send(source, [("a", "x")])
    world.run(program("others"))
    assert world.fail(program("counts")).code == "STORE_SLEPT"
