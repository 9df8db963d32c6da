"""The program of a batch: the application's own plan, without logs and without a broker."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mustela.api.handlers import app_handlers, wants_raws
from mustela.api.timestamps import WallclockTimestampExtractor
from mustela.config.settings import app_configs
from mustela.plan.epoch import Program
from mustela.plan.files import Files
from mustela.plan.keygroups import DEFAULT_KEY_GROUPS
from mustela.plan.plan import Plan
from mustela.runtime.batch import BatchRefusedError, BatchRequest
from mustela.topology.async_calls import AsyncNode
from mustela.topology.node import Node
from mustela.topology.request_reply import RequestReplyNode
from mustela.topology.scheduled import ScheduledSourceNode
from mustela.topology.sink import SinkNode
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.suppress import SuppressNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["batch_program", "check_steps", "flush_span_ms", "without_logs"]

_OUTSIDE: tuple[tuple[type[Node], str, str], ...] = (
    (AsyncNode, "calls the outside", "write the results of the calls to a topic in the "
     "application, and give that topic as an input to one without the calls"),
    (RequestReplyNode, "waits for replies from the outside", "give the replies as an input of an "
     "application that joins them"),
    (ScheduledSourceNode, "makes records by the wall clock", "write its records to a topic, and "
     "give that topic as an input"),
)  # fmt: skip


def check_steps(plan: Plan) -> None:
    """See whether every step can run over what there is.

    Raises:
        BatchRefusedError: If one calls the outside, goes by the wall clock, or reads what the
            application writes.
    """
    read = {*plan.topics, *(table.topic for table in plan.global_tables)}
    for node in plan.nodes:
        for kind, does, fix in _OUTSIDE:
            if isinstance(node, kind):
                raise _refused(node, does, "a batch gives the same result each time", fix)
        if isinstance(getattr(node, "timestamp_extractor", None), WallclockTimestampExtractor):
            why = "its records have the time at which they are read, which a batch does not repeat"
            fix = "leave out the extractor, and name the column of the times that you want"
            raise _refused(node, "takes its times from the wall clock", why, fix)
        if isinstance(node, SinkNode) and node.topic in read:
            why = "what it writes would have to come back as input"
            fix = "connect the steps directly: use repartition() in place of the topic"
            raise _refused(node, f"writes topic {node.topic!r}, which is read, too", why, fix)


def _refused(node: Node, does: str, why: str, fix: str) -> BatchRefusedError:
    return BatchRefusedError(
        f"step {node.name} {does}, which a batch cannot do",
        at=node.origin,
        why=why,
        fix=fix,
        fields={"step": node.name},
    )


def without_logs(plan: Plan) -> Plan:
    """Return a plan whose stores have no changelogs."""
    stages = (
        replace(stage, stores=tuple(replace(store, logged=False) for store in stage.stores))
        for stage in plan.stages
    )
    return replace(plan, stages=tuple(stages))


def flush_span_ms(plan: Plan) -> int:
    """Return how far event time has to go on until no window is open, in any chain of steps."""
    return sum(_span_ms(node) for node in plan.nodes)


def _span_ms(node: Node) -> int:
    match node:
        case WindowAggregateNode():
            return node.windows.lag_ms + 1
        case StreamJoinNode():
            return node.window.lag_ms + 1
        case SuppressNode():
            return node.span_ms + node.wait_ms + 1
        case StreamTableJoinNode():
            return (node.grace_ms or 0) + 1
        case _:
            return 0


def batch_program(request: BatchRequest, files: Files, lanes: int, state: Path) -> Program:
    """Return the program that workers run.

    Args:
        request: What is to run.
        files: Where records are, and rows go.
        lanes: Number of lanes.
        state: Directory for state.
    """
    settings, plan = request.settings, request.plan
    groups = settings.key_groups or DEFAULT_KEY_GROUPS
    sinks = {n.topic: 1 for n in plan.nodes if isinstance(n, SinkNode) and isinstance(n.topic, str)}
    kernel: Mapping[str, Any] = {
        "emit": settings.emit,
        "event_time": settings.event_time,
        "key_groups": groups,
        **app_handlers(settings),
        "letter_raws": wants_raws(node.on_error for node in plan.nodes),
        "topic_partitions": sinks,
        "late_letters": plan.late_letters,
        "application_id": settings.application_id,
        "app_configs": app_configs(settings),
    }
    return Program(
        identity=uuid.uuid4().hex,  # noqa: TID251 - has to differ from every other run's
        application_id=settings.application_id,
        cluster_id="files",
        plan=without_logs(plan),
        lanes=min(lanes, groups),
        key_groups=groups,
        guarantee="exactly_once",
        kernel=kernel,
        consumer={},
        producer={},
        state_dir=str(state),
        map_size=settings.state.map_size,
        files=files,
    )
