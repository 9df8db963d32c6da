"""Crashes between and inside epochs, in the test driver."""

from __future__ import annotations

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.kernel.core.options import KernelOptions
from mustela.planner.planner import plan
from mustela.runtime.time.watermark import Look
from mustela.state.interfaces import Condition
from mustela.testing.cluster import BrokerRow, MemoryCluster
from mustela.testing.job import run_job


def sums() -> StreamsBuilder:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int)
    totals = numbers.group_by_key().reduce(lambda x, y: x * 3 + y, store="sums")
    totals.to_stream().to("sums")
    return builder


@pytest.mark.parametrize("lose_state", [False, True])
def test_a_crash_between_records_changes_nothing(lose_state: bool) -> None:
    """State is that of the last commit, from the pending or from the changelog."""
    with TopologyTestDriver(sums()) as driver:
        topic = driver.create_input_topic("numbers")
        for number in (1, 2, 3):
            topic.pipe_input("a", number)
            driver.crash(lose_state=lose_state)
        assert driver.create_output_topic("sums").read_values_to_list() == [1, 5, 18]
        assert driver.get_key_value_store("sums")["a"] == 18


def test_a_crash_inside_an_epoch_drops_what_was_piped() -> None:
    """Nothing of it was committed."""
    with TopologyTestDriver(sums()) as driver:
        topic = driver.create_input_topic("numbers")
        with driver.epoch():
            topic.pipe_input("a", 1)
            driver.crash()
            topic.pipe_input("a", 2)
        assert driver.create_output_topic("sums").read_values_to_list() == [2]


@pytest.mark.parametrize("groups", [1, 4])
def test_crashing_after_every_record_gives_the_same_results(groups: int) -> None:
    """Each epoch is run twice and committed once."""
    outputs: list[list[tuple[str, int]]] = []
    for crashes in (False, True):
        with TopologyTestDriver(
            sums(), key_groups=groups, lanes=2, crash_after_every_record=crashes
        ) as driver:
            topic = driver.create_input_topic("numbers")
            topic.pipe_key_value_list([(f"k{n % 5}", n) for n in range(40)], start=0, advance=1)
            outputs.append(driver.create_output_topic("sums").read_key_values_to_list())
            assert len(driver.get_key_value_store("sums")) == 5
    assert outputs[0] == outputs[1]


def cluster_with(rows: list[BrokerRow]) -> tuple[MemoryCluster, KernelOptions]:
    cluster = MemoryCluster(
        plan(sums().build()), application_id="app", key_groups=1, dead_letter_topic="dead"
    )
    cluster.append_inputs(rows)
    return cluster, KernelOptions(key_groups=1)


def test_an_abandoned_pending_is_never_taken_for_a_committed_one() -> None:
    """Its epoch's number comes again, its token does not."""
    row = BrokerRow("numbers", b"a", (1).to_bytes(8, "big"), 5)
    cluster, options = cluster_with([row])
    lost = run_job(cluster, options, lanes=1, look=Look(now_ms=0))
    again = run_job(cluster, options, lanes=1, look=Look(now_ms=0))
    cluster.restart(lose_state=False)
    third = run_job(cluster, options, lanes=1, look=Look(now_ms=0))
    assert lost.token.epoch == again.token.epoch == third.token.epoch
    assert len({lost.token, again.token, third.token}) == 3
    place = next(iter(third.changes))
    cluster.commit(third)
    assert cluster.environments[place].condition(cluster.committed(place)) is Condition.FOLDABLE
    assert cluster.changelogs["sums", 0] == list(third.changes[place]["sums"])


def test_what_is_not_committed_is_nowhere() -> None:
    """A job alone writes no row, no offset, no changelog."""
    cluster, options = cluster_with([BrokerRow("numbers", b"a", (1).to_bytes(8, "big"), 5)])
    run_job(cluster, options, lanes=1, look=Look(now_ms=0))
    assert cluster.outputs == {}
    assert cluster.changelogs == {}
    assert cluster.offsets == {"numbers": 0}
