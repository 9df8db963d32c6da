"""Windows by the watermark, in every way: what no case of Kafka Streams shows."""

from __future__ import annotations

from typing import Any

from mustela import (
    KTable,
    Materialized,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Windowed,
)
from mustela.topology.graph import TopologyGraph
from mustela.windows import EmitStrategy
from tests.conformance.conftest import RunTopology
from tests.conformance.script import at
from tests.epochs import ms

WATERMARK: dict[str, Any] = {"settings": {"event_time": "watermark"}}
STREAM_TIME: dict[str, Any] = {"settings": {"event_time": "stream-time", "emit": "every"}}
FINAL = EmitStrategy.on_window_close()


def windows() -> TopologyGraph:
    """Counts on update and on close, in windows that are combined before the shuffle and others."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    hopping = grouped.windowed_by(TimeWindows(size=ms(10), advance=ms(5), grace=ms(5)))
    hopping.count(store="hopping").to_stream().to("hopping")
    tumbling = grouped.windowed_by(TimeWindows(size=ms(10), grace=ms(0))).emit_strategy(FINAL)
    tumbling.reduce(max, associative=True, store="tumbling").to_stream().to("tumbling")
    sessions = grouped.windowed_by(SessionWindows(inactivity_gap=ms(5), grace=ms(0)))
    sessions.emit_strategy(FINAL).count(store="sessions").to_stream().to("sessions")
    return builder.build()


def test_windows_by_the_watermark(run_topology: RunTopology) -> None:
    """Late records are left out window by window, closed windows told once, whoever is silent."""
    records = [
        at(11).send("in", "a", 3),
        at(14).send("in", "b", 5),
        at(12).send("in", "a", 4),
        at(26).send("in", "c", 1),
        at(13).send("in", "a", 9),
        at(17).send("in", "a", 8),
        at(60).send("in", "c", 2),
    ]
    out = run_topology(windows(), records, epochs=[3, 1, 2, 1], **WATERMARK)
    table = {(key.key, key.start): value for key, value in out["hopping"]}
    assert table == {
        ("a", 5): 2,
        ("a", 10): 2,
        ("a", 15): 1,
        ("b", 5): 1,
        ("b", 10): 1,
        ("c", 20): 1,
        ("c", 25): 1,
        ("c", 55): 1,
        ("c", 60): 1,
    }
    assert sorted(out["tumbling"]) == [
        (Windowed("a", 10, 20), 4),
        (Windowed("b", 10, 20), 5),
        (Windowed("c", 20, 30), 1),
    ]
    assert sorted(out["sessions"]) == [
        (Windowed("a", 11, 12), 2),
        (Windowed("b", 14, 14), 1),
        (Windowed("c", 26, 26), 1),
    ]


def test_a_merger_may_make_nothing_of_sessions(run_topology: RunTopology) -> None:
    """The record that joins them is added to None, not to what the initializer gives."""
    builder = StreamsBuilder()
    left, right = (builder.stream(name, key=str, value=str) for name in ("left", "right"))
    windows = SessionWindows(inactivity_gap=ms(5), grace=ms(0))

    def add(_key: str, value: str, total: str | None) -> str:
        return f"{total}+{value}"

    def merge(_key: str, x: str | None, y: str) -> Any:
        return None if y.endswith("b") else f"{x}|{y}"

    alone = left.group_by_key().windowed_by(windows)
    alone.aggregate(lambda: "0", add, merge, value=str, store="alone").to_stream().to("alone")
    both = left.group_by_key().cogroup(add).cogroup(right.group_by_key(), add)
    table = both.windowed_by(windows).aggregate(lambda: "0", merge, value=str, store="both")
    table.to_stream().to("both")
    records = [at(n).send("left", "k", value) for n, value in enumerate("abc")]
    out = run_topology(builder.build(), records, **STREAM_TIME)
    rows = [value for _, value in out["alone"] if value is not None]
    assert rows == ["0+a", "0|0+a+b", "None+c"]
    assert [value for _, value in out["both"] if value is not None] == rows


def test_what_is_transformed_of_a_versioned_table_is_versioned(run_topology: RunTopology) -> None:
    """As a filter and a mapping without a store are: what is late changes no group."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("rows", history_retention=ms(50))
    kept = Materialized[str, str](supplier=supplier)
    rows = builder.table("rows", key=str, value=str, materialized=kept)
    shown: KTable[str, Any] = rows.transform_values(lambda _k, v: v and v.upper(), value=str)
    shown.to_stream().to("shown")
    groups = shown.group_by(lambda key, value: (value, key), key=str, value=str)
    groups.count(store="groups").to_stream().to("groups")
    stream = builder.stream("in", key=str, value=str)
    stream.join(shown, lambda value, row: f"{value}{row}", value=str).to("joined")
    records = [
        at(1).send("rows", "k", "a"),
        at(9).send("rows", "k", "b"),
        at(5).send("rows", "k", "c"),
        at(3).send("in", "k", "at 3: "),
        at(7).send("in", "k", "at 7: "),
        at(9).send("in", "k", "at 9: "),
    ]
    out = run_topology(builder.build(), records, **STREAM_TIME)
    assert out["shown"] == [("k", "A"), ("k", "B"), ("k", "C")]
    assert out["groups"] == [("A", 1), ("A", 0), ("B", 1)]
    assert out["joined"] == [("k", "at 3: A"), ("k", "at 7: C"), ("k", "at 9: B")]
