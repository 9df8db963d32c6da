"""Programs with stores of several kinds, drawn from a seed; later releases have more of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from mustela import Materialized, SessionWindows, Stores, StreamsBuilder, TimeWindows
from mustela.processors import ContextualProcessor, Record
from mustela.stores import CustomStore, query_method
from tests.faults.kinds.kind import Sent

__all__ = [
    "BY_KEY",
    "KEYS",
    "KEY_GROUPS",
    "PARTITIONS",
    "RELEASES",
    "SHAPES",
    "TTL_MS",
    "WINDOW_MS",
    "Program",
    "Shape",
    "draw",
    "maker",
]

KEYS = tuple(f"k{n:02}" for n in range(24))
KEY_GROUPS = 4
PARTITIONS = 2
WINDOW_MS = 3_000
GAP_MS = 400
TTL_MS = 700
"""So old that of the keys some have expired, and others not."""
RELEASES = 3
_GRACE = timedelta(hours=1)
_HISTORY = timedelta(days=1)
_CITIES = ("Oslo", "Rome", "Bonn")


class Notes(CustomStore):
    """The last lines of each key."""

    def write(self, key: str, line: str) -> None:
        """Keep a line in one of a few places."""
        self.rows(key).put(line[-1:].encode(), line.encode())

    @query_method
    def lines(self, key: str) -> list[str]:
        """The lines of a key."""
        return [line.decode() for _, line in self.rows(key).range()]


class Write(ContextualProcessor):
    """Keeps what comes."""

    def process(self, record: Record) -> None:
        """Keep a record."""
        self.context.state_store("notes").write(record.key, record.value)


Build = Callable[[Any, str], None]


class Shape(NamedTuple):
    """A kind of store, and what leads to it.

    Attributes:
        layout: How its rows are kept: ``keyed``, ``expiring``, ``global``, ``window``, ``session``,
            ``versioned``, ``lines``.
        value: How its values are kept: ``int``, ``str`` or ``json``.
        topic: What it reads, without prefix.
        build: Makes it of a stream of that topic, or of the builder if it begins with a table.
    """

    layout: str
    value: str
    topic: str
    build: Build


def _last(_old: str, new: str) -> str:
    return new


def _count(rows: Any, name: str) -> None:
    rows.group_by_key().count(store=name, name=name)


def _reduce(rows: Any, name: str) -> None:
    rows.group_by_key().reduce(_last, store=name, name=name)


def _recent(rows: Any, name: str) -> None:
    ttl = timedelta(milliseconds=TTL_MS)
    kept = Materialized[str, int](store=name, ttl=ttl, ttl_by="processing_time")
    rows.group_by_key().count(materialized=kept, name=name)


def _sum(rows: Any, name: str) -> None:
    grouped = rows.group_by_key()
    grouped.aggregate(
        int, lambda _key, line, sum: sum + len(line), store=name, name=name, value=int
    )


def _windows(rows: Any, name: str) -> None:
    size = timedelta(milliseconds=WINDOW_MS)
    windowed = rows.group_by_key().windowed_by(TimeWindows(size=size, grace=_GRACE))
    windowed.count(store=name, name=name)


def _sessions(rows: Any, name: str) -> None:
    gap = timedelta(milliseconds=GAP_MS)
    windowed = rows.group_by_key().windowed_by(SessionWindows(inactivity_gap=gap, grace=_GRACE))
    windowed.count(store=name, name=name)


def _notes(rows: Any, name: str) -> None:
    rows.process(Write, stores=[Notes().builder(name, key=str)], name=name)


def _table(builder: Any, topic: str) -> None:
    builder.table(topic, key=str, value=str, store="rows")


def _fresh(builder: Any, topic: str) -> None:
    kept = Materialized[str, str](store="fresh", ttl=timedelta(milliseconds=TTL_MS))
    builder.table(topic, key=str, value=str, materialized=kept)


def _shops(builder: Any, topic: str) -> None:
    builder.global_table(topic, key=str, value=str, store="shops")


def _documents(builder: Any, topic: str) -> None:
    kept = Materialized[str, Any](store="documents", index={"city": "address.city"})
    builder.table(topic, key=str, value=dict, materialized=kept)


def _versions(builder: Any, topic: str) -> None:
    supplier = Stores.persistent_versioned_key_value_store("versions", _HISTORY)
    builder.table(topic, key=str, value=str, materialized=Materialized(supplier=supplier))


def _regrouped(builder: Any, topic: str) -> None:
    owners = builder.table(topic, key=str, value=str, store="owners", name="owners")
    grouped = owners.group_by(lambda key, owner: (owner, key), key=str, value=str, name="by-owner")
    grouped.count(store="regrouped", name="regrouped")


SHAPES = {
    "counts": Shape("keyed", "int", "in", _count),
    "lasts": Shape("keyed", "str", "in", _reduce),
    "sums": Shape("keyed", "int", "in", _sum),
    "windows": Shape("window", "int", "in", _windows),
    "sessions": Shape("session", "int", "in", _sessions),
    "notes": Shape("lines", "str", "in", _notes),
    "recent": Shape("expiring", "int", "in", _recent),
    "rows": Shape("keyed", "str", "rows", _table),
    "fresh": Shape("expiring", "str", "fresh", _fresh),
    "shops": Shape("global", "str", "shops", _shops),
    "documents": Shape("keyed", "json", "documents", _documents),
    "versions": Shape("versioned", "str", "versions", _versions),
    "regrouped": Shape("keyed", "int", "owners", _regrouped),
}
"""By name, the stores that a program may have."""

BY_KEY = ("keyed", "expiring", "global")
"""The layouts of stores that have one row of a key."""

_WAYS = ("as it is", "mapped", "filtered", "rekeyed")


def _longer(line: str) -> str:
    return f"{line[:-1]}+{line[-1:]}"


def _is_kept(_key: str, line: str) -> bool:
    return not line.endswith("3")


def _by_line(_key: str, line: str) -> str:
    return KEYS[sum(line.encode()) % len(KEYS)]


def _led(rows: Any, way: str, name: str) -> Any:
    """Lead a stream to a store by some steps."""
    if way == "mapped":
        return rows.map_values(_longer, name=f"{name}-mapped", value=str)
    if way == "filtered":
        return rows.filter(_is_kept, name=f"{name}-filtered")
    if way == "rekeyed":
        keyed = rows.select_key(_by_line, name=f"{name}-rekeyed", key=str)
        return keyed.repartition(name=f"{name}-again", key=str, value=str)
    return rows


@dataclass(frozen=True, slots=True)
class Program:
    """A program in one of its releases.

    Attributes:
        seed: What it was drawn from.
        release: Counted from 0.
        stores: The names of its stores with the way that leads to each, oldest first.
    """

    seed: int
    release: int
    stores: tuple[tuple[str, str], ...]

    @property
    def shapes(self) -> dict[str, Shape]:
        """Every store that can be read, by name."""
        found = {name: SHAPES[name] for name, _ in self.stores}
        if "regrouped" in found:
            found["owners"] = Shape("keyed", "str", "owners", _table)
        return found

    @property
    def topics(self) -> list[str]:
        """The topics that it reads, without prefix."""
        return sorted({SHAPES[name].topic for name, _ in self.stores})

    def build(self, builder: StreamsBuilder, prefix: str) -> None:
        """Build the topology."""
        for name, way in self.stores:
            shape = SHAPES[name]
            topic = f"{prefix}.{shape.topic}"
            if shape.topic == "in":
                rows = builder.stream(topic, key=str, value=str, name="lines")
                shape.build(_led(rows, way, name), name)
            else:
                shape.build(builder, topic)


def draw(seed: int, release: int) -> Program:
    """Draw the program of a seed; each release has one store more than the one before.

    The first has two of its own with a row of a key at least, and four to six in all.
    """
    rng = random.Random(f"reads-{seed}")
    keyed = [name for name, shape in SHAPES.items() if shape.layout in ("keyed", "expiring")]
    first = rng.sample(keyed, 2)
    others = [name for name in SHAPES if name not in first]
    count = rng.randint(2, 4) + RELEASES - 1
    names = [*first, *rng.sample(others, count)]
    ways = [rng.choice(_WAYS) for _ in names]
    until = len(names) - (RELEASES - 1) + release
    return Program(seed, release, tuple(zip(names, ways, strict=True))[:until])


def maker(topics: Sequence[str]) -> Callable[[random.Random, int], Sent]:
    """Return what makes a record of a number, for one of some topics."""

    def make(rng: random.Random, number: int) -> Sent:
        topic, key = rng.choice(topics), rng.choice(KEYS)
        if topic == "in":
            return Sent(key, f"line {number}", topic=topic)
        if rng.random() < 0.15:
            return Sent(key, None, topic=topic)
        value = f"v{number}"
        if topic == "documents":
            value = json.dumps({"address": {"city": rng.choice(_CITIES)}, "number": number})
        if topic == "owners":
            value = f"o{rng.randrange(6)}"
        return Sent(key, value, topic=topic)

    return make
