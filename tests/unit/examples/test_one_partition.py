"""The example of one partition on all cores."""

from __future__ import annotations

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.planner.explain import explain
from mustela.planner.planner import plan
from tests.unit.examples.programs import load

program = load("e21_one_partition")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ROUNDS", 1)


def test_the_slow_step_runs_in_the_lanes() -> None:
    """Not where the one partition is read."""
    builder = StreamsBuilder()
    program.build(builder)
    reading, lanes = explain(plan(builder.build())).split("Stage 1: a task for each lane")
    assert " work <- " not in reading
    assert " work <- " in lanes


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_the_number_of_lanes_changes_no_result(lanes: int) -> None:
    """Each key's records come out in their order, once."""
    with TopologyTestDriver(program.app, lanes=lanes) as driver:
        sent = [(f"k{n % 5}", str(n)) for n in range(20)]
        with driver.epoch():
            driver.create_input_topic("work-items").pipe_key_value_list(sent)
        worked = driver.create_output_topic("worked").read_key_values_to_list()
        done = driver.create_output_topic("done").read_key_values_to_map()
    for key in done:
        expected = [program.work(key, number) for of, number in sent if of == key]
        assert [value for of, value in worked if of == key] == expected
    assert done == {f"k{n}": 4 for n in range(5)}
