"""Steps on tables: what they make of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mustela.errors import InvariantError
from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.failures import SerializationError
from mustela.kernel.core.lane_state import LaneStore
from mustela.serdes.json import JsonSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node
from mustela.topology.source import TableSourceNode
from mustela.topology.table import TableFilterNode, TableMapValuesNode, TableToStreamNode
from tests.unit.kernel.stages import INT, STR, Lane, batch, exchanged, out_batch, rows_of, runner

STORE = StoreSpec(name="table", key_serde=STR, value_serde=INT)
PLAIN = TableSourceNode(name="table", topic="in", key=STR, value=INT)
STORED = TableSourceNode(name="table", topic="in", key=STR, value=INT, store=STORE)
EVEN = TableFilterNode(name="even", predicate=lambda _k, v: v % 2 == 0)
STREAM = TableToStreamNode(name="stream")

ROWS = [("a", 1), ("b", 2), ("a", 4), ("b", None), ("c", None), (None, 7)]


def changes(
    *nodes: Node, rows: Any = ROWS, wants_old: bool = False, **options: Any
) -> list[tuple[Any, Any]]:
    lane = Lane(stores=[STORE])
    stage = runner(*nodes, state=lane.state, wants_old=wants_old, key_groups=1, **options)
    stage.run({"in": exchanged(rows, STR)})
    return rows_of(stage.take_output())


def test_a_table_is_its_last_rows_in_order_of_arrival() -> None:
    """At the barrier each key's last row; without a store nobody knows what was before."""
    assert changes(PLAIN, STREAM) == [("a", 4), ("b", None), ("c", None)]
    assert changes(PLAIN, STREAM, emit="every") == ROWS[:-1]


def test_a_stored_table_knows_what_was_before() -> None:
    """Deleting what was never there is no change at the barrier."""
    assert changes(STORED, STREAM) == [("a", 4)]
    assert changes(STORED, STREAM, emit="every") == ROWS[:-1]


def test_an_older_record_replaces_a_newer_one() -> None:
    """An unversioned table goes by arrival, not by time."""
    lane = Lane(STORED, stores=[STORE])
    lane.run(exchanged([("a", 1)], STR, [10]))
    out = out_batch(lane.run(exchanged([("a", 2)], STR, [5])))
    assert (out.values, out.timestamps) == ([2], [5])


def test_a_null_key_is_dropped_and_counted() -> None:
    """A table has no row without a key."""
    stage = runner(PLAIN)
    stage.run({"in": batch(ROWS)})
    assert stage.take_output().counters["dropped_null_key:table"] == 1


def test_old_values_come_from_the_store() -> None:
    """Before the epoch at the barrier; the update before with each update."""
    for emit, olds in (("barrier", [1]), ("every", [1, 4])):
        lane = Lane(stores=[STORE])
        stage = runner(STORED, state=lane.state, wants_old=True, key_groups=1, emit=emit)
        stage.run({"in": exchanged([("a", 1)], STR)})
        stage.take_output()
        stage.run({"in": exchanged([("a", 4), ("a", 6)], STR)})
        assert out_batch(stage.take_output()).olds == olds


@pytest.mark.parametrize(
    ("rows", "wants_old", "emit", "reads"),
    [
        ([("a", 4), ("b", 2)], False, "barrier", False),
        ([("a", 4), ("b", None)], False, "barrier", True),
        ([("a", 4), ("b", None)], False, "every", False),
        ([("a", 4), ("b", 2)], True, "barrier", True),
    ],
)
def test_what_is_replaced_is_read_where_it_matters(
    rows: list[tuple[str, int | None]],
    wants_old: bool,
    emit: str,
    reads: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream that looks rows up wants no old ones, and only a deletion may be of nothing."""
    asked: list[bytes] = []
    getmulti = LaneStore.getmulti

    def counted(store: LaneStore, keys: Sequence[bytes]) -> list[bytes | None]:
        asked.extend(keys)
        return getmulti(store, keys)

    monkeypatch.setattr(LaneStore, "getmulti", counted)
    lane = Lane(stores=[STORE])
    stage = runner(STORED, state=lane.state, wants_old=wants_old, key_groups=1, emit=emit)
    stage.run({"in": exchanged([("a", 1), ("b", 1)], STR)})
    asked.clear()
    stage.run({"in": exchanged([*rows, *rows], STR)})
    assert bool(asked) == reads
    monkeypatch.undo()
    stored = lane.state.store("table").getmulti([b"a", b"b"])
    codec = StoreCodec(STORE, INT)
    assert codec.decode_many(stored, [b"a", b"b"])[0] == [value for _, value in rows]


def test_a_filter_deletes_what_does_not_hold() -> None:
    """Without old values a deletion goes on for every row that does not hold."""
    rows = [("a", 1), ("b", 2), ("c", None)]
    assert changes(PLAIN, EVEN, rows=rows) == [("a", None), ("b", 2), ("c", None)]


def test_a_filter_that_knows_old_values_is_silent_about_strangers() -> None:
    """A row that was never in the result is not deleted from it."""
    lane = Lane(stores=[STORE])
    stage = runner(STORED, EVEN, state=lane.state, wants_old=True, key_groups=1)
    for rows, expected in [
        ([("a", 1), ("b", 2), ("c", 4)], [("b", 2), ("c", 4)]),
        ([("a", 3), ("b", 5), ("c", 6)], [("b", None), ("c", 6)]),
        ([("a", 2), ("b", None), ("c", None)], [("a", 2), ("c", None)]),
    ]:
        stage.run({"in": exchanged(rows, STR)})
        assert rows_of(stage.take_output()) == expected


def test_filter_not_keeps_the_others_and_deletions_stay_deletions() -> None:
    """Negation is of the predicate, not of the row's presence."""
    odd = TableFilterNode(name="odd", predicate=EVEN.predicate, negate=True)
    rows = [("a", 1), ("b", 2), ("c", None)]
    assert changes(PLAIN, odd, rows=rows) == [("a", 1), ("b", None), ("c", None)]


def test_functions_never_see_a_deletion() -> None:
    """Predicate and mapper get rows only."""
    seen: list[Any] = []
    mapper = TableMapValuesNode(name="map", mapper=lambda v: seen.append(v) or -v)
    predicate = TableFilterNode(name="even", predicate=lambda _k, v: seen.append(v) or True)
    rows = [("a", None), ("b", 0), ("c", None)]
    assert changes(PLAIN, mapper, rows=rows) == [("a", None), ("b", 0), ("c", None)]
    assert changes(PLAIN, predicate, rows=rows) == [("a", None), ("b", 0), ("c", None)]
    assert changes(PLAIN, mapper, rows=rows[:1]) == [("a", None)]
    assert seen == [0, 0]


def test_a_mapper_that_returns_none_deletes() -> None:
    """And it may ask for the key."""
    node = TableMapValuesNode(name="map", mapper=lambda k, v: k * v or None, with_key=True)
    assert changes(PLAIN, node, rows=[("a", 2), ("b", 0)]) == [("a", "aa"), ("b", None)]


def test_a_filter_behind_a_mapping_gets_mapped_old_values() -> None:
    """The mapper answers for the old value too where somebody asks."""
    mapper = TableMapValuesNode(name="map", mapper=lambda v: v // 10)
    lane = Lane(stores=[STORE])
    stage = runner(STORED, mapper, EVEN, state=lane.state, wants_old=True, key_groups=1)
    stage.run({"in": exchanged([("a", 10), ("b", 20)], STR)})
    assert rows_of(stage.take_output()) == [("b", 2)]
    stage.run({"in": exchanged([("a", 30), ("b", 30)], STR)})
    assert rows_of(stage.take_output()) == [("b", None)]


@pytest.mark.parametrize("which", ["filter", "map"])
def test_a_view_with_a_store_keeps_its_rows(which: str) -> None:
    """Its own old values are known, so deletions of strangers do not go on."""
    view = StoreSpec(name="view", key_serde=STR, value_serde=INT)
    node: Node = (
        TableFilterNode(name="view", predicate=EVEN.predicate, store=view)
        if which == "filter"
        else TableMapValuesNode(name="view", mapper=lambda v: v if v % 2 == 0 else None, store=view)
    )
    lane = Lane(stores=[view])
    stage = runner(PLAIN, node, state=lane.state, key_groups=1)
    stage.run({"in": exchanged([("a", 1), ("b", 2)], STR)})
    assert rows_of(stage.take_output()) == [("b", 2)]
    assert lane.overlay.get("view", b"b") is not None
    stage.run({"in": exchanged([("a", 3), ("b", 3)], STR)})
    assert rows_of(stage.take_output()) == [("b", None)]
    assert lane.overlay.get("view", b"b") is None


def test_a_failing_row_meets_the_handler_alone() -> None:
    """The view has no change for it; old values on which the function raises were never there."""
    inverse = TableMapValuesNode(name="map", mapper=lambda v: 10 // v)
    options: Any = {"processing_handler": "continue"}
    assert changes(PLAIN, inverse, rows=[("a", 5), ("b", 0), ("c", 2)], **options) == [
        ("a", 2),
        ("c", 5),
    ]
    divides = TableFilterNode(name="div", predicate=lambda _k, v: 10 // v)
    lane = Lane(stores=[STORE])
    stage = runner(STORED, divides, state=lane.state, wants_old=True, key_groups=1, **options)
    stage.run({"in": exchanged([("a", 0), ("b", 1)], STR)})
    assert rows_of(stage.take_output()) == [("b", 1)]
    stage.run({"in": exchanged([("a", 2), ("b", 20)], STR)})
    assert rows_of(stage.take_output()) == [("a", 2), ("b", None)]


def test_a_row_that_cannot_be_stored_meets_the_handler_alone() -> None:
    """The store's serde is asked row by row."""
    rows = [("a", 1), ("b", "text"), ("c", 3)]
    with pytest.raises(SerializationError, match="holds int"):
        changes(STORED, rows=rows)
    assert changes(STORED, rows=rows, production_handler="continue") == [("a", 1), ("c", 3)]


def test_a_table_may_become_a_stream_of_other_keys() -> None:
    """The mapper is called for deletions too."""
    node = TableToStreamNode(name="stream", mapper=lambda k, v: f"{k}{v}")
    rows = [("a", 1), ("b", None)]
    assert changes(PLAIN, node, rows=rows) == [("a1", 1), ("bNone", None)]


def test_stored_values_are_not_the_users_objects() -> None:
    """A later change of a value that was stored does not change the table or its old values."""
    spec = StoreSpec(name="table", key_serde=STR, value_serde=JsonSerde())
    node = TableSourceNode(name="table", topic="in", key=STR, value=JsonSerde(), store=spec)
    spoil = TableMapValuesNode(name="spoil", mapper=lambda v: v.append(9) or v)
    lane = Lane(stores=[spec])
    stage = runner(node, spoil, state=lane.state, key_groups=1)
    stage.run({"in": exchanged([("a", [1])], STR)})
    assert rows_of(stage.take_output()) == [("a", [1, 9])]
    stage = runner(node, state=lane.state, wants_old=True, key_groups=1)
    stage.run({"in": exchanged([("a", [2])], STR)})
    assert out_batch(stage.take_output()).olds == [[1]]


def test_a_stored_table_needs_a_lane() -> None:
    """A plan that puts it into the source stage is wrong."""
    with pytest.raises(InvariantError, match="keeps state"):
        runner(STORED)
