"""Small stages, built by hand, for tests of one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.stage import StageRunner
from mustela.plan.batch import Batch, Origins, SourceChunk
from mustela.plan.plan import Exchange, Stage
from mustela.plan.step import Role, Step
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from mustela.topology.aggregate import AggregateNode
from mustela.topology.node import Node
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode

STR = StrSerde()
INT = IntSerde()
ANY = ValueSerde(sort_keys=True)
TOPICS = ("in",)

SOURCE = SourceNode(name="in", topics=TOPICS)
GROUPS = 4


def batch(rows: Sequence[tuple[Any, Any]], times: Sequence[int] | None = None) -> Batch:
    """Make a batch as a source gives it: one partition, offsets from 0."""
    timestamps = list(range(len(rows))) if times is None else list(times)
    chunk = SourceChunk(
        topics=TOPICS,
        topic_index=0,
        partition=0,
        offsets=list(range(len(rows))),
        timestamps=timestamps,
    )
    return Batch([row[0] for row in rows], [row[1] for row in rows], chunk)


def exchanged(rows: Sequence[tuple[Any, Any]], serde: Serde[Any], times: Any = None) -> Batch:
    """Make a batch as an exchange gives it: in order, with key bytes."""
    source = batch(rows, times)
    key_bytes: Any = serde.serialize_many(source.keys)
    origins = Origins(source.timestamps, None, source.order, TOPICS)
    return Batch(source.keys, source.values, origins, key_bytes=key_bytes)


class Lane:
    """A lane with stores in memory and one chain of steps, read by a sink that keeps objects."""

    def __init__(self, *nodes: Node, stores: Sequence[StoreSpec] = (), **options: Any) -> None:
        spec = EnvironmentSpec(
            application_id="app", stage="s", group=0, groups=1, stores=tuple(stores)
        )
        self.environment = MemoryEnvironment(spec)
        self.overlay = Overlay(self.environment.snapshot(Committed()))
        self.state = LaneState({0: self.overlay}, key_groups=1)
        self.runner = runner(*nodes, state=self.state, **{"key_groups": 1, **options})

    def run(self, rows: Batch) -> StageOutput:
        self.runner.run({"in": rows})
        self.runner.finish()
        return self.runner.take_output()


def runner(
    *nodes: Node,
    state: LaneState | None = None,
    role: Role = "whole",
    wants_old: bool = False,
    **options: Any,
) -> StageRunner:
    """Make a stage of a chain of steps behind input ``in``; its end leaves as exchange ``out``."""
    steps: list[Step] = []
    name = "in"
    for node in nodes:
        old = wants_old and not isinstance(node, SinkNode)
        mine: Role = role if isinstance(node, AggregateNode) else "whole"
        steps.append(Step(name=node.name, inputs=(name,), node=node, role=mine, wants_old=old))
        name = node.name
    ends = bool(nodes) and isinstance(nodes[-1], SinkNode)
    out = Exchange(name="out", step=name, key=ANY, target=2, keep_null_keys=True)
    stage = Stage(
        index=0 if state is None else 1,
        sources=(SOURCE,) if state is None else (),
        inputs=() if state is None else ("in",),
        steps=tuple(steps),
        exchanges=() if ends else (out,),
    )
    return StageRunner(stage, topics=TOPICS, options=KernelOptions(**options), state=state)


def rows_of(output: StageOutput) -> list[tuple[Any, Any]]:
    """Return what left by exchange ``out``."""
    joined = Batch.concatenate(output.exchanges.get("out", []))
    return list(zip(joined.keys, joined.values, strict=True))


def out_batch(output: StageOutput) -> Batch:
    """Return what left by exchange ``out`` as one batch."""
    return Batch.concatenate(output.exchanges.get("out", []))


def run(node: Node, rows: Sequence[tuple[Any, Any]], **options: Any) -> list[tuple[Any, Any]]:
    """Run one step over rows in the source stage."""
    stage = runner(node, **options)
    stage.run({"in": batch(rows)})
    stage.finish()
    return rows_of(stage.take_output())
