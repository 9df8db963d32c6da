"""The table from step kind to operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mustela.errors import InvariantError
from mustela.kernel import aggregate, combine, sink, source, stateless, table
from mustela.kernel.operator import Operator, OperatorContext
from mustela.plan.step import Role, Step
from mustela.topology.aggregate import AggregateNode
from mustela.topology.node import Node
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
from mustela.topology.table import TableFilterNode, TableMapValuesNode, TableToStreamNode

__all__ = ["OPERATORS", "make_operator"]

Factory = Callable[[Step, Any, OperatorContext], Operator[Any]]


def _lane_aggregate(step: Step, node: AggregateNode, context: OperatorContext) -> Operator[Any]:
    quick = node.kind == "count" and context.options.emit == "barrier"
    return (aggregate.CountOperator if quick else aggregate.FoldOperator)(step, node, context)


def _combiner(step: Step, node: AggregateNode, context: OperatorContext) -> Operator[Any]:
    quick = node.kind == "count"
    return (combine.CountCombiner if quick else combine.FoldCombiner)(step, node, context)


OPERATORS: Final[Mapping[tuple[type[Node], Role], Factory]] = MappingProxyType(
    {
        (SourceNode, "whole"): source.SourceOperator,
        (TableSourceNode, "whole"): table.TableSourceOperator,
        (MapValuesNode, "whole"): stateless.MapValuesOperator,
        (FlatMapValuesNode, "whole"): stateless.FlatMapValuesOperator,
        (MapNode, "whole"): stateless.MapOperator,
        (FlatMapNode, "whole"): stateless.FlatMapOperator,
        (SelectKeyNode, "whole"): stateless.SelectKeyOperator,
        (FilterNode, "whole"): stateless.FilterOperator,
        (PeekNode, "whole"): stateless.PeekOperator,
        (ForeachNode, "whole"): stateless.ForeachOperator,
        (MergeNode, "whole"): stateless.MergeOperator,
        (AggregateNode, "whole"): _lane_aggregate,
        (AggregateNode, "combine"): _combiner,
        (AggregateNode, "merge"): _lane_aggregate,
        (TableFilterNode, "whole"): table.TableFilterOperator,
        (TableMapValuesNode, "whole"): table.TableMapValuesOperator,
        (TableToStreamNode, "whole"): table.TableToStreamOperator,
        (SinkNode, "whole"): sink.SinkOperator,
    }
)
"""Each kind of step that a plan may hold, with the operator that means it."""


def make_operator(step: Step, context: OperatorContext) -> Operator[Any]:
    """Return a new operator for a step.

    Raises:
        InvariantError: If the planner made a step that the kernel has no operator for.
    """
    factory = OPERATORS.get((type(step.node), step.role))
    if factory is None:
        msg = f"no operator for step {step.name!r}: {type(step.node).__name__}, {step.role}"
        raise InvariantError(msg)
    return factory(step, step.node, context)
