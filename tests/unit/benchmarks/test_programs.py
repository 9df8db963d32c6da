"""Mustela's programs of the joins and windows give what the oracles want, on a small input."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import records
from benchmarks.oracles import OutputRecord
from benchmarks.peers.mustela_programs import PROGRAMS
from benchmarks.peers.registry import CONTESTANTS
from benchmarks.records import TimedRecord
from benchmarks.workloads import SEED, WORKLOADS, Workload
from mustela import StreamsBuilder, TopologyTestDriver

RECORDS = 600
PER_EPOCH = 50


def arrivals(workload: Workload, oracle: Any) -> list[tuple[str, TimedRecord]]:
    """The records of all topics, shown to the oracle, side by side in the order of each topic."""
    topics: dict[str, list[Any]] = {}
    for side in workload.sides:
        made = topics[f"in-{side.ending}"] = list(side.make(side.count(RECORDS), SEED))
        for record in made:
            oracle.see_side(side.ending, record)
    topics["in"] = list(workload.make(RECORDS, SEED))
    for record in topics["in"]:
        oracle.see(record)
    begin = topics["in"][0][2]
    places = [
        # What is older than the whole input is a table that is there before it.
        (place / len(made) if made[-1][2] >= begin else -1, name, record)
        for name, made in topics.items()
        for place, record in enumerate(made)
    ]
    arrived = [(name, record) for _, name, record in sorted(places, key=lambda item: item[0])]
    if workload.closed:
        arrived += [(name, record) for name in topics for record in records.closing(0)]
    return arrived


def as_bytes(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name[:2] in ("w3", "w4", "w5")])
def test_a_program_gives_what_its_oracle_wants(name: str) -> None:
    """The whole output, record by record."""
    workload = WORKLOADS[name]
    oracle = workload.oracle()
    builder = StreamsBuilder()
    PROGRAMS[workload.program]("in", "out")(builder)
    with TopologyTestDriver(builder.build()) as driver:
        arrived = arrivals(workload, oracle)
        for begin in range(0, len(arrived), PER_EPOCH):
            with driver.epoch():
                for topic, (key, value, time) in arrived[begin : begin + PER_EPOCH]:
                    assert key is not None
                    driver.create_input_topic(topic).pipe_input(key.decode(), value, timestamp=time)
        found = driver.create_output_topic("out").read_key_values_to_list()
    output: list[OutputRecord] = [("", as_bytes(key), as_bytes(value)) for key, value in found]
    assert len(output) > RECORDS // 4
    assert oracle.check(output) == []


def test_every_peer_knows_what_it_cannot_do() -> None:
    """Mustela and Kafka Streams do all; each other one has a reason for what it leaves out."""
    programs = {workload.program for workload in WORKLOADS.values()}
    for contestant in CONTESTANTS:
        refused = {program for program in programs if contestant.cannot(program)}
        assert bool(refused) == (contestant.peer in ("quix", "pyspark"))
        assert refused < programs
