"""The result files have the shape that everything else reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.measure import Window
from benchmarks.peers.base import parse_event
from benchmarks.peers.registry import CONTESTANTS, Contestant, contestants
from benchmarks.peers.spark_peer import committed_by
from benchmarks.results import OtherRunsError, Results
from benchmarks.runner import turns
from benchmarks.trial import CatchUp, FixedLoad

MUSTELA = Contestant(peer="mustela", guarantee="eos")


def measured(rate: int) -> CatchUp:
    return CatchUp(
        window=Window(begin=0, end=10, records=rate * 10, method="window"),
        program_cpu_s=2.0,
        broker_cpu_s=1.0,
        driver_cpu_s=0.5,
        whole_cpu_s=9.0,
        peak_pss_bytes=500_000_000,
        state_bytes=1_000_000,
        running_state_bytes=2_000_000,
        output_records=7,
        start_s={"main": 0.5},
    )


def test_the_document_has_the_agreed_shape(tmp_path: Path) -> None:
    """machine, then peers, guarantees and metrics; latencies of all runs are merged."""
    results = Results(machine={"cpus": 2}, workload={"name": "word_count"})
    for rate in (100_000, 300_000, 200_000):
        results.row(MUSTELA).add_catch_up(measured(rate), 1_000)
    for value in (10.0, 30.0):
        results.row(MUSTELA).add_fixed_load(
            FixedLoad(latencies_ms=[value], numbers={"fixed_load.cpu_percent": value})
        )
    file = results.write(tmp_path)
    assert file.name == "word_count.json"
    document = json.loads(file.read_text())
    eos = document["peers"]["mustela"]["eos"]
    assert document["machine"] == {"cpus": 2}
    assert eos["records_per_s"] == {"median": 200_000, "min": 100_000, "max": 300_000}
    assert eos["cpu_s_per_million"]["median"] == 1.0
    assert set(eos["broker_cpu_s_per_million"]) == {"median", "min", "max"}
    assert eos["peak_pss_mb"]["median"] == 500
    assert eos["latency_ms"] == {"p50": 10, "p95": 30, "p99": 30}
    assert eos["fixed_load"]["cpu_percent"]["median"] == 20
    assert eos["records"] == 1_000
    assert eos["start_s"]["main"]["median"] == 0.5


def test_a_run_without_a_right_output_has_no_number() -> None:
    """Only its fault is told."""
    results = Results(machine={}, workload={"name": "count"})
    results.row(MUSTELA).add_fault("3 keys wrong")
    row = json.loads(json.dumps(results.document()))["peers"]["mustela"]["eos"]
    assert row == {"faults": ["3 keys wrong"]}


def test_runs_are_added_to_those_of_an_earlier_call(tmp_path: Path) -> None:
    """Medians, merged latencies and the number of runs are those of all."""
    about: dict[str, object] = {"name": "count", "records": 10}
    for rate, latency in ((100_000, 10.0), (300_000, 30.0)):
        results = Results(machine={"cpus": 2, "load_before": latency}, workload=about)
        results.add_runs_of(tmp_path)
        results.row(MUSTELA).add_catch_up(measured(rate), 1_000)
        results.row(MUSTELA).add_fixed_load(FixedLoad(latencies_ms=[latency], numbers={}))
        results.write(tmp_path)
    document = json.loads((tmp_path / "count.json").read_text())
    eos = document["peers"]["mustela"]["eos"]
    assert eos["records_per_s"] == {"median": 200_000, "min": 100_000, "max": 300_000}
    assert eos["latency_ms"] == {"p50": 10, "p95": 30, "p99": 30}
    assert document["workload"] == {**about, "runs": 2, "latency_runs": 2}


@pytest.mark.parametrize("changed", [{"cpus": 4}, {"records": 11}])
def test_runs_of_another_kind_are_not_added_to(tmp_path: Path, changed: dict[str, object]) -> None:
    """Neither another machine's nor those over other records."""
    first = Results(machine={"cpus": 2}, workload={"name": "count", "records": 10})
    first.write(tmp_path)
    machine = {**first.machine, **{k: v for k, v in changed.items() if k == "cpus"}}
    workload = {**first.workload, **{k: v for k, v in changed.items() if k == "records"}}
    with pytest.raises(OtherRunsError, match=next(iter(changed))):
        Results(machine=machine, workload=workload).add_runs_of(tmp_path)


def test_turns_go_forwards_and_backwards() -> None:
    """Drift of the machine hits all peers alike."""
    three = CONTESTANTS[:3]
    order = [contestant for _, contestant in turns(three, 2)]
    assert order == [*three, *reversed(three)]


def test_peers_are_chosen_by_name_and_guarantee() -> None:
    """Quix Streams runs exactly once, plain PySpark's sink is at-least-once."""
    assert [str(one) for one in contestants(["quix", "pyspark"], None)] == [
        "quix/eos",
        "pyspark/alo",
    ]
    assert {one.guarantee for one in contestants(None, ["eos"])} == {"eos"}


def test_a_slow_peer_is_given_the_first_part_of_the_records() -> None:
    """Never so few that nothing steady can be seen, and never more than there are."""
    slow, all_of_it = contestants(["quix"], None)[0], contestants(["mustela"], None)[0]
    assert slow.records(4_000_000) == 400_000
    assert slow.records(500_000) == 100_000
    assert slow.records(5_000) == 5_000
    assert all_of_it.records(4_000_000) == 4_000_000


def test_events_are_json_lines_and_other_output_is_not_for_us() -> None:
    """A peer's libraries print what they like."""
    event = parse_event('{"event": "running", "time": 1.5, "more": 2}')
    assert event is not None
    assert (event.name, event.time, event.fields) == ("running", 1.5, {"more": 2})
    assert [parse_event(line) for line in ("hello", "{broken", '{"time": 1}')] == [None] * 3


def test_a_checkpoint_tells_what_its_newest_committed_batch_reached(tmp_path: Path) -> None:
    """A batch that is planned but not committed does not count."""
    assert committed_by(tmp_path, ["in"]) == 0
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch, reached in ((0, 5), (1, 9)):
        (tmp_path / "offsets" / str(batch)).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{{"in":{{"0":{reached},"1":1}}}}\n{{"side":{{"0":2}}}}\n'
        )
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    assert committed_by(tmp_path, ["in"]) == 6
    assert committed_by(tmp_path, ["in", "side"]) == 8
