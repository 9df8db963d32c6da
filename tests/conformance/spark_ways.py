"""Spark and a real broker as ways to run a case: straight on, and with restarts."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mustela.clock import SystemClock
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.ranges import RangeReader
from mustela.errors import EnvironmentFault
from mustela.model import Windowed
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.engine import EngineOptions
from mustela.runtime.events import EpochDone, Event
from mustela.serdes.base import Serde
from mustela.spark.engine import SparkEngine
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.graph import TopologyGraph
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode
from tests.conformance.script import Produced, Run, Sent, Written
from tests.faults.inside import await_condition
from tests.patience import PATIENCE_S

__all__ = ["SPARK_WAYS", "START_MS", "SparkWay"]

# Cases begin at time 0, which a Kafka client takes for "now".
START_MS = 1_600_000_000_000
# Topics that a function chooses cannot be known beforehand, and must exist: those of the cases.
CHOSEN = ("to-a", "to-b")
_RESTART_EVERY = 1 if os.environ.get("MUSTELA_CONFORMANCE_TEST") else 3
_NUMBERS = itertools.count()


def _moved_back(key: Any) -> Any:
    """Return a windowed key with the times of the case."""
    if isinstance(key, Windowed) and key.start >= START_MS:
        windowed: Windowed[Any] = key  # pyright: ignore[reportUnknownVariableType]
        return Windowed(windowed.key, windowed.start - START_MS, windowed.end - START_MS)
    return key


class SparkWay:
    """Runs topologies as an application does, one epoch after the other.

    With restarts all epochs take a task for each lane and stage; without them all but the first
    are one task each.

    Args:
        restarts: Whether the application dies after every third epoch, the first among them, and
            starts again, where a run does not say how often (``restart_every``). In
            ``./dev conformance`` it dies after each.
    """

    def __init__(self, *, restarts: bool) -> None:
        self._restarts = restarts
        self._where: tuple[str, Any, Path] | None = None

    def on(self, servers: str, context: Any, directory: Path) -> SparkWay:
        """Return the same way on a broker and a Spark context."""
        bound = SparkWay(restarts=self._restarts)
        bound._where = (servers, context, directory)
        return bound

    def __call__(self, **options: Any) -> Run:
        """Return what runs a topology with the test's options."""
        assert self._where is not None
        servers, context, directory = self._where

        def run(topology: TopologyGraph, epochs: Sequence[Sequence[Sent]]) -> Produced:
            given = dict(options)
            every = given.pop("restart_every", _RESTART_EVERY if self._restarts else None)
            by_epoch = given.pop("count_epochs", False)
            partitions = given.pop("partitions", {})
            settings = Settings.load(
                {
                    "application_id": f"conformance-{next(_NUMBERS)}",
                    "bootstrap_servers": servers,
                    "state_dir": str(directory),
                    "key_groups": given.pop("key_groups", 1),
                    "lanes": given.pop("lanes", 1),
                    "epoch_header": "",
                    "topics": {"create": True},
                    "epoch": {"small": "0ms" if self._restarts else "10s"},
                    **given.pop("settings", {}),
                }
            )
            assert not given, f"options that this way does not know: {given}"
            with _Case(topology, settings, context, partitions) as case:
                for number, epoch in enumerate(epochs):
                    case.run(epoch, counted=1 if by_epoch else len(epoch))
                    if every and number % every == 0:
                        case.crash()
            return case.produced

        return run


class _Case:
    """One topology on the broker."""

    def __init__(
        self,
        topology: TopologyGraph,
        settings: Settings,
        context: Any,
        partitions: Mapping[str, int],
    ) -> None:
        self.produced = Produced()
        self._partitions = partitions
        self._settings = settings
        self._context = context
        self._topology = topology
        self._counters: Counter[str] = Counter()
        self._properties = {"bootstrap.servers": settings.bootstrap_servers}
        self._admin = KafkaAdmin(self._properties)
        self._producer = Producer({**self._properties, "log_level": 0})
        self._reader = RangeReader(self._properties, read_timeout=PATIENCE_S)
        self._probe = Consumer(
            {**self._properties, "group.id": "probe", "isolation.level": "read_uncommitted"}
        )
        self._sources = dict(_sources(topology))
        self._sinks = {
            node.topic: node
            for node in topology
            if isinstance(node, SinkNode) and isinstance(node.topic, str)
        }
        self._read = dict.fromkeys(self._sinks, 0)
        self._last = -1
        self._coordinator: Coordinator | None = None

    def __enter__(self) -> _Case:
        chosen = CHOSEN if _chooses(self._topology) else ()
        topics = sorted({*self._sources, *self._sinks, *chosen})
        known = self._admin.describe(topics)
        self._admin.delete([topic for topic in topics if topic in known])
        config = {"retention.ms": "-1"}
        self._admin.create(
            [
                TopicSpec(name=t, partitions=self._partitions.get(t, 1), config=config)
                for t in topics
            ]
        )
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self.crash(settle=True)
        finally:
            self.produced.counters = dict(self._counters)
            self._reader.close()
            self._probe.close()
            self._admin.close()

    def _started(self) -> Coordinator:
        if self._coordinator is None:
            engine = SparkEngine()
            engine.start(
                EngineOptions(
                    application_id=self._settings.application_id,
                    properties={},
                    session=self._context,
                )
            )
            settings = self._settings
            options = PlanOptions(emit=settings.emit, event_time=settings.event_time)
            physical = plan(self._topology, options=options)
            self._coordinator = Coordinator(
                self._settings, physical, engine, clock=SystemClock(), listener=self
            )
            self._coordinator.prepare()
        return self._coordinator

    def run(self, epoch: Sequence[Sent], *, counted: int) -> None:
        """Write an epoch's records, run it, and read what it wrote.

        Args:
            epoch: The records.
            counted: How many inputs they are for ``after_input``.
        """
        coordinator = self._started()
        for sent in epoch:
            key, value = self._sources[sent.topic]
            self._producer.produce(
                sent.topic,
                value.serialize(sent.value) if value else sent.value,
                key=key.serialize(sent.key) if key else sent.key,
                timestamp=START_MS + sent.timestamp,
                headers=list(sent.headers),
            )
        assert self._producer.flush(PATIENCE_S) == 0
        while coordinator.run_once():
            pass
        self._last += counted
        for topic, end in self._settled_ends().items():
            if end > self._read[topic]:
                self._collect(topic, end)

    def _collect(self, topic: str, end: int) -> None:
        sink = self._sinks[topic]
        start, self._read[topic] = self._read[topic], end
        for chunk in self._reader.read(topic, 0, start, end):
            headers = chunk.headers or [()] * len(chunk.offsets)
            rows = zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True)
            for key, value, timestamp, extra in rows:
                self.produced.records.append(
                    Written(
                        topic,
                        _moved_back(sink.key.deserialize(key)) if sink.key else key,
                        sink.value.deserialize(value) if sink.value else value,
                        timestamp - START_MS,
                        self._last,
                        tuple(extra or ()),
                    )
                )

    def _settled_ends(self) -> dict[str, int]:
        """Return the ends, once all is stable up to there: that lags a commit that has returned."""
        highs: dict[str, int] = {}
        for topic in self._sinks:
            _, highs[topic] = self._probe.get_watermark_offsets(
                TopicPartition(topic, 0), timeout=PATIENCE_S
            )

        def settled() -> bool:
            stable = self._admin.end_offsets([(topic, 0) for topic in highs])
            return all(end >= highs[topic] for (topic, _), end in stable.items())

        await_condition(settled)
        return highs

    def crash(self, *, settle: bool = False) -> None:
        """Let go of everything that a process holds; what is settled is settled."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is None:
            return
        if settle:
            coordinator.close()
        else:
            coordinator._world.transactions.close()  # pyright: ignore[reportPrivateUsage]
            coordinator._world.cluster.close()  # pyright: ignore[reportPrivateUsage]

    def on_event(self, event: Event) -> None:
        """Add what an epoch counted."""
        if isinstance(event, EpochDone):
            self._counters.update(event.counters)

    def on_error(self, error: BaseException) -> None:
        """Only a fault of the broker that passes by itself is borne."""
        if not (isinstance(error, EnvironmentFault) and error.retryable):
            raise error


def _chooses(topology: TopologyGraph) -> bool:
    return any(isinstance(node, SinkNode) and callable(node.topic) for node in topology)


def _sources(topology: TopologyGraph) -> Iterator[tuple[str, tuple[Serde[Any] | None, ...]]]:
    for node in topology:
        if isinstance(node, SourceNode):
            for topic in node.topics:
                yield topic, (node.key, node.value)
        elif isinstance(node, TableSourceNode | GlobalTableNode):
            yield node.topic, (node.key, node.value)


_MARKS = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]
SPARK_WAYS: list[Any] = [
    pytest.param(SparkWay(restarts=False), id="spark", marks=_MARKS),
    pytest.param(SparkWay(restarts=True), id="spark-restart", marks=_MARKS),
]
"""For `run_topology`; property tests leave them out, for they would take hours."""
