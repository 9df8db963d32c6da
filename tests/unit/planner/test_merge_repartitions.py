"""Records that are wanted twice by one key travel once, or twice, and the result is the same."""

from __future__ import annotations

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.topology.graph import TopologyGraph


def program() -> TopologyGraph:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int).select_key(lambda _key, value: value % 3)
    grouped = stream.group_by_key(key=int)
    grouped.reduce(max, store="most").to_stream().to("most")
    grouped.reduce(min, store="least").to_stream().to("least")
    stream.merge(stream).repartition(key=int).to("twice")
    return builder.build()


def results(*, off: str, **options: object) -> dict[str, list[tuple[int, int]]]:
    settings = {"topology": {"rules_off": off}}
    with TopologyTestDriver(program(), settings=settings, **options) as driver:  # type: ignore[arg-type]
        topic = driver.create_input_topic("in")
        for part in ([5, 1, 4, 2], [9, 3, 7]):
            with driver.epoch():
                topic.pipe_key_value_list([(str(n), n) for n in part], start=0, advance=1)
        return {
            name: sorted(driver.create_output_topic(name).read_key_values_to_list())
            for name in ("most", "least", "twice")
        }


def test_the_rule_changes_how_often_records_travel_and_nothing_else() -> None:
    """It is switched off by its name, in the settings."""
    merged = plan(program())
    apart = plan(program(), options=PlanOptions(rules_off=frozenset({"merge_repartitions"})))
    assert [len(stage.exchanges) for stage in merged.stages] == [2, 0]
    assert [len(stage.exchanges) for stage in apart.stages] == [3, 0]
    assert len({exchange.name for exchange in apart.stages[0].exchanges}) == 3
    ways = ({}, {"key_groups": 8, "lanes": 3, "crash_after_every_record": True})
    found = [results(off=off, **way) for off in ("", "merge_repartitions") for way in ways]
    assert all(each == found[0] for each in found)


def test_a_rule_that_does_not_exist_is_named() -> None:
    """With the one that was meant."""
    with pytest.raises(BadOptionError, match="merge_repartitions"):
        results(off="merge_repartition")
