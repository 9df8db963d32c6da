"""The ways in which every case is run.

A way takes a topology and epochs of records, and tells what was written. Ways that need Spark or a
broker are added to `WAYS` with their markers, and every test of this folder runs in them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mustela import TopologyTestDriver
from mustela.topology.graph import TopologyGraph
from mustela.topology.sink import SinkNode
from tests.conformance.script import Produced, Run, Sent, Written

__all__ = ["WAYS", "driver_way"]


def driver_way(**options: Any) -> Run:
    """Run in the test driver."""

    def run(topology: TopologyGraph, epochs: Sequence[Sequence[Sent]]) -> Produced:
        produced = Produced()
        with TopologyTestDriver(topology, initial_wall_clock=0, **options) as driver:
            sinks = [node.topic for node in topology if isinstance(node, SinkNode)]
            named = {topic for topic in sinks if isinstance(topic, str)}
            outputs = {topic: driver.create_output_topic(topic) for topic in sorted(named)}
            last = -1
            for epoch in epochs:
                with driver.epoch():
                    _pipe(driver, epoch)
                last += len(epoch)
                for topic, output in outputs.items():
                    produced.records += [
                        Written(topic, r.key, r.value, r.timestamp, last, r.headers)
                        for r in output.read_records_to_list()
                    ]
            produced.counters = driver.metrics
        return produced

    return run


def _pipe(driver: TopologyTestDriver, epoch: Sequence[Sent]) -> None:
    for sent in epoch:
        topic = driver.create_input_topic(sent.topic)
        topic.pipe_input(sent.key, sent.value, timestamp=sent.timestamp, headers=sent.headers)


WAYS: list[Any] = [
    pytest.param(driver_way, id="driver"),
    pytest.param(
        lambda **options: driver_way(
            crash_after_every_record=True, **{"key_groups": 8, "lanes": 3, **options}
        ),
        id="driver-crash",
    ),
]
"""Each is a factory: options of the test to a `Run`."""

WayFactory = Callable[..., Run]
