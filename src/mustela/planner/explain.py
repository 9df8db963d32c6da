"""A plan as text: stages, what runs in them, and what travels between them."""

from __future__ import annotations

from collections.abc import Iterator

from mustela.plan.plan import Exchange, Plan, Stage
from mustela.plan.step import Step
from mustela.planner.expressions import explained
from mustela.state.interfaces import StoreSpec
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.routing import BranchNode, PrintNode
from mustela.topology.scheduled import ScheduledSourceNode
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.table_join import TableJoinNode
from mustela.topology.table_lookup import TableLookup
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["explain"]


def explain(plan: Plan) -> str:
    """Return a plan as text.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.planner.planner import plan
        >>> builder = StreamsBuilder()
        >>> builder.stream("lines", key=str, value=str).to("copies", name="copies")
        >>> print(explain(plan(builder.build())))
        Stage 0: reads topics
          source lines: topics lines, key str, value str
          sink copies <- lines: topic copies, key str, value str
    """
    lines = [_global_table(table) for table in plan.global_tables]
    lines += [line for stage in plan.stages for line in _stage(stage)]
    return "\n".join(lines)


def _global_table(table: GlobalTableNode) -> str:
    serdes = f"key {table.key.name}, value {table.value.name}"
    return f"Global table {table.name}: topic {table.topic}, {serdes}, store {table.store.name}"


def _stage(stage: Stage) -> Iterator[str]:
    if stage.index == 0:
        yield "Stage 0: reads topics"
    else:
        yield f"Stage {stage.index}: a task for each lane"
    for source in stage.sources:
        yield f"  {_source(source)}"
    for name in stage.inputs:
        yield f"  input {name}"
    for step in stage.steps:
        yield f"  {_step(step)}"
    for exchange in stage.exchanges:
        yield f"  {_exchange(exchange)}"
    for store in stage.stores:
        yield f"  {_store(store)}"
    if stage.identity:
        yield f"  state {stage.identity}"


def _source(source: SourceNode | TableSourceNode) -> str:
    if isinstance(source, TableSourceNode):
        what = f"table source {source.name}: topic {source.topic}"
    else:
        topics = [*source.topics]
        if source.pattern is not None:
            topics.insert(0, f"that match {source.pattern.pattern}")
        what = f"source {source.name}: topics {', '.join(topics)}"
    facts = [what, _serdes(source)]
    if source.auto_offset_reset:
        facts.append(f"from {source.auto_offset_reset}")
    if source.timestamp_extractor is not None:
        extractor: object = source.timestamp_extractor
        name = getattr(extractor, "__qualname__", type(extractor).__qualname__)
        facts.append(f"times by {name.rsplit('<locals>.', 1)[-1]}")
    return ", ".join(facts)


def _step(step: Step) -> str:
    facts = [*_meaning(step.node)]
    if step.role != "whole":
        facts.append(step.role)
    if isinstance(step.node, SinkNode):
        facts.append(_serdes(step.node))
    facts.extend(f"looks up {told}" for told in _lookups(step.node))
    facts.extend(f"reads {store}" for store in step.node.reads_any)
    if step.role != "combine" and step.node.stores:
        facts.append(f"stores {', '.join(store.name for store in step.node.stores)}")
    facts.extend(explained(step.node))
    if step.wants_old:
        facts.append("old values")
    if step.each_change:
        facts.append("each change")
    told = f": {', '.join(facts)}" if facts else ""
    read = f" <- {', '.join(step.inputs)}" if step.inputs else ""
    return f"{_kind(step)} {step.name}{read}{told}"


def _meaning(node: Node) -> Iterator[str]:
    """Say what a step is to do, as far as its kind does not say it."""
    # of a fold or a join; of a step that says it itself
    said: Iterator[object] = (getattr(node, attribute, None) for attribute in ("kind", "told"))
    yield from (one for one in said if isinstance(one, str))
    match node:
        case SinkNode(topic=str(topic)):
            yield f"topic {topic}"
        case SinkNode():
            yield "topic chosen by a function"
        case WindowAggregateNode(windows=windows, emit=emit):
            yield windows.told
            if emit == "close":
                yield "sent when closed"
        case BranchNode(index=index):
            yield f"branch {index + 1}"
        case ScheduledSourceNode(schedule=schedule):
            yield schedule.told
        case PrintNode(path=path):
            yield "to standard output" if path is None else f"to {path}"
        case _:
            pass
    if getattr(node, "partitioner", None) is not None:
        yield "partitions chosen by a function"


def _lookups(node: Node) -> Iterator[str]:
    """Say where a join finds rows, if it does not keep them itself."""
    match node:
        case (
            StreamTableJoinNode(table=TableLookup() as table)
            | ForeignKeyMatchNode(table=TableLookup() as table)
        ):
            tables: tuple[TableLookup, ...] = (table,)
        case TableJoinNode(sides=(left, right)):
            tables = (left, right)
        case _:
            tables = ()
    for table in tables:
        if not table.own:
            yield " through ".join([table.store.name, *(view.name for view in table.views)])


def _kind(step: Step) -> str:
    """Return the node's class as words: ``FlatMapValuesNode`` becomes ``flat map values``."""
    name = type(step.node).__name__.removesuffix("Node").removesuffix("Source")
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def _exchange(exchange: Exchange) -> str:
    facts = [f"by {exchange.key.name}"]
    if not exchange.ordered:
        facts.append("in any order")
    if exchange.keep_null_keys:
        facts.append("null keys too")
    if exchange.table:
        facts.append("changes")
    return (
        f"sends {exchange.step} to stage {exchange.target} as {exchange.name}: {', '.join(facts)}"
    )


def _store(store: StoreSpec) -> str:
    facts = [
        store.kind.replace("_", " "),
        f"key {store.key_serde.name if store.key_serde else 'bytes'}",
        f"value {store.value_serde.name if store.value_serde else 'bytes'}",
    ]
    if store.with_headers:
        facts.append("with headers")
    if store.ttl_ms is not None:
        facts.append(f"ttl {store.ttl_ms} ms by {store.ttl_by.replace('_', ' ')}")
    if not store.logged:
        facts.append("not logged")
    return f"store {store.name}: {', '.join(facts)}"


def _serdes(node: SourceNode | TableSourceNode | SinkNode) -> str:
    key = node.key.name if node.key else "bytes"
    value = node.value.name if node.value else "bytes"
    return f"key {key}, value {value}"
