"""All cases of an area as one application, so that Spark runs them in few epochs.

The topologies share nothing, so each step sees what it would see alone: event time belongs to the
operator, order to the key. Epoch n holds the n-th record of each case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import zip_longest
from typing import Any

from mustela.model import Record
from mustela.state.interfaces import StoreSpec
from mustela.topology.graph import TopologyGraph
from mustela.topology.node import Node
from mustela.topology.source import SourceNode, TableSourceNode
from tests.conformance.cases import Case
from tests.conformance.registry import areas
from tests.conformance.script import Produced, Sent
from tests.conformance.spark_ways import START_MS, SparkWay

__all__ = ["Bundles", "bundled"]

# Fields that hold words of the library and no names of the user.
_WORDS = {"kind", "side", "mode", "auto_offset_reset"}
_RESTART_EVERY = 4


def _as_told(record: Record[Any, Any], _partition_time: int) -> int:
    """Give the time that a case says: a Kafka client takes time 0 for now."""
    return record.timestamp - START_MS


def bundled(topologies: Mapping[str, TopologyGraph]) -> TopologyGraph:
    """Return one topology of several: names of steps, stores and topics begin with the case's.

    Its sources take `START_MS` off each record's time, so that windows begin where a case says.
    """
    nodes = [
        _renamed(node, f"{case}.", names)
        for case, topology in topologies.items()
        for names in [set(_names(topology))]
        for node in topology
    ]
    return TopologyGraph(tuple(nodes))


def _names(topology: TopologyGraph) -> Iterator[str]:
    for node in topology:
        yield node.name
        yield from (store.name for store in node.stores)
        for word in ("topic", "topics"):
            named = getattr(node, word, ())
            yield from (
                (named,) if isinstance(named, str) else named if isinstance(named, tuple) else ()
            )


def _renamed(value: Any, prefix: str, names: set[str]) -> Any:
    if isinstance(value, str):
        return prefix + value if value in names else value
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_renamed(part, prefix, names) for part in value)
    if isinstance(value, StoreSpec):
        return replace(value, name=prefix + value.name)
    if isinstance(value, Node) or (is_dataclass(value) and _holds_a_store(value)):
        changes = {
            field.name: _renamed(getattr(value, field.name), prefix, names)
            for field in fields(value)
            if field.init and field.name not in _WORDS
        }
        if isinstance(value, SourceNode | TableSourceNode):
            changes["timestamp_extractor"] = _as_told
        return replace(value, **changes)  # pyright: ignore[reportArgumentType]
    return value


def _holds_a_store(value: Any) -> bool:
    return any(isinstance(getattr(value, field.name), StoreSpec) for field in fields(value))


class Bundles:
    """Runs each area once in each way and remembers what its cases wrote.

    Args:
        cases: All cases.
        way: Spark on a broker.
    """

    def __init__(self, cases: Iterable[Case], way: SparkWay) -> None:
        self._cases = {case.name: case for case in cases}
        self._way = way
        self._runs: dict[tuple[str, bool], dict[str, Produced] | BaseException] = {}

    def produced(self, case: Case, settings: Mapping[str, Any], *, restarts: bool) -> Produced:
        """Return what a case wrote, running its area first if that has not been done.

        Raises:
            KeyError: If the case has no topology.
        """
        area = next((area for area, known in areas() if case.name in known), None)
        if area is None:
            raise KeyError(case.name)
        if (area, restarts) not in self._runs:
            try:
                self._runs[area, restarts] = self._run(area, settings, restarts)
            except Exception as problem:  # noqa: BLE001 - told to each case of the area
                self._runs[area, restarts] = problem
        run = self._runs[area, restarts]
        if isinstance(run, BaseException):
            raise AssertionError(f"the cases of {area} failed together") from run
        return run[case.name]

    def _run(self, area: str, settings: Mapping[str, Any], restarts: bool) -> dict[str, Produced]:
        builds = dict(areas())[area]
        cases = [self._cases[name] for name in sorted(builds)]
        topology = bundled({case.name: builds[case.name]() for case in cases})
        columns = [[_sent(case.name, sent) for sent in case.inputs] for case in cases]
        epochs: list[Sequence[Sent]] = [
            [sent for sent in row if sent is not None] for row in zip_longest(*columns)
        ]
        every = _RESTART_EVERY if restarts else None
        run = self._way(settings=dict(settings), restart_every=every, count_epochs=True)
        produced: dict[str, Produced] = defaultdict(Produced)
        for record in run(topology, epochs).records:
            name, topic = record.topic.split(".", 1)
            told = record._replace(topic=topic, timestamp=record.timestamp + START_MS)
            produced[name].records.append(told)
        return produced


def _sent(case: str, sent: Sent) -> Sent:
    return sent._replace(topic=f"{case}.{sent.topic}")
