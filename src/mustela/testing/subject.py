"""What is under test: a topology, or an application with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mustela.config.settings import Settings
from mustela.plan.keygroups import DEFAULT_KEY_GROUPS
from mustela.testing.faults import TestDriverError
from mustela.topology.graph import TopologyGraph

__all__ = ["Subject", "read_subject"]


@runtime_checkable
class _Builder(Protocol):
    def build(self) -> TopologyGraph: ...


@runtime_checkable
class _Application(Protocol):
    @property
    def settings(self) -> Settings: ...

    def built_topology(self) -> TopologyGraph: ...

    def check_program(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What is under test.

    Attributes:
        topology: The topology.
        settings: Its settings.
        key_groups: Number of key groups.
    """

    topology: TopologyGraph
    settings: Settings
    key_groups: int


def read_subject(
    subject: object, said: Settings | Mapping[str, Any] | None, key_groups: int | None
) -> Subject:
    """Return the subject of a test.

    An application keeps its own settings, overridden by those given here; a builder or a topology
    gets stream time and one key group, as in Kafka Streams' own test driver.

    Args:
        subject: An App, a StreamsBuilder or a Topology.
        said: The settings given by the test.
        key_groups: The number of key groups given by the test.

    Raises:
        UsageError: If it cannot be tested, or if an application could not be started.
    """
    if isinstance(subject, _Application):
        settings = said if isinstance(said, Settings) else subject.settings.with_values(said or {})
        subject.check_program()
        return Subject(
            subject.built_topology(),
            settings,
            key_groups or settings.key_groups or DEFAULT_KEY_GROUPS,
        )
    if isinstance(subject, TopologyGraph):
        topology = subject
    elif isinstance(subject, _Builder):
        topology = subject.build()
    else:
        msg = f"a {type(subject).__name__} cannot be tested"
        raise TestDriverError(msg, fix="pass an App, a StreamsBuilder or a Topology")
    settings = _plain(said)
    return Subject(topology, settings, key_groups or settings.key_groups or 1)


def _plain(values: Settings | Mapping[str, Any] | None) -> Settings:
    if isinstance(values, Settings):
        return values
    return _own(values) if values else _defaults()


@cache
def _defaults() -> Settings:
    return _own({})


def _own(values: Mapping[str, Any]) -> Settings:
    known = {"application_id": "test", "event_time": "stream-time", **values}
    # The machine's environment variables and the working directory must not affect a test.
    return Settings.load(known, environ={}, directory=Path(__file__).parent)
