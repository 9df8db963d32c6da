"""A stage as a whole: branches, exits, counters, the collector."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError, Origin, show_key
from mustela.kernel.core.failures import ProcessingError, failing_line
from mustela.kernel.core.isolate import copy_value, is_immutable_column
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.stage import StageRunner
from mustela.plan.keygroups import key_group
from mustela.plan.plan import Exchange, Stage
from mustela.plan.step import Step
from mustela.serdes.json import JsonSerde
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from mustela.topology.aggregate import AggregateNode
from mustela.topology.node import Node
from mustela.topology.sink import SinkNode
from mustela.topology.stateless import FilterNode, MapValuesNode, PeekNode
from tests.unit.kernel.stages import ANY, SOURCE, STR, Lane, batch, exchanged, rows_of, runner


def branches(*nodes: tuple[Node, str], exchanges: tuple[Exchange, ...] = ()) -> StageRunner:
    steps = tuple(Step(name=n.name, inputs=(parent,), node=n) for n, parent in nodes)
    stage = Stage(index=0, sources=(SOURCE,), steps=steps, exchanges=exchanges)
    return StageRunner(stage, topics=("in",), options=KernelOptions())


def spoil(name: str) -> MapValuesNode:
    return MapValuesNode(name=name, mapper=lambda v: v.append(name) or v)


def sink(name: str) -> SinkNode:
    return SinkNode(name=name, topic=name, key=STR, value=JsonSerde())


ORDERS = [["filter", "left", "right"], ["left", "filter", "right"], ["left", "right", "filter"]]


@pytest.mark.parametrize("order", ORDERS)
def test_branches_do_not_see_each_others_changes(order: list[str]) -> None:
    """A function that changes its argument changes its own branch alone, in any order of steps."""
    firsts: dict[str, Node] = {
        "left": spoil("left"),
        "right": spoil("right"),
        "filter": FilterNode(name="filter", predicate=lambda _k, _v: True),
    }
    nodes = [(firsts[name], "in") for name in order]
    nodes += [(spoil("deep"), "filter")]
    nodes += [(sink(f"{name}-out"), name) for name in ("in", "left", "right", "deep")]
    out = Exchange(name="out", step="in", key=ANY, target=1)
    stage = branches(*nodes, exchanges=(out,))
    stage.run({"in": batch([("a", [1])])})
    output = stage.take_output()
    assert {rows.step: rows.values for rows in output.rows} == {
        "in-out": [b"[1]"],
        "left-out": [b'[1,"left"]'],
        "right-out": [b'[1,"right"]'],
        "deep-out": [b'[1,"deep"]'],
    }
    assert rows_of(output) == [("a", [1])]


def test_rows_that_leave_twice_share_nothing_changeable() -> None:
    """What one stage does to them is nothing to the other, also where nothing is pickled."""
    outs = tuple(Exchange(name=name, step="in", key=STR, target=1) for name in ("one", "two"))
    stage = branches(exchanges=outs)
    stage.run({"in": batch([("a", [1])])})
    sent = stage.take_output().exchanges
    assert sent["one"][0].values == sent["two"][0].values == [[1]]
    assert sent["one"][0].values[0] is not sent["two"][0].values[0]


@pytest.mark.parametrize("emit", ["barrier", "every"])
@pytest.mark.parametrize("kind", ["reduce", "aggregate"])
def test_a_branch_behind_a_table_cannot_change_the_table(emit: str, kind: str) -> None:
    """Nor can the aggregate that changes in place change what was forwarded before."""
    spec = StoreSpec(name="table", key_serde=STR, value_serde=JsonSerde())
    node = AggregateNode(
        name="table",
        kind=kind,  # type: ignore[arg-type]
        store=spec,
        key=STR,
        initializer=list,
        adder=(lambda total, v: total.extend(v) or total)
        if kind == "reduce"
        else (lambda _k, v, total: total.extend(v) or total),
    )
    lane = Lane(stores=[spec])
    steps = (
        Step(name="table", inputs=("in",), node=node, wants_old=True),
        Step(name="spoil", inputs=("table",), node=spoil("spoil")),
        Step(name="out", inputs=("table",), node=sink("out")),
        Step(name="spoilt", inputs=("spoil",), node=sink("spoilt")),
    )
    stage = Stage(index=1, inputs=("in",), steps=steps)
    options = KernelOptions(key_groups=1, emit=emit)  # type: ignore[arg-type]
    runs = StageRunner(stage, topics=("in",), options=options, state=lane.state)
    for rows, stored in [([("a", [1])], b"[1]"), ([("a", [2])], b"[1,2]")]:
        runs.run({"in": exchanged(rows, STR)})
        values = {rows.step: rows.values for rows in runs.take_output().rows}
        assert values == {"out": [stored], "spoilt": [stored[:-1] + b',"spoil"]']}
        raw = lane.overlay.get("table", b"a")
        assert raw is not None
        assert raw[8:] == stored


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=3), st.tuples(st.integers())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


def containers(value: Any) -> set[int]:
    """Name every list and dict inside a value."""
    if isinstance(value, dict):
        return {id(value)}.union(*(containers(v) for v in value.values()))
    if isinstance(value, list | tuple):
        own = {id(value)} if isinstance(value, list) else set()
        return own.union(*(containers(v) for v in value)) if value else own
    return set()


@given(st.lists(VALUES, max_size=5))
def test_a_copy_is_equal_and_shares_nothing_changeable(values: list[Any]) -> None:
    """And a column counts as immutable only if it holds no list and no dict."""
    for value in values:
        copied = copy_value(value)
        assert copied == value
        assert containers(copied).isdisjoint(containers(value))
    nothing = not any(containers(value) for value in values)
    assert is_immutable_column(values) is nothing


def test_a_value_that_holds_itself_can_be_copied() -> None:
    """It takes the slow road."""
    value: list[Any] = [1]
    value.append(value)
    copied = copy_value(value)
    assert copied is not value
    assert copied[1] is copied


def test_an_exchange_drops_and_counts_null_keys() -> None:
    """Unless it keeps them; then they have no bytes."""
    for keeps in (False, True):
        out = Exchange(name="out", step="in", key=STR, target=1, keep_null_keys=keeps)
        stage = branches(exchanges=(out,))
        stage.run({"in": batch([("a", 1), (None, 2), ("", 3)])})
        output = stage.take_output()
        assert rows_of(output) == ([("a", 1), (None, 2), ("", 3)] if keeps else [("a", 1), ("", 3)])
        assert output.counters["dropped_null_key:in"] == (0 if keeps else 1)


def test_output_is_drained_piece_by_piece() -> None:
    """What was taken is not given again."""
    stage = branches((PeekNode(name="peek", action=lambda *_: None), "in"), (sink("s"), "peek"))
    for expected in ([b"[1]"], [b"[2]"]):
        value = int(expected[0][1:2])
        stage.run({"in": batch([("a", [value])])})
        assert [rows.values for rows in stage.take_output().rows] == [expected]
    assert stage.take_output().rows == []


def test_the_collector_rests_during_a_batch_and_is_left_as_it_was() -> None:
    """Also when a function raises."""
    seen: list[bool] = []
    stage = branches((PeekNode(name="peek", action=lambda *_: seen.append(gc.isenabled())), "in"))
    stage.run({"in": batch([("a", 1)])})
    assert seen == [False]
    assert gc.isenabled()
    with pytest.raises(ProcessingError):
        branches((MapValuesNode(name="s", mapper=lambda v: 1 // 0), "in")).run(
            {"in": batch([("a", 1)])}
        )
    assert gc.isenabled()


@pytest.mark.parametrize("groups", [1, 4, 32])
def test_a_lane_routes_keys_to_their_groups(groups: int) -> None:
    """Reads and writes of a batch reach the overlay of each key."""
    spec = StoreSpec(name="s")
    overlays = {
        group: Overlay(
            MemoryEnvironment(
                EnvironmentSpec(
                    application_id="a", stage="s", group=group, groups=groups, stores=(spec,)
                )
            ).snapshot(Committed())
        )
        for group in range(groups)
    }
    state = LaneState(overlays, key_groups=groups)
    keys = [f"k{n}".encode() for n in range(50)]
    store = state.store("s")
    store.put_many(keys, [*keys[:-1], None])
    assert store.getmulti(keys) == [*keys[:-1], None]
    assert store.getmulti(keys[::-1])[1] == keys[-2]
    store.delete(keys[0])
    assert store.get(keys[0]) is None
    for group, changes in state.changes().items():
        assert all(key_group(key, groups) == group for key, _ in changes["s"])
    written = {key for changes in state.changes().values() for key, _ in changes["s"]}
    assert written >= set(keys[1:-1])
    assert state.groups == list(range(groups))


def test_a_key_of_another_lane_is_our_own_mistake() -> None:
    """State is never read where it does not live."""
    state = LaneState({}, key_groups=4)
    with pytest.raises(InvariantError, match="is not one of this lane's"):
        state.store("s").getmulti([b"a"])


def test_an_error_survives_pickle_with_all_it_says() -> None:
    """Spark carries it from a worker to the driver."""
    node = MapValuesNode(name="s", mapper=lambda v: 1 // v, origin=Origin("app.py", 7, "x.map()"))
    with pytest.raises(ProcessingError) as caught:
        runner(node).run({"in": batch([("k" * 100, 0)])})
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.fields == caught.value.fields
    text = str(again)
    assert "at:        app.py:7: x.map()" in text
    assert "(102 characters)" in text
    assert "k" * 60 not in text


def test_the_users_own_line_is_told_not_the_librarys() -> None:
    """The deepest line of the function's own file."""

    def helper(value: Any) -> Any:
        return JsonSerde().deserialize(value)  # this line

    try:
        helper(b"{")
    except Exception as error:  # noqa: BLE001 - any will do
        line = failing_line(error, helper)
    assert line is not None
    assert line.code.endswith("# this line")


def test_a_key_whose_repr_raises_is_still_shown() -> None:
    """An error message must not fail."""

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert show_key(Odd()) == "<Odd, whose repr raised RuntimeError>"
