"""What holds for the plan of any topology."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from mustela.plan.plan import Exchange, Plan, Stage
from mustela.plan.step import Step
from mustela.planner.explain import explain
from mustela.planner.options import PlanOptions
from mustela.planner.planner import RULES, plan
from mustela.topology.aggregate import AggregateNode
from mustela.topology.describe import describe
from mustela.topology.graph import TopologyGraph
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.stateless import FlatMapNode, MapNode, SelectKeyNode
from mustela.topology.table import TableToStreamNode
from tests.unit.planner.topologies import Choice, choices, write


def options() -> st.SearchStrategy[PlanOptions]:
    return st.builds(
        PlanOptions,
        emit=st.sampled_from(["barrier", "every"]),
        rules_off=st.just(frozenset[str]()) | st.frozensets(st.sampled_from(sorted(RULES))),
    )


def incoming(made: Plan) -> dict[str, Exchange]:
    exchanges = [exchange for stage in made.stages for exchange in stage.exchanges]
    assert len({exchange.name for exchange in exchanges}) == len(exchanges)
    return {exchange.name: exchange for exchange in exchanges}


@given(choices(), options())
def test_every_node_is_done_exactly_once(program: list[Choice], chosen: PlanOptions) -> None:
    """Nothing is lost, nothing runs twice; a combined step is two halves."""
    topology = write(program)
    made = plan(topology, options=chosen)
    done = Counter((step.name, step.role) for stage in made.stages for step in stage.steps)
    assert all(times == 1 for times in done.values())
    for node in topology:
        roles = {role for name, role in done if name == node.name}
        if isinstance(node, SourceNode):
            assert roles == set()
        else:
            assert roles in ({"whole"}, {"combine", "merge"})
    read = [source.name for stage in made.stages for source in stage.sources]
    assert sorted(read) == sorted(
        node.name for node in topology if isinstance(node, SourceNode | TableSourceNode)
    )


@given(choices(), options())
def test_every_input_is_there(program: list[Choice], chosen: PlanOptions) -> None:
    """A step reads what its stage has made before it; what is sent arrives, later."""
    topology = write(program)
    made = plan(topology, options=chosen)
    arriving = incoming(made)
    for index, stage in enumerate(made.stages):
        assert stage.index == index
        assert bool(stage.sources) == (index == 0)
        there = {source.name for source in stage.sources} | set(stage.inputs)
        assert set(stage.inputs) == {e.name for e in arriving.values() if e.target == index}
        used: set[str] = set()
        for step in stage.steps:
            assert step.inputs
            assert set(step.inputs) <= there
            if step.role != "merge" and not isinstance(step.node, TableSourceNode):
                assert len(step.inputs) == len(step.node.parents)
            used.update(step.inputs)
            there.add(step.name)
        assert set(stage.inputs) <= used
        for exchange in stage.exchanges:
            assert exchange.step in there
            assert index < exchange.target < len(made.stages)
    assert describe(topology)
    assert explain(made)


@given(choices(), options())
def test_stateful_steps_see_each_key_in_its_lane(
    program: list[Choice], chosen: PlanOptions
) -> None:
    """Going back from a fold, one meets the exchange by its key before any change of the key."""
    made = plan(write(program), options=chosen)
    arriving = incoming(made)
    for stage in made.stages:
        for step in stage.steps:
            if isinstance(step.node, AggregateNode) and step.role != "combine":
                assert step.node.key is not None
                check_key(stage, step, arriving, step.node.key)


def check_key(stage: Stage, step: Step, arriving: dict[str, Exchange], key: object) -> None:
    steps = {other.name: other for other in stage.steps}
    for name in step.inputs:
        if name in arriving:
            assert arriving[name].key == key
        else:
            sender = steps[name]
            assert not isinstance(sender.node, MapNode | FlatMapNode | SelectKeyNode)
            assert not (isinstance(sender.node, TableToStreamNode) and sender.node.mapper)
            check_key(stage, sender, arriving, key)


@given(choices(), options())
def test_a_store_lives_in_one_stage(program: list[Choice], chosen: PlanOptions) -> None:
    """Stage 0 has none; every other store has one home, whose hash follows from its stores."""
    topology = write(program)
    made = plan(topology, options=chosen)
    homes = [store.name for stage in made.stages for store in stage.stores]
    assert sorted(homes) == sorted(store.name for node in topology for store in node.stores)
    assert made.stages[0].stores == ()
    for stage in made.stages:
        assert bool(stage.identity) == bool(stage.stores)


@given(choices(), options())
def test_partial_results_travel_only_where_they_may(
    program: list[Choice], chosen: PlanOptions
) -> None:
    """Order is given up for partial results alone, and only with one change per epoch."""
    made = plan(write(program), options=chosen)
    combined = {s.name for stage in made.stages for s in stage.steps if s.role == "combine"}
    if chosen.emit == "every" or "combine_before_shuffle" in chosen.rules_off:
        assert not combined
    for stage in made.stages:
        roles = {step.name: step.role for step in stage.steps}
        for exchange in stage.exchanges:
            assert exchange.ordered == (roles.get(exchange.step) != "combine")


@given(choices(), options())
def test_rules_never_make_a_plan_longer(program: list[Choice], chosen: PlanOptions) -> None:
    """With all rules there are at most as many stages as with some of them."""
    topology = write(program)
    every = PlanOptions(emit=chosen.emit)
    assert len(plan(topology, options=every).stages) <= len(plan(topology, options=chosen).stages)


@given(choices())
def test_a_plan_is_a_function_of_the_topology(program: list[Choice]) -> None:
    """The same program gives the same plan, names, hashes and all."""
    first, second = plan(write(program)), plan(write(program))
    assert explain(first) == explain(second)
    assert first.fingerprint == second.fingerprint
    assert first.topics == tuple(sorted(first.topics))


@given(choices())
def test_names_are_unique(program: list[Choice]) -> None:
    """No two nodes share a name."""
    topology: TopologyGraph = write(program)
    names = [node.name for node in topology]
    assert len(set(names)) == len(names)
