"""Every kind of step there is, described and explained."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from mustela import (
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Record,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    topology as room,
)
from mustela.aggregates import Count, Latest
from mustela.calls import RequestReply
from mustela.planner.explain import explain
from mustela.planner.planner import plan
from mustela.processors import ContextualProcessor, Tick
from mustela.serdes.json import JsonSerde
from mustela.stores import Transaction
from mustela.topology.graph import TopologyGraph
from mustela.topology.node import Node
from mustela.windows import BufferConfig

Golden = Callable[[str, str], None]

MINUTE = timedelta(minutes=1)


def every_step() -> TopologyGraph:
    """Write a program with at least one node of every kind."""
    builder = StreamsBuilder()
    clicks = builder.stream(re.compile("clicks-.*"), key=str, value=str, name="clicks")
    users = builder.table("users", key=str, value=str, store="users")
    builder.scheduled("beat", beat, every=MINUTE, stores=("counts",)).to(
        "beats", key=str, value=str
    )
    stateless(clicks)
    joins(builder, clicks, users)
    folds(clicks)
    tables(builder, clicks, users)
    transactions(clicks)
    calls(builder, clicks)
    processors(clicks)
    return builder.build()


def stateless(clicks: KStream[str, str]) -> None:
    split = clicks.split(name="by").branch(same, name="same").branch(other, name="other")
    branches = split.default_branch()
    branches["same"].merge(branches["other"], name="merged").to("merged", name="out")
    branches["default"].print(name="printed")
    clicks.map(pair, name="map").flat_map(pairs, name="flat-map").foreach(other, name="foreach")
    mapped = clicks.map_values(str.upper, name="values").flat_map_values(str.split, name="words")
    mapped.filter(other, name="kept").peek(other, name="seen").to(choose, value=str, name="chosen")
    clicks.distinct(within=MINUTE, key=pair, store="seen").foreach(other, name="once")
    selected = clicks.select_key(other, name="new-key")
    selected.repartition(key=str, name="spread", partitioner=partition).to("spread", name="all")


def joins(builder: StreamsBuilder, clicks: KStream[str, str], users: KTable[str, str]) -> None:
    lands = builder.global_table("lands", key=str, value=str, store="lands")
    named = clicks.join(users, str.__add__, name="named")
    named.join(lands, str.__add__, foreign_key_with_key=other, name="landed")
    windows = JoinWindows.of_time_difference(MINUTE, grace=MINUTE)
    views = builder.stream("views", key=str, value=str)
    clicks.outer_join(views, both, windows=windows, name="both")
    own = JoinWindows(before=length, before_max=MINUTE, after=MINUTE, grace=MINUTE)
    clicks.join(views, both, windows=own, name="own")


def folds(clicks: KStream[str, str]) -> None:
    grouped = clicks.group_by_key()
    grouped.count(store="counts")
    grouped.count(materialized=Materialized(store="recent", ttl=MINUTE))
    windowed = grouped.windowed_by(TimeWindows(size=MINUTE, grace=MINUTE))
    final = Suppressed.until_window_closes(BufferConfig.unbounded())
    windowed.count(store="per-minute").suppress(final, name="final").to_stream(name="closed")
    grouped.cogroup(fold).aggregate(str, value=str, store="together")
    grouped.aggregate(last=Latest(), number=Count(), store="said")


def tables(builder: StreamsBuilder, clicks: KStream[str, str], users: KTable[str, str]) -> None:
    last = clicks.to_table(store="last")
    good = last.filter(other, name="good").map_values(str.upper, name="loud", value=str)
    good.join(users, str.__add__, name="rows")
    users.group_by(pair, key=str, value=str, name="by-name").count(store="by-name")
    nations = builder.table("nations", key=str, value=str, store="nations")
    users.join(nations, str.__add__, foreign_key=str.lower, name="nation-of")


def transactions(clicks: KStream[str, str]) -> None:
    supplier = Stores.persistent_key_value_store("pages")
    pages = Stores.key_value_store_builder(supplier, key=str, value=str)
    done = clicks.transact(keys=pair, fn=transact, stores=pages, name="together")
    done.refused().to("refused", value=JsonSerde())


def calls(builder: StreamsBuilder, clicks: KStream[str, str]) -> None:
    clicks.map_values_async(str.upper, name="called").to("called", value=str)
    replies = builder.stream("replies", key=bytes, value=str)
    asking = RequestReply(topic="requests", timeout=MINUTE)
    clicks.request_reply(replies, str.__add__, asking, name="asked").to("asked", value=str)


def processors(clicks: KStream[str, str]) -> None:
    points = Stores.persistent_key_value_store("points")
    points = Stores.key_value_store_builder(points, key=str, value=int)
    scored = clicks.process(
        Score, reads=["counts"], updates=[points], replies=["told"], outputs=["odd"], name="score"
    )
    scored.to("scores", key=str, value=str, name="scores")
    scored.peek(other, name="peeked")
    scored.output("odd").to("odd", name="odd")
    scored.reply("told").map_values(str, name="told").to("told", value=str)


class Score(ContextualProcessor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None: ...


def transact(key: str, value: str, tx: Transaction) -> None:
    tx.store("pages").put(key, value)


def beat(_tick: Tick) -> list[tuple[str, str]]:
    return [("a", "b")]


def same(key: str, value: str) -> bool:
    return key == value


def other(_key: str, value: str) -> str:
    return value


def choose(key: str, _value: str, _context: object) -> str:
    return key


def partition(_topic: str, _key: str, _value: str, count: int) -> int:
    return count - 1


def length(record: Record[str, str]) -> timedelta:
    return timedelta(seconds=len(record.value))


def both(left: str | None, right: str | None) -> str:
    return f"{left} {right}"


def pair(key: str, value: str) -> tuple[str, str]:
    return value, key


def pairs(key: str, value: str) -> list[tuple[str, str]]:
    return [(value, key)]


def fold(_key: str, value: str, folded: str) -> str:
    return folded + value


def kinds(base: type[Node]) -> set[str]:
    """Return every kind of node that the topology's room has."""
    found: set[str] = set()
    for kind in base.__subclasses__():
        if kind.__module__.startswith("mustela.topology."):
            found |= {kind.__name__} | kinds(kind)
    return found


def test_the_program_holds_every_kind_of_node() -> None:
    """A new kind is to be added here, and seen in both texts."""
    for file in sorted(Path(room.__path__[0]).glob("*.py")):
        import_module(f"mustela.topology.{file.stem}")
    used = {type(node).__name__ for node in every_step()}
    used |= {type(step.node).__name__ for s in plan(every_step()).stages for step in s.steps}
    assert kinds(Node) - used == set()


def test_every_kind_of_step_is_described(golden: Golden) -> None:
    """In Kafka Streams' form."""
    golden("describe/every_node.txt", every_step().describe())


def test_every_kind_of_step_is_explained(golden: Golden) -> None:
    """With what it is, what it reads and what it keeps."""
    golden("plan/every_node.txt", explain(plan(every_step())))


def test_every_store_has_a_meaning(golden: Golden) -> None:
    """It stands in each epoch record, so what it is for a program stays the same."""
    planned = plan(every_step())
    assert planned.meanings.keys() == planned.stores.keys()
    lines = [f"{name}: {meaning.as_dict()}" for name, meaning in planned.meanings.items()]
    golden("formats/store_meanings.txt", "\n".join(lines) + "\n")
