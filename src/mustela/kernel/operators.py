"""The table from step kind to operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mustela.api.window_specs import SessionWindowSpec, SlidingWindowSpec
from mustela.errors import InvariantError
from mustela.kernel.aggregates import aggregate, cogroup, combine, table_aggregate
from mustela.kernel.calls import async_calls, request_reply
from mustela.kernel.core.expiry import ExpiringOperator, expiring_store
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import Operator, OperatorContext
from mustela.kernel.joins import (
    foreign_key,
    stream_join,
    stream_table_grace,
    stream_table_join,
    table_join,
)
from mustela.kernel.processors import transact
from mustela.kernel.processors.processor import ProcessorOperator
from mustela.kernel.processors.processor_output import ChildOperator, OutputOperator
from mustela.kernel.processors.timed_values import TimedValuesOperator
from mustela.kernel.processors.update import UpdateOperator
from mustela.kernel.records import routing, sink, source, stateless
from mustela.kernel.records.scheduled import ScheduledSourceOperator
from mustela.kernel.tables import global_table, settle, table, table_group
from mustela.kernel.windows import distinct, suppress
from mustela.kernel.windows.session_aggregate import SessionAggregateOperator
from mustela.kernel.windows.sliding_aggregate import SlidingAggregateOperator
from mustela.kernel.windows.window_aggregate import WindowCountOperator, WindowFoldOperator
from mustela.kernel.windows.window_combine import WindowCountCombiner, WindowFoldCombiner
from mustela.plan.step import Role, Step
from mustela.topology.aggregate import AggregateNode
from mustela.topology.async_calls import AsyncNode
from mustela.topology.cogroup import CogroupNode
from mustela.topology.distinct import DistinctKeysNode, DistinctNode
from mustela.topology.foreign_key import (
    ForeignKeyJoinNode,
    ForeignKeyMatchNode,
    ForeignKeySubscribeNode,
)
from mustela.topology.global_table import GlobalJoinNode
from mustela.topology.node import Node
from mustela.topology.processor import ChildNode, OutputNode, ProcessorNode
from mustela.topology.request_reply import CorrelateNode, ReplyKeyNode, RequestReplyNode
from mustela.topology.routing import BranchNode, PrintNode, RepartitionNode, SplitNode
from mustela.topology.scheduled import ScheduledSourceNode
from mustela.topology.settle import SettleNode
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.stateless import (
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    ForeachNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
)
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.suppress import SuppressNode
from mustela.topology.table import (
    StreamToTableNode,
    TableFilterNode,
    TableMapValuesNode,
    TableToStreamNode,
)
from mustela.topology.table_aggregate import TableAggregateNode
from mustela.topology.table_group import TableGroupNode
from mustela.topology.table_join import TableJoinNode
from mustela.topology.timed_values import TimedValuesNode
from mustela.topology.transact import (
    TransactApplyNode,
    TransactKeysNode,
    TransactNode,
    TransactOrderNode,
)
from mustela.topology.update import UpdateNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["OPERATORS", "make_operator"]

Factory = Callable[[Step, Any, OperatorContext], Operator[Any]]


def _lane_aggregate(step: Step, node: AggregateNode, context: OperatorContext) -> Operator[Any]:
    quick = node.kind == "count" and context.options.emit == "barrier" and not step.each_change
    return (aggregate.CountOperator if quick else aggregate.FoldOperator)(step, node, context)


def _window_aggregate(
    step: Step, node: WindowAggregateNode, context: OperatorContext
) -> Operator[Any]:
    match node.windows:
        case SlidingWindowSpec():
            return SlidingAggregateOperator(step, node, context)
        case SessionWindowSpec():
            return SessionAggregateOperator(step, node, context)
        case _:
            each = context.options.emit == "every" or step.each_change
            quick = node.kind == "count" and not each
            return (WindowCountOperator if quick else WindowFoldOperator)(step, node, context)


def _combiner(step: Step, node: AggregateNode, context: OperatorContext) -> Operator[Any]:
    quick = node.kind == "count"
    return (combine.CountCombiner if quick else combine.FoldCombiner)(step, node, context)


def _table_aggregate(
    step: Step, node: TableAggregateNode, context: OperatorContext
) -> Operator[Any]:
    each = context.options.emit == "every" or step.each_change
    if node.kind == "count" and not each:
        return table_aggregate.TableCountOperator(step, node, context)
    return table_aggregate.TableFoldOperator(step, node, context)


def _stream_table_join(
    step: Step, node: StreamTableJoinNode, context: OperatorContext
) -> Operator[Any]:
    if node.grace_ms is None:
        return stream_table_join.StreamTableJoinOperator(step, node, context)
    return stream_table_grace.StreamTableGraceJoinOperator(step, node, context)


def _window_combiner(
    step: Step, node: WindowAggregateNode, context: OperatorContext
) -> Operator[Any]:
    quick = node.kind == "count"
    return (WindowCountCombiner if quick else WindowFoldCombiner)(step, node, context)


OPERATORS: Final[Mapping[tuple[type[Node], Role], Factory]] = MappingProxyType(
    {
        (SourceNode, "whole"): source.SourceOperator,
        (TableSourceNode, "whole"): table.TableSourceOperator,
        (StreamToTableNode, "whole"): table.TableSourceOperator,
        (SplitNode, "whole"): routing.SplitOperator,
        (BranchNode, "whole"): routing.BranchOperator,
        (RepartitionNode, "whole"): routing.RepartitionOperator,
        (PrintNode, "whole"): routing.PrintOperator,
        (TimedValuesNode, "whole"): TimedValuesOperator,
        (MapValuesNode, "whole"): stateless.MapValuesOperator,
        (FlatMapValuesNode, "whole"): stateless.FlatMapValuesOperator,
        (MapNode, "whole"): stateless.MapOperator,
        (FlatMapNode, "whole"): stateless.FlatMapOperator,
        (SelectKeyNode, "whole"): stateless.SelectKeyOperator,
        (FilterNode, "whole"): stateless.FilterOperator,
        (PeekNode, "whole"): stateless.PeekOperator,
        (ForeachNode, "whole"): stateless.ForeachOperator,
        (MergeNode, "whole"): stateless.MergeOperator,
        (AsyncNode, "whole"): async_calls.AsyncOperator,
        (CorrelateNode, "whole"): request_reply.CorrelateOperator,
        (ReplyKeyNode, "whole"): request_reply.ReplyKeyOperator,
        (RequestReplyNode, "whole"): request_reply.RequestReplyOperator,
        (AggregateNode, "whole"): _lane_aggregate,
        (AggregateNode, "combine"): _combiner,
        (AggregateNode, "merge"): _lane_aggregate,
        (WindowAggregateNode, "whole"): _window_aggregate,
        (WindowAggregateNode, "combine"): _window_combiner,
        (WindowAggregateNode, "merge"): _window_aggregate,
        (TableFilterNode, "whole"): table.TableFilterOperator,
        (TableMapValuesNode, "whole"): table.TableMapValuesOperator,
        (TableToStreamNode, "whole"): table.TableToStreamOperator,
        (CogroupNode, "whole"): cogroup.CogroupOperator,
        (TableGroupNode, "whole"): table_group.TableGroupOperator,
        (TableAggregateNode, "whole"): _table_aggregate,
        (ForeignKeySubscribeNode, "whole"): foreign_key.ForeignKeySubscribeOperator,
        (ForeignKeyMatchNode, "whole"): foreign_key.ForeignKeyMatchOperator,
        (ForeignKeyJoinNode, "whole"): foreign_key.ForeignKeyJoinOperator,
        (GlobalJoinNode, "whole"): global_table.GlobalJoinOperator,
        (ScheduledSourceNode, "whole"): ScheduledSourceOperator,
        (SettleNode, "whole"): settle.SettleOperator,
        (StreamJoinNode, "whole"): stream_join.StreamJoinOperator,
        (StreamTableJoinNode, "whole"): _stream_table_join,
        (TableJoinNode, "whole"): table_join.TableJoinOperator,
        (DistinctKeysNode, "whole"): distinct.DistinctKeysOperator,
        (DistinctNode, "whole"): distinct.DistinctOperator,
        (SuppressNode, "whole"): suppress.SuppressOperator,
        (TransactKeysNode, "whole"): transact.TransactKeysOperator,
        (TransactOrderNode, "whole"): transact.TransactOrderOperator,
        (TransactNode, "whole"): transact.TransactOperator,
        (TransactApplyNode, "whole"): transact.TransactApplyOperator,
        (ProcessorNode, "whole"): ProcessorOperator,
        (UpdateNode, "whole"): UpdateOperator,
        (ChildNode, "whole"): ChildOperator,
        (OutputNode, "whole"): OutputOperator,
        (SinkNode, "whole"): sink.SinkOperator,
    }
)
"""Each kind of step that a plan may hold, with its operator."""


def make_operator(step: Step, context: OperatorContext) -> Operator[Any]:
    """Return a new operator for a step.

    Raises:
        InvariantError: If the planner made a step that the kernel has no operator for.
    """
    factory = OPERATORS.get((type(step.node), step.role))
    if factory is None:
        msg = f"no operator for step {step.name!r}: {type(step.node).__name__}, {step.role}"
        raise InvariantError(msg)
    operator = factory(step, step.node, _as_its_store_says(step, context))
    spec = expiring_store(step.node.stores)
    if spec is None or step.role == "combine" or isinstance(operator, ProcessorOperator):
        return operator
    assert isinstance(operator, KeyedOperator), step.name
    return ExpiringOperator(operator, spec)


def _as_its_store_says(step: Step, context: OperatorContext) -> OperatorContext:
    """Return the context of a step whose store is not cached: each of its changes is forwarded."""
    options = context.options
    if options.emit == "every" or all(spec.cached is not False for spec in step.node.stores):
        return context
    return replace(context, options=replace(options, emit="every"))
