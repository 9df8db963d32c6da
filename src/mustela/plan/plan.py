"""The physical plan: stages of steps, with exchanges between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from mustela.api.errors import SourceConflictError
from mustela.api.handlers import may_bury
from mustela.api.timestamps import keeps_broker_time, needs_partition_time
from mustela.api.watermarks import LatePolicy, WatermarkStrategy
from mustela.plan.step import Step
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.store_meaning import StoreMeaning, join_meanings

__all__ = ["PLAN_FORMAT", "Exchange", "Plan", "Stage"]

PLAN_FORMAT = 1
"""Version of the messages between stages; an epoch record names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Records leave one stage and reach the lane of their key in a later one.

    Attributes:
        name: The name of the target stage's input.
        step: The step (or source) of the sending stage whose output travels.
        key: Serde that makes the key bytes, which decide the key group.
        target: Index of the receiving stage.
        ordered: Whether the receiver must see records in merged source order; a combined
            aggregation does not.
        keep_null_keys: Whether records without a key travel too (they go to key group 0).
        table: Whether changes (new and old value) travel instead of records.
        raw: Whether records travel with their bytes as they were read, if these are known: a record
            that comes too late for its window becomes a dead letter unchanged.
    """

    name: str
    step: str
    key: Serde[Any]
    target: int
    ordered: bool = True
    keep_null_keys: bool = False
    table: bool = False
    raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one Spark stage does.

    Attributes:
        index: 0 for the source stage, then upwards.
        sources: The source nodes read here; only stage 0 has any.
        inputs: Names of the exchanges that end here.
        steps: The steps, each after the steps it reads.
        exchanges: What is sent to later stages.
        stores: The stores that live here, by name; a store belongs to exactly one stage.
        identity: Hash of the store set, part of the state's path on disk.
    """

    index: int
    sources: tuple[SourceNode | TableSourceNode, ...] = ()
    inputs: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
    identity: str = ""

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the stores that have a changelog, in the order of a key group's marks."""
        return tuple(store.name for store in self.stores if store.logged)

    @property
    def reads_any(self) -> frozenset[str]:
        """Names of the stores in which a step reads any key."""
        return frozenset(name for step in self.steps for name in step.node.reads_any)

    @property
    def acts_on_time(self) -> bool:
        """Whether a step may act without a record: when a window closes or a timer is due."""
        acting = any(step.node.acts_on_time for step in self.steps)
        return bool(self.stores) and (acting or any(store.ttl_ms for store in self.stores))

    @property
    def acts_at_start(self) -> bool:
        """Whether a step wants a turn in each key group before any record."""
        return self.acts_on_time and any(step.node.acts_at_start for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything an engine needs to run a topology.

    Attributes:
        stages: The stages; the first one reads the sources.
        topics: All source topics in a fixed order; a topic's index is part of a record's order.
            Topics found by a pattern come last, in the order in which they were found.
        fingerprint: Hash of the topology's shape, kept in each epoch record.
        global_tables: The tables of which each host has a full copy; no stage makes them.
    """

    stages: tuple[Stage, ...]
    topics: tuple[str, ...]
    fingerprint: str
    global_tables: tuple[GlobalTableNode, ...] = ()

    @property
    def stores(self) -> dict[str, tuple[int, StoreSpec]]:
        """Each store's stage index and specification, by store name."""
        return {spec.name: (stage.index, spec) for stage in self.stages for spec in stage.stores}

    @property
    def exchanges(self) -> dict[str, Exchange]:
        """Every exchange by name."""
        return {exchange.name: exchange for stage in self.stages for exchange in stage.exchanges}

    @property
    def log_names(self) -> dict[str, str]:
        """The name under which each store's changelog knows it, by store name."""
        return {name: spec.log_name for name, (_, spec) in self.stores.items()}

    @property
    def meanings(self) -> dict[str, StoreMeaning]:
        """What the rows of each store mean, by store name.

        Copies of global tables are left out: if their meaning changes, they are read again.
        """
        here = self.stores
        nodes = {
            step.node.name: step.node
            for stage in self.stages
            for step in stage.steps
            if step.role != "combine"
        }
        found: dict[str, StoreMeaning] = {}
        for node in nodes.values():
            for spec in node.stores:
                if spec.name not in here:
                    continue
                meaning, known = node.meaning_of(spec), found.get(spec.name)
                found[spec.name] = meaning if known is None else join_meanings(known, meaning)
        return dict(sorted(found.items()))

    @property
    def reads_any(self) -> frozenset[str]:
        """Names of the stores in which some step reads any key, whichever lane it is in."""
        return frozenset(name for stage in self.stages for name in stage.reads_any)

    @property
    def has_patterns(self) -> bool:
        """Whether topics are read that were not named but found."""
        return any(_pattern(source) is not None for source in self.stages[0].sources)

    @property
    def found_topics(self) -> tuple[str, ...]:
        """The topics that were found by a pattern, in the order in which they were found."""
        found = [s.topics for s in self.stages[0].sources if _pattern(s) is not None]
        return tuple(topic for topic in self.topics if any(topic in topics for topics in found))

    def with_topics(self, topics: Iterable[str]) -> Plan:
        """Return the plan that also reads those of the topics that match a pattern.

        A topic that is already read, or that matches nothing, changes nothing. New topics come
        after all others, so the order of records of earlier topics stays.

        Raises:
            SourceConflictError: If two sources match the same topic.
        """
        sources, found = list(self.stages[0].sources), list[str]()
        for topic in topics:
            if topic in self.topics or topic in found:
                continue
            readers = [n for n, source in enumerate(sources) if source.matches(topic)]
            if len(readers) > 1:
                raise _read_twice(topic, [sources[n] for n in readers])
            for n in readers:
                sources[n] = replace(sources[n], topics=(*sources[n].topics, topic))  # pyright: ignore[reportCallIssue] - tables have no patterns
                found.append(topic)
        if not found:
            return self
        first = replace(self.stages[0], sources=tuple(sources))
        stages = (first, *self.stages[1:])
        return replace(self, stages=stages, topics=(*self.topics, *found))

    @property
    def unsplit(self) -> frozenset[int]:
        """Indices of topics of which each partition must be read by one task."""
        return self._indices(lambda source: needs_partition_time(source.timestamp_extractor))

    @property
    def retimed(self) -> frozenset[str]:
        """The topics whose records have another timestamp than the broker knows."""
        found = self._indices(lambda source: not keeps_broker_time(source.timestamp_extractor))
        return frozenset(self.topics[index] for index in found)

    @property
    def late_letters(self) -> frozenset[int]:
        """Indices of topics whose late records become dead letters."""
        return self._indices(lambda source: source.late is LatePolicy.DEAD_LETTER)

    @property
    def writes_letters(self) -> bool:
        """Whether a source or step writes dead letters, whatever the handlers say."""
        return any(node.writes_letters or may_bury(node.on_error) for node in self.nodes)

    @property
    def nodes(self) -> list[Node]:
        """The sources, and the nodes of all steps."""
        steps = [step.node for stage in self.stages for step in stage.steps]
        return [*self.stages[0].sources, *steps]

    @property
    def strategies(self) -> dict[str, WatermarkStrategy]:
        """The watermark strategies of the topics that have their own."""
        return {
            topic: source.watermark
            for source in self.stages[0].sources
            if source.watermark is not None
            for topic in source.topics
        }

    def _indices(self, holds: Callable[[SourceNode | TableSourceNode], bool]) -> frozenset[int]:
        sources = [source for source in self.stages[0].sources if holds(source)]
        return frozenset(
            index
            for index, topic in enumerate(self.topics)
            if any(topic in source.topics for source in sources)
        )


def _pattern(source: SourceNode | TableSourceNode) -> object:
    return source.pattern if isinstance(source, SourceNode) else None


def _read_twice(topic: str, readers: list[SourceNode | TableSourceNode]) -> SourceConflictError:
    first, second = readers[:2]
    return SourceConflictError(
        f"topic {topic!r} is read twice, in two different ways",
        evidence={"first": first.origin or first.name},
        at=second.origin,
        why="the patterns of two sources match it, and a topic has one reader in an application",
        fix="make the patterns match different topics",
        fields={"topic": topic, "sources": (first.name, second.name)},
    )
