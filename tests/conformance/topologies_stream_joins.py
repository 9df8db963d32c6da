"""The topologies of the cases of stream-stream joins, each as its prose says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mustela import JoinWindows, StreamsBuilder
from mustela.topology.graph import TopologyGraph

__all__ = ["TOPOLOGIES"]


def windows(before: int, after: int, grace: int = 0) -> JoinWindows:
    """Make join windows of milliseconds."""
    spans = [timedelta(milliseconds=span) for span in (before, after, grace)]
    return JoinWindows(before=spans[0], after=spans[1], grace=spans[2])


WIDE = windows(10_000, 10_000, 86_400_000)


def shown(value: object) -> str:
    return "null" if value is None else str(value)


def dashed(left: object, right: object) -> str:
    return f"{shown(left)}-{shown(right)}"


def summed(left: object, right: object) -> str:
    return f"{shown(left)}+{shown(right)}"


def join(
    kind: str, joined_by: JoinWindows, *, right: type[Any] = str
) -> Callable[[], TopologyGraph]:
    """Return a topology that joins two topics, in the words of the join's own unit tests."""

    def build() -> TopologyGraph:
        builder = StreamsBuilder()
        one = builder.stream("topic1", key=int, value=str)
        two = builder.stream("topic2", key=int, value=right)
        verb = {"inner": one.join, "left": one.left_join, "outer": one.outer_join}[kind]
        verb(two, summed, windows=joined_by, value=str, store="joined").to("out")
        return builder.build()

    return build


def wide_join(kind: str) -> Callable[[], TopologyGraph]:
    """Return a topology that joins two topics, in the words of the integration tests."""

    def build() -> TopologyGraph:
        builder = StreamsBuilder()
        one = builder.stream("inputTopicLeft", key=int, value=str)
        two = builder.stream("inputTopicRight", key=int, value=str)
        verb = {"inner": one.join, "left": one.left_join}[kind]
        verb(two, dashed, windows=WIDE, value=str, store="joined").to("outputTopic")
        return builder.build()

    return build


def ssj_self_join() -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("inputTopicLeft", key=int, value=str)
    stream.join(stream, dashed, windows=WIDE, value=str, store="joined").to("outputTopic")
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], TopologyGraph]] = {
    "ssj_inner": wide_join("inner"),
    "ssj_inner_asymmetric_after": join("inner", windows(0, 100)),
    "ssj_inner_asymmetric_before": join("inner", windows(100, 0)),
    "ssj_left_expired_by_left": join("left", windows(100, 100)),
    "ssj_left_expired_by_right": join("left", windows(100, 100)),
    "ssj_left_grace": join("left", windows(100, 100, 10)),
    "ssj_left_null_key": wide_join("left"),
    "ssj_left_right_never_emitted": join("left", windows(100, 100)),
    "ssj_left_windowing_full": join("left", windows(100, 100)),
    "ssj_left_zero_after": join("left", windows(100, 0)),
    "ssj_outer_after_zero": join("outer", windows(100, 0), right=int),
    "ssj_outer_asymmetric": join("outer", windows(5, 20), right=int),
    "ssj_outer_duplicates": join("outer", windows(100, 100, 10), right=int),
    "ssj_outer_right_expired_by_left": join("outer", windows(100, 100), right=int),
    "ssj_self_join": ssj_self_join,
}
