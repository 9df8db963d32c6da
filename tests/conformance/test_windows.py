"""Windows by the watermark, in every way: what no case of Kafka Streams shows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mustela import EmitStrategy, SessionWindows, StreamsBuilder, TimeWindows, Windowed
from mustela.topology.graph import Topology
from tests.conformance.conftest import RunTopology
from tests.conformance.script import at

WATERMARK: dict[str, Any] = {"settings": {"event_time": "watermark"}}
FINAL = EmitStrategy.on_window_close()


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def windows() -> Topology:
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
