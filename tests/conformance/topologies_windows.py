"""The topologies of the windowed aggregations' cases, each as its prose says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mustela import KTable, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from mustela.streams import SessionWindowedKStream, TimeWindowedKStream
from mustela.topology.graph import TopologyGraph
from mustela.windows import EmitStrategy
from tests.epochs import ms

__all__ = ["TOPOLOGIES"]

FINAL = EmitStrategy.on_window_close()
UPDATE = EmitStrategy.on_window_update()


def hopping(grace: int) -> TimeWindows:
    return TimeWindows(size=ms(10), advance=ms(5), grace=ms(grace))


def sliding(difference: int, grace: int) -> SlidingWindows:
    return SlidingWindows(time_difference=ms(difference), grace=ms(grace))


def joined(windows: TimeWindowedKStream[str, str], start: str = "0") -> KTable[Any, str]:
    """Fold values to a text that shows them all."""
    return windows.aggregate(lambda: start, lambda _k, v, agg: f"{agg}+{v}", value=str)


def aggregated(
    topic: str,
    windows: TimeWindows | SlidingWindows,
    strategy: EmitStrategy = UPDATE,
) -> TopologyGraph:
    builder = StreamsBuilder()
    grouped = builder.stream(topic, key=str, value=str).group_by_key()
    table = joined(grouped.windowed_by(windows).emit_strategy(strategy))
    table.to_stream().to("out")
    return builder.build()


def counted(
    topic: str,
    windows: TimeWindows | SlidingWindows | SessionWindows,
    strategy: EmitStrategy = UPDATE,
) -> TopologyGraph:
    builder = StreamsBuilder()
    grouped = builder.stream(topic, key=str, value=str).group_by_key()
    windowed: Any = grouped.windowed_by(windows)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    assert isinstance(windowed, TimeWindowedKStream | SessionWindowedKStream)
    windowed.emit_strategy(strategy).count().to_stream().to("out")
    return builder.build()


def hopping_agg_update() -> TopologyGraph:
    return aggregated("topic1", hopping(100))


def hopping_late_update() -> TopologyGraph:
    builder = StreamsBuilder()
    grouped = builder.stream("topic", key=str, value=str).group_by_key()
    table = joined(grouped.windowed_by(hopping(90)), start="")
    shown = table.to_stream(lambda key, _v: f"[{key.key}@{key.start}/{key.end}]")
    shown.to("output", key=str, value=str)
    return builder.build()


def hopping_nograce_final() -> TopologyGraph:
    return aggregated("in", hopping(0), FINAL)


def hopping_grace_final() -> TopologyGraph:
    return aggregated("in", hopping(5), FINAL)


def tumbling_count_final() -> TopologyGraph:
    return counted("input", TimeWindows(size=ms(500), grace=ms(0)), FINAL)


def tumbling_count_grace() -> TopologyGraph:
    return counted("topic", TimeWindows(size=ms(500), grace=ms(100)))


def session_count_update() -> TopologyGraph:
    return counted("input", SessionWindows(inactivity_gap=ms(500), grace=ms(0)))


def session_count_final() -> TopologyGraph:
    return counted("input", SessionWindows(inactivity_gap=ms(500), grace=ms(0)), FINAL)


def sliding_count() -> TopologyGraph:
    return counted("topic", sliding(500, 2000))


def sliding_agg_in_order() -> TopologyGraph:
    return aggregated("topic", sliding(10, 5))


def sliding_agg_out_of_order() -> TopologyGraph:
    return aggregated("topic1", sliding(10, 50))


def sliding_agg_out_of_order_final() -> TopologyGraph:
    return aggregated("topic1", sliding(10, 10), FINAL)


def sliding_early_records() -> TopologyGraph:
    return aggregated("topic", sliding(50, 0))


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    build.__name__: build
    for build in (
        hopping_agg_update,
        hopping_late_update,
        hopping_nograce_final,
        hopping_grace_final,
        tumbling_count_final,
        tumbling_count_grace,
        session_count_update,
        session_count_final,
        sliding_count,
        sliding_agg_in_order,
        sliding_agg_out_of_order,
        sliding_agg_out_of_order_final,
        sliding_early_records,
    )
}
