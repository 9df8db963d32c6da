"""Aggregations in a lane and their partial results before it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError
from mustela.kernel.core.failures import ProcessingError, SerializationError
from mustela.plan.batch import Batch, Origins
from mustela.serdes.base import Serde
from mustela.serdes.json import JsonSerde
from mustela.serdes.primitives import FloatSerde
from mustela.serdes.resolve import resolve_serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.aggregate import AggregateNode
from tests.unit.kernel.stages import (
    ANY,
    INT,
    STR,
    Lane,
    batch,
    exchanged,
    out_batch,
    rows_of,
    runner,
)


def count(key: Serde[Any] = STR) -> AggregateNode:
    spec = StoreSpec(name="table", key_serde=key, value_serde=INT)
    return AggregateNode(name="table", kind="count", store=spec, key=key)


def reduce(adder: Any, value: Serde[Any] = INT, **options: Any) -> AggregateNode:
    spec = StoreSpec(name="table", key_serde=STR, value_serde=value)
    return AggregateNode(name="table", kind="reduce", store=spec, key=STR, adder=adder, **options)


def aggregate(initializer: Any, adder: Any, value: Serde[Any], **options: Any) -> AggregateNode:
    spec = StoreSpec(name="table", key_serde=STR, value_serde=value)
    return AggregateNode(
        name="table",
        kind="aggregate",
        store=spec,
        key=STR,
        initializer=initializer,
        adder=adder,
        **options,
    )


def lane(node: AggregateNode, **options: Any) -> Lane:
    return Lane(node, stores=[node.store], **options)


def times_of(batch: Batch) -> list[tuple[Any, Any, int]]:
    return list(zip(batch.keys, batch.values, batch.timestamps, strict=True))


def collect(total: list[Any], value: Any) -> list[Any]:
    """Change the aggregate in place and return it, as careless functions do."""
    total.append(value)
    return total


RECORDS = [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)]


@pytest.mark.parametrize(
    ("node", "every"),
    [
        (count(), [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]),
        (reduce(lambda x, y: x + y), [("a", 1), ("b", 2), ("a", 4), ("b", 6), ("a", 9)]),
        (
            aggregate(lambda: "0", lambda k, v, t: f"{t}+{k}{v}", STR),
            [
                ("a", "0+a1"),
                ("b", "0+b2"),
                ("a", "0+a1+a3"),
                ("b", "0+b2+b4"),
                ("a", "0+a1+a3+a5"),
            ],
        ),
        (
            aggregate(list, lambda k, v, t: collect(t, v), JsonSerde()),
            [("a", [1]), ("b", [2]), ("a", [1, 3]), ("b", [2, 4]), ("a", [1, 3, 5])],
        ),
    ],
)
def test_a_table_forwards_each_update_or_one_per_key(
    node: AggregateNode, every: list[tuple[Any, Any]]
) -> None:
    """``every``: each update; ``barrier``: one change per key, placed where it was last touched."""
    rows = exchanged(RECORDS, STR)
    assert rows_of(lane(node, emit="every").run(rows)) == every
    assert rows_of(lane(node).run(rows)) == every[-2:]


def test_old_values_are_those_before_the_epoch() -> None:
    """Changes carry what the table held before, although the fold changed it in place."""
    node = aggregate(list, lambda k, v, t: collect(t, v), JsonSerde())
    one = Lane(stores=[node.store])
    for number, rows in enumerate([RECORDS[:2], RECORDS[2:]]):
        stage = runner(node, state=one.state, wants_old=True, key_groups=1)
        stage.run({"in": exchanged(rows, STR)})
        out = out_batch(stage.take_output())
        assert out.olds == [[None, None], [[2], [1]]][number]
    assert out.values == [[2, 4], [1, 3, 5]]


def test_every_update_carries_the_one_before_it() -> None:
    """With each update forwarded, its old value is the update before, as it was then."""
    node = aggregate(list, lambda k, v, t: collect(t, v), JsonSerde())
    one = Lane(stores=[node.store])
    stage = runner(node, state=one.state, wants_old=True, key_groups=1, emit="every")
    stage.run({"in": exchanged([("a", 1), ("a", 2), ("a", 3)], STR)})
    out = out_batch(stage.take_output())
    assert out.values == [[1], [1, 2], [1, 2, 3]]
    assert out.olds == [None, [1], [1, 2]]


@pytest.mark.parametrize("emit", ["barrier", "every"])
@pytest.mark.parametrize("kind", ["count", "reduce"])
def test_a_result_has_the_latest_time_of_its_records(emit: str, kind: str) -> None:
    """The time of a result never goes back, though updates apply in order of arrival."""
    node = count() if kind == "count" else reduce(lambda x, y: y)
    one = lane(node, emit=emit)
    one.run(exchanged([("a", 1), ("a", 2), ("a", 3)], STR, [5, 10, 3]))
    out = out_batch(one.run(exchanged([("a", 4)], STR, [7])))
    assert out.timestamps == [10]


def test_records_without_key_or_value_are_skipped_and_counted() -> None:
    """Neither makes a row of the table."""
    for node in (count(), reduce(lambda x, y: x + y)):
        output = lane(node).run(batch([("a", 1), (None, 2), ("a", None), ("a", 0)]))
        assert output.counters["dropped_null_key:table"] == 1
        assert output.counters["dropped_null_value:table"] == 1
        assert len(rows_of(output)) == 1


@pytest.mark.parametrize("emit", ["barrier", "every"])
def test_an_aggregator_that_returns_none_deletes(emit: str) -> None:
    """The next record begins anew, with its own time."""
    node = aggregate(lambda: 100, lambda k, v, t: None if v == 0 else t + v, INT)
    one = lane(node, emit=emit)
    assert times_of(out_batch(one.run(exchanged([("a", 1)], STR, [9])))) == [("a", 101, 9)]
    assert times_of(out_batch(one.run(exchanged([("a", 0)], STR, [5])))) == [("a", None, 9)]
    assert one.overlay.get("table", b"a") is None
    assert times_of(out_batch(one.run(exchanged([("a", 2)], STR, [3])))) == [("a", 102, 3)]


@pytest.mark.parametrize("emit", ["barrier", "every"])
def test_beginning_anew_inside_an_epoch_forgets_the_time_before(emit: str) -> None:
    """As it does across epochs."""
    node = aggregate(lambda: 100, lambda k, v, t: None if v == 0 else t + v, INT)
    out = out_batch(
        lane(node, emit=emit).run(exchanged([("a", 1), ("a", 0), ("a", 2)], STR, [9, 5, 3]))
    )
    assert times_of(out)[-1] == ("a", 102, 3)


def test_a_row_made_and_deleted_in_one_epoch_never_was() -> None:
    """At the barrier a change from nothing to nothing is none; each update is, if asked for."""
    node = aggregate(lambda: 0, lambda k, v, t: None if v == 0 else t + v, INT)
    rows = exchanged([("a", 1), ("b", 1), ("a", 0)], STR)
    assert rows_of(lane(node).run(rows)) == [("b", 1)]
    every = rows_of(lane(node, emit="every").run(rows))
    assert every == [("a", 1), ("b", 1), ("a", None)]


def test_stored_rows_are_kafkas() -> None:
    """Eight bytes of big-endian milliseconds, then the value."""
    one = lane(count())
    one.run(exchanged([("a", "x")], STR, [258]))
    stored = one.overlay.get("table", b"a")
    assert stored == (258).to_bytes(8, "big") + (1).to_bytes(8, "big")


@pytest.mark.parametrize("emit", ["barrier", "every"])
def test_a_failing_record_leaves_the_aggregate_as_it_was(emit: str) -> None:
    """Also where the function changed the aggregate before it raised."""
    calls: list[int] = []

    def add(_key: str, value: int, total: list[int]) -> list[int]:
        calls.append(value)
        total.append(value)
        if value == 3:
            msg = "three"
            raise ValueError(msg)
        return total

    node = aggregate(list, add, JsonSerde())
    output = lane(node, emit=emit, processing_handler="continue").run(exchanged(RECORDS, STR))
    assert dict(rows_of(output)) == {"a": [1, 5], "b": [2, 4]}
    assert calls == [1, 2, 3, 4, 5]
    assert output.counters["failed_records:table"] == 1


def test_a_failing_record_is_named() -> None:
    """The error says step, topic, partition, offset, key and the user's line."""
    node = reduce(lambda x, y: x // y)
    with pytest.raises(ProcessingError) as caught:
        lane(node).run(exchanged([("a", 1), ("b", 5), ("a", 0)], STR))
    fields = caught.value.fields
    assert (fields["step"], fields["topic"], fields["partition"], fields["offset"]) == (
        "table",
        "in",
        0,
        2,
    )
    assert fields["cause"] == "ZeroDivisionError"
    assert "reduce(lambda x, y: x // y)" in str(fields["line"])


@pytest.mark.parametrize("handler", ["fail", "continue"])
def test_an_aggregate_that_cannot_be_stored_names_its_record(handler: str) -> None:
    """The store's serde is asked for each result."""
    node = reduce(lambda x, y: "text" if y == 3 else x + y)
    one = lane(node, production_handler=handler)
    rows = exchanged([("b", 1), ("a", 1), ("a", 3), ("a", 4)][:3], STR)
    if handler == "fail":
        with pytest.raises(SerializationError, match="holds int") as caught:
            one.run(rows)
        assert caught.value.fields["offset"] == 2
    else:
        assert rows_of(one.run(rows)) == [("b", 1), ("a", 1)]


def test_the_initializer_runs_once_for_each_new_key() -> None:
    """Not for each record."""
    made: list[int] = []

    def initializer() -> int:
        made.append(1)
        return 0

    one = lane(aggregate(initializer, lambda k, v, t: t + v, INT))
    one.run(exchanged(RECORDS, STR))
    one.run(exchanged(RECORDS, STR))
    assert len(made) == 2


def test_a_stateful_step_needs_a_lane() -> None:
    """A plan that puts one into the source stage is wrong."""
    with pytest.raises(InvariantError, match="keeps state"):
        runner(count())


KEYS = st.sampled_from(["a", "b", "c", None])
VALUES = st.one_of(st.none(), st.integers(-5, 5))
TIMED = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 20)), max_size=20)

COMBINABLE = {
    "count": count(),
    "sum": reduce(lambda x, y: x + y, associative=True),
    "set": aggregate(
        list,
        lambda _k, v, t: sorted({*t, v}),
        JsonSerde(),
        merger=lambda _k, x, y: sorted({*x, *y}),
    ),
    "in place": aggregate(
        dict,
        lambda _k, v, t: t.update({str(v): 1}) or t,
        JsonSerde(),
        merger=lambda _k, x, y: x.update(y) or x,
    ),
}


def combined(node: AggregateNode, tasks: list[list[Any]], **options: Any) -> dict[Any, Any]:
    """Run tasks of batches through combiners, and their results through one merge."""
    partials: list[Batch] = []
    for task in tasks:
        stage = runner(node, role="combine", **options)
        for records in task:
            times = [time for _, _, time in records]
            stage.run({"in": batch([(k, v) for k, v, _ in records], times)})
        stage.finish()
        partials += stage.take_output().exchanges.get("out", [])
    one = Lane(stores=[node.store])
    stage = runner(node, state=one.state, role="merge", key_groups=1)
    joined = Batch.concatenate(partials)
    key_bytes: Any = STR.serialize_many(joined.keys)
    joined.key_bytes = key_bytes
    stage.run({"in": joined})
    out = out_batch(stage.take_output())
    return {k: (v, t) for k, v, t in times_of(out)}


@given(
    tasks=st.lists(st.lists(TIMED, max_size=3), min_size=1, max_size=3),
    which=st.sampled_from([*COMBINABLE]),
    limit=st.sampled_from([1, 500_000]),
)
def test_partial_results_give_what_records_give(
    tasks: list[list[Any]], which: str, limit: int
) -> None:
    """However records are spread over tasks and batches, the table and its times are the same."""
    node = COMBINABLE[which]
    records = [record for task in tasks for part in task for record in part]
    times = [time for _, _, time in records]
    whole = lane(node).run(batch([(k, v) for k, v, _ in records], times))
    expected = {k: (v, t) for k, v, t in times_of(out_batch(whole))}
    if which in {"set", "in place"}:
        got = combined(node, tasks, combine_keys_max=limit)
    else:
        got = combined(node, tasks, combine_keys_max=limit, processing_handler="continue")
    assert got == expected


@given(st.lists(st.sampled_from([1, True, 1.0, 0.0, -0.0, "1", None, (1,)]), max_size=12))
def test_combined_keys_are_told_apart_by_their_bytes(keys: list[Any]) -> None:
    """1, True and 1.0 are equal in Python, and three keys in Kafka."""
    stage = runner(count(ANY), role="combine")
    stage.run({"in": batch([(key, "x") for key in keys])})
    stage.finish()
    got = rows_of(stage.take_output())
    expected = Counter(ANY.serialize(key) for key in keys if key is not None)
    assert {ANY.serialize(key): n for key, n in got} == dict(expected)


@pytest.mark.parametrize(
    ("serde", "keys", "wrong"),
    [
        (STR, ["a", ["b"], "a"], 1),
        (STR, ["a", 5, "a"], 1),
        (INT, [1, True, 1], 1),
        (resolve_serde(FloatSerde()), [1.0, "x", 1.0], 1),
    ],
)
def test_a_key_that_has_no_bytes_meets_the_handler_alone(
    serde: Serde[Any], keys: list[Any], wrong: int
) -> None:
    """Before the shuffle, with topic and offset of its record."""
    rows = batch([(key, "x") for key in keys])
    stage = runner(count(serde), role="combine")
    with pytest.raises(SerializationError) as caught:
        stage.run({"in": rows})
    assert caught.value.fields["offset"] == wrong
    lenient = runner(count(serde), role="combine", production_handler="continue")
    lenient.run({"in": rows})
    lenient.finish()
    assert rows_of(lenient.take_output()) == [(keys[0], 2)]


def test_combined_rows_keep_order_and_headers_of_the_last_record() -> None:
    """So that what follows the shuffle can be ordered."""
    rows = batch([("a", 1), ("b", 1), ("a", 1)], [5, 6, 4])
    rows.origins.headers = [(("h", b"1"),), (), (("h", b"3"),)]
    stage = runner(count(), role="combine")
    stage.run({"in": rows})
    stage.finish()
    out = out_batch(stage.take_output())
    assert times_of(out) == [("a", 2, 5), ("b", 1, 6)]
    assert out.headers == [(("h", b"3"),), ()]
    assert out.order == [(6, 0, 0, 2), (6, 0, 0, 1)]


def test_partial_results_cannot_be_deleted() -> None:
    """None from a function that folds partial results is refused, with the way out."""
    node = reduce(lambda x, y: x + y or None, associative=True)
    stage = runner(node, role="combine")
    with pytest.raises(ProcessingError, match="cannot be deleted"):
        stage.run({"in": batch([("a", 1), ("a", -1)])})
    one = Lane(stores=[node.store])
    for handler in ("fail", "continue"):
        merge = runner(node, state=one.state, role="merge", processing_handler=handler)
        merge.run({"in": exchanged([("a", 1)], STR)})
        if handler == "fail":
            with pytest.raises(ProcessingError, match="cannot be deleted"):
                merge.run({"in": exchanged([("a", -1)], STR)})
        else:
            merge.run({"in": exchanged([("a", -2)], STR)})


def test_a_combined_time_is_the_latest_whatever_the_order_of_the_rows() -> None:
    """Rows need not stand in the order of the records that they come from."""
    stage = runner(count(), role="combine")
    stage.run({"in": batch([("a", 1), ("b", 1), ("a", 1)], [5, 6, 7]).take([2, 1, 0])})
    stage.finish()
    out = out_batch(stage.take_output())
    assert times_of(out) == [("a", 2, 7), ("b", 1, 6)]


@pytest.mark.parametrize("emit", ["barrier", "every"])
@pytest.mark.parametrize("kind", ["count", "reduce"])
def test_a_change_is_ordered_right_behind_its_record(emit: str, kind: str) -> None:
    """The record's order, then key group and a running number."""
    node = count() if kind == "count" else reduce(lambda x, y: x + y)
    out = out_batch(lane(node, emit=emit).run(exchanged(RECORDS, STR, [3, 1, 4, 1, 5])))
    causes = [(3, 0, 0, 0), (3, 0, 0, 1), (4, 0, 0, 2), (4, 0, 0, 3), (5, 0, 0, 4)]
    expected = causes if emit == "every" else causes[3:]
    assert out.order == [(*cause, 0, number) for number, cause in enumerate(expected)]


def test_changes_of_a_combined_count_are_ordered_by_time_then_key() -> None:
    """Where the records' order was given up: the same for any number of lanes."""
    node = count()
    one = Lane(stores=[node.store])
    stage = runner(node, state=one.state, role="merge", key_groups=1)
    rows = exchanged([("b", 2), ("a", 1), ("c", 1)], STR, [7, 7, 3])
    rows.origins = Origins(rows.timestamps)
    stage.run({"in": rows})
    out = out_batch(stage.take_output())
    order = out.order
    assert order is not None
    assert [key for _, key in sorted(zip(order, out.keys, strict=True))] == ["c", "a", "b"]


def test_a_combiner_hands_on_what_it_holds_when_it_holds_too_much() -> None:
    """Its memory has a limit, and the sums are the same."""
    stage = runner(count(), role="combine", combine_keys_max=2)
    stage.run({"in": batch([(key, 1) for key in "abcab"])})
    first = rows_of(stage.take_output())
    assert first == [("a", 2), ("b", 2), ("c", 1)]
    stage.finish()
    assert rows_of(stage.take_output()) == []


def test_the_first_value_of_a_reduce_is_taken_as_it_is() -> None:
    """The adder is not called for it."""
    node = reduce(lambda x, y: [*x, *y], value=JsonSerde())
    assert rows_of(lane(node).run(exchanged([("a", [1])], STR))) == [("a", [1])]
