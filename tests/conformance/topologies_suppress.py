"""The topologies of the cases of suppressed tables, each as its prose says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mustela import KTable, SlidingWindows, StreamsBuilder, Suppressed, TimeWindows, Windowed
from mustela.topology.graph import TopologyGraph
from mustela.windows import BufferConfig
from tests.epochs import ms

__all__ = ["TOPOLOGIES"]

UNBOUNDED = BufferConfig.unbounded()


# A case begins at time 0, or, where a broker would take that for "now", at a multiple of this.
ORIGINS = 10**9


def printed(key: Windowed[str], _count: int) -> str:
    origin = key.start - key.start % ORIGINS
    return f"[{key.key}@{key.start - origin}/{key.end - origin}]"


def final(windows: TimeWindows | SlidingWindows) -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("input", key=str, value=str)
    grouped = stream.group_by(lambda key, _value: key, key=str, value=str)
    counts: KTable[Any, int] = grouped.windowed_by(windows).count(store="counts")
    counts.to_stream(printed, name="raw").to("output-raw", key=str, value=int)
    last = counts.suppress(Suppressed.until_window_closes(UNBOUNDED), name="last")
    last.to_stream(printed, name="rare").to("output-suppressed", key=str, value=int)
    return builder.build()


def limited(suppressed: Suppressed) -> TopologyGraph:
    builder = StreamsBuilder()
    table = builder.table("input", key=str, value=str)
    counts = table.group_by(lambda k, v: (v, k), key=str, value=str).count(store="counts")
    counts.to_stream(name="raw").to("output-raw", key=str, value=int)
    rare = counts.suppress(suppressed, name="rare")
    rare.to_stream(name="rare-changes").to("output-suppressed", key=str, value=int)
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    "suppress_final_large_jump": lambda: final(TimeWindows(size=ms(2), grace=ms(2))),
    "suppress_final_sliding": lambda: final(SlidingWindows(time_difference=ms(5), grace=ms(15))),
    "suppress_final_tumbling": lambda: final(TimeWindows(size=ms(2), grace=ms(1))),
    "suppress_record_limit": lambda: limited(
        Suppressed.until_time_limit(timedelta.max, BufferConfig.max_records(1))
    ),
    "suppress_time_limit": lambda: limited(Suppressed.until_time_limit(ms(2), UNBOUNDED)),
}
