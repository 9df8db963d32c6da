"""The table from step kind to operator."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import mustela.topology
from mustela.errors import InvariantError
from mustela.kernel.core.operator import Operator
from mustela.kernel.operators import OPERATORS, make_operator
from mustela.plan.step import Step
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from tests.unit.kernel.stages import runner


def node_types() -> set[type[Node]]:
    modules = [
        importlib.import_module(f"mustela.topology.{module.name}")
        for module in pkgutil.iter_modules(mustela.topology.__path__)
    ]
    return {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Node) and kind is not Node
    }


def test_every_kind_of_node_has_an_operator() -> None:
    """A node that the DSL can write is one that the kernel can run, or that engines follow."""
    assert {kind for kind, _ in OPERATORS} == node_types() - {GlobalTableNode}


def test_an_unknown_step_is_our_own_mistake() -> None:
    """A step without an operator is named."""
    step = Step(name="odd", inputs=(), node=Node(name="odd"))
    with pytest.raises(InvariantError, match="no operator for step 'odd': Node, whole"):
        make_operator(step, None)  # type: ignore[arg-type]


def test_a_step_that_reads_nothing_known_is_our_own_mistake() -> None:
    """Wiring a stage checks the names."""
    stage = runner().stage
    assert stage.exchanges[0].step == "in"


def test_what_waits_for_a_time_says_so_where_the_driver_can_see_it() -> None:
    """The driver knows nodes, not operators: behind a restart it asks those that act on time."""
    waiting: set[type[Node]] = set()
    for (kind, _), factory in OPERATORS.items():
        methods = ("due_event_times", "due_processing_times")
        if isinstance(factory, type) and any(name in _all_of(factory) for name in methods):
            waiting.add(kind)
    assert waiting
    assert all("acts_on_time" in _all_of(kind) for kind in waiting)


def _all_of(kind: type[object]) -> set[str]:
    """Return what a class and its bases define, but for the two roots."""
    return {name for base in kind.__mro__ if base not in (Node, Operator) for name in vars(base)}
