"""Global tables: what a record meets, and what cannot be one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import Consumed, Materialized, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, SourceConflictError
from mustela.kernel.core.failures import ProcessingError
from mustela.kernel.tables.global_table import global_rows
from mustela.planner.planner import plan
from mustela.serdes.json import JsonSerde
from mustela.serdes.primitives import StrSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode
from tests.epochs import cut
from tests.unit.operators.join_models import CUTS, EMITS, WAYS, Sent, by_key, merged, run, sent

TOPICS = ("calls", "towns")


def town_of(_key: str | None, value: int) -> str | None:
    """Name the row that a record wants; some want none."""
    return None if value == 9 else "abcd"[value % 4]


def told(value: Any, row: Any) -> str:
    return f"{value}|{row}"


def calls_and_towns() -> StreamsBuilder:
    builder = StreamsBuilder()
    towns = builder.global_table("towns", key=str, value=int, store="whole")
    calls = builder.stream("calls", key=str, value=int)
    calls.join(towns, told, foreign_key_with_key=town_of, name="inner").to("inner", value=str)
    left = calls.left_join_with_key(
        towns, lambda k, v, row: f"{k}{v}|{row}", foreign_key_with_key=town_of, name="left"
    )
    left.to("left", value=str)
    counted = calls.group_by_key().reduce(lambda _old, new: new, store="newest").to_stream()
    counted.left_join(towns, told, foreign_key_with_key=town_of, name="behind").to(
        "behind", value=str
    )
    return builder


@pytest.mark.parametrize("way", WAYS)
@given(records=sent(TOPICS), cuts=CUTS, emit=st.sampled_from(EMITS))
def test_a_record_meets_the_rows_that_are_there_when_its_epoch_begins(
    way: str, records: Sequence[Sent], cuts: list[int], emit: str
) -> None:
    """All that is piped to the table's topic in an epoch comes before the epoch's records."""
    epochs = cut(records, cuts)
    kept: dict[str, Any] = {}

    def look(driver: TopologyTestDriver) -> None:
        kept.update(driver.get_key_value_store("whole").all())

    found = run(calls_and_towns(), epochs, {"emit": emit}, way, look)
    rows: dict[Any, int | None] = {}
    wanted: dict[str, list[tuple[Any, Any, int]]] = {}
    calls = [[r for r in epoch if r.topic == "calls"] for epoch in epochs]
    for epoch, mine in zip(epochs, merged(calls), strict=True):
        rows.update({r.key: r.value for r in epoch if r.topic == "towns" and r.key is not None})
        for record in mine:
            if record.value is None:
                continue
            name = town_of(record.key, record.value)
            row = None if name is None else rows.get(name)
            if row is not None:
                inner = (record.key, f"{record.value}|{row}", record.timestamp)
                wanted.setdefault("inner", []).append(inner)
            left = (record.key, f"{record.key}{record.value}|{row}", record.timestamp)
            wanted.setdefault("left", []).append(left)
    assert kept == {key: value for key, value in rows.items() if value is not None}
    for topic in ("inner", "left"):
        assert by_key(found.get(topic, [])) == by_key(wanted.get(topic, []))
    last = {key: values[-1].value for key, values in by_key(found.get("left", [])).items()}
    last.pop(None, None)
    behind = {key: values[-1].value for key, values in by_key(found.get("behind", [])).items()}
    assert {key: f"{key}{value}" for key, value in behind.items()} == last


def test_nothing_travels_for_a_global_table() -> None:
    """The join runs where the records are: there is one stage, and no source for the table."""
    builder = StreamsBuilder()
    towns = builder.global_table("towns", key=str, value=str)
    calls = builder.stream("calls", key=str, value=str)
    calls.join(towns, told, foreign_key_with_key=lambda _k, v: v, value=str).to("out")
    made = plan(builder.build())
    assert len(made.stages) == 1
    assert made.topics == ("calls",)
    assert [table.topic for table in made.global_tables] == ["towns"]
    text = builder.build().describe()
    assert "for global store (will not generate tasks)" in text


def test_a_global_table_survives_a_crash_and_lost_disks() -> None:
    """The topic is the truth: a copy is made anew from it."""
    with TopologyTestDriver(calls_and_towns()) as driver:
        driver.create_input_topic("towns").pipe_input("b", 7)
        driver.crash(lose_state=True)
        driver.create_input_topic("calls").pipe_input("x", 1)
        assert driver.create_output_topic("inner").read_value() == "1|7"


def test_a_bad_record_of_the_table_stops_only_who_meets_it() -> None:
    """Rows are decoded where they are met; the record that meets a bad one goes to the handler."""
    builder = StreamsBuilder()
    towns = builder.global_table("towns", key=str, value=int)
    calls = builder.stream("calls", key=str, value=int)
    calls.left_join(towns, told, foreign_key_with_key=lambda k, _v: k, name="join").to(
        "out", value=str
    )
    settings = {"processing_handler": "continue"}
    with TopologyTestDriver(builder.build(), settings=settings) as driver:
        driver.create_input_topic("towns", value=bytes).pipe_input("bad", b"x")
        driver.create_input_topic("calls").pipe_key_value_list([("bad", 1), ("good", 2)])
        assert driver.create_output_topic("out").read_values_to_list() == ["2|None"]
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("towns", value=bytes).pipe_input("bad", b"x")
        with pytest.raises(ProcessingError, match="join"):
            driver.create_input_topic("calls").pipe_input("bad", 1)


def test_keys_that_may_be_written_in_two_ways_are_found() -> None:
    """JSON with other white space is the same key."""
    key: Any = JsonSerde()
    node = GlobalTableNode(
        name="g", topic="g", key=key, value=StrSerde(), store=StoreSpec(name="g", logged=False)
    )
    written = key.serialize({"a": 1})
    ((found, _),) = global_rows(node, [b'{ "a" :  1 }', None], [b"v", b"w"], [5, 6], None)
    assert found == written


def test_what_cannot_be_a_global_table_is_refused_where_it_is_written() -> None:
    """Versions, a beginning in the middle, a second one of the same topic in another way."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("v", timedelta(minutes=1))
    with pytest.raises(BadOptionError, match="a global table cannot be versioned"):
        builder.global_table("v", key=str, value=str, materialized=Materialized(supplier=supplier))
    with pytest.raises(BadOptionError, match="auto_offset_reset"):
        builder.global_table("v", consumed=Consumed(key=str, value=str, auto_offset_reset="latest"))
    towns = builder.global_table("towns", key=str, value=str)
    assert builder.global_table("towns", key=str, value=str).name == towns.name
    with pytest.raises(SourceConflictError):
        builder.global_table("towns", key=str, value=int)
