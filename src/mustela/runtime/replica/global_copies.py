"""Global tables for readers: each as far as a committed epoch had read its topic, and no further.

Nothing is read, kept or opened before somebody asks for a table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from mustela.api.handlers import app_handlers
from mustela.config.clients import client_properties
from mustela.config.settings import Settings, app_configs
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.plan.epoch import GlobalMark, Program
from mustela.plan.plan import Plan
from mustela.queries.errors import StateUnavailableError
from mustela.queries.source import StorePlace
from mustela.runtime.engine import GlobalReading
from mustela.runtime.installed import load_engine
from mustela.runtime.replica.places import replica_place
from mustela.runtime.topics.staleness import stale_ages
from mustela.state.faults import StateGoneError
from mustela.state.interfaces import Snapshot
from mustela.state.kinds.layout import EmptySnapshot
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalCopies"]

_PLACE: Final = ("~global tables",)
"""Stands for stores in the name of the directory; no store is named so."""


@runtime_checkable
class _Engine(Protocol):
    """An engine that can write copies of global tables."""

    def global_reading(self, program: Program) -> GlobalReading:
        """Return what opens them."""
        ...


@dataclass(slots=True)
class _Opened:
    tables: Sequence[GlobalTableNode]
    reading: GlobalReading
    stack: ExitStack


class GlobalCopies:
    """The global tables of one application, for the readers of this process.

    The copies are in a directory of their own, which the next process finds again.

    Args:
        settings: Returns the settings, which name the application, the brokers and the directory.
        engine: The name of the engine whose code writes copies.
    """

    def __init__(self, settings: Callable[[], Settings], engine: str = "spark") -> None:
        self._settings = settings
        self._engine = engine
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._used: set[str] = set()
        self._found: tuple[object, int, Mapping[str, StorePlace]] = None, 0, {}

    def beside(self, plan: Plan, stores: Mapping[str, StorePlace]) -> Mapping[str, StorePlace]:
        """Return where the stores of a plan are, with its tables; the same until one is in use.

        Args:
            plan: The program.
            stores: Where its stores are.
        """
        if not plan.global_tables:
            return stores
        known, used, found = self._found
        if known is not stores or used != len(self._used):
            used = len(self._used)
            found = {**stores, **self._places(plan)}
            self._found = stores, used, found
        return found

    def _places(self, plan: Plan) -> dict[str, StorePlace]:
        """Return where the tables of a plan are; a snapshot opens only those that are in use."""
        return {
            table.store.name: StorePlace(
                spec=table.store,
                stage=-1 - number,
                groups=1,
                wanders=False,
                on_demand=table.store.name not in self._used,
            )
            for number, table in enumerate(plan.global_tables)
        }

    def mark(self, plan: Plan, stage: int, marks: Mapping[str, GlobalMark]) -> GlobalMark | None:
        """Return how far the topic of a table was read; None before it was.

        Args:
            plan: The program.
            stage: The place of the table.
            marks: How far the topics were read.
        """
        return marks.get(plan.global_tables[-1 - stage].topic)

    def open(self, plan: Plan, stage: int, marks: Mapping[str, GlobalMark], epoch: int) -> Snapshot:
        """Open a table as of an epoch; the first time its whole topic is read.

        Args:
            plan: The program.
            stage: The place of the table.
            marks: How far the epoch had read the topics.
            epoch: The epoch.

        Raises:
            StateNotReadyError: If a later epoch was opened before.
            StateUnavailableError: If the engine cannot read the table.
            EnvironmentFault: If the topic cannot be read.
        """
        table, mark = plan.global_tables[-1 - stage], self.mark(plan, stage, marks)
        self._used.add(table.store.name)
        if mark is None:
            return EmptySnapshot()
        while True:
            reading = self._reading(plan)
            try:
                return reading.open(table, mark, epoch)
            except StateGoneError:
                # A reader of another release closed it in between: both keep the same files.
                if self._has(reading):
                    raise

    def close(self) -> None:
        """Close the copies; views of them end."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.stack.close()

    def _has(self, reading: GlobalReading) -> bool:
        with self._lock:
            return self._opened is not None and self._opened.reading is reading

    def _reading(self, plan: Plan) -> GlobalReading:
        with self._lock:
            if self._opened is None or self._opened.tables is not plan.global_tables:
                before, self._opened = self._opened, None
                if before is not None:
                    before.stack.close()
                self._opened = self._open(plan)
            return self._opened.reading

    def _open(self, plan: Plan) -> _Opened:
        settings, engine = self._settings(), load_engine(self._engine)
        if not isinstance(engine, _Engine):
            msg = f"the engine {self._engine} does not read global tables for queries"
            raise StateUnavailableError(msg, fix="read the table's topic")
        with ExitStack() as stack:
            place = stack.enter_context(
                replica_place(settings.state_dir, settings.application_id, _PLACE)
            )
            reading = engine.global_reading(_program(settings, plan, place))
            stack.callback(reading.close)
            return _Opened(plan.global_tables, reading, stack.pop_all())


def _program(settings: Settings, plan: Plan, place: Path) -> Program:
    """Return the application as far as copies of its global tables need it."""
    name = settings.application_id
    admin = KafkaAdmin(client_properties(settings, "admin"))
    try:
        topics = admin.describe([table.topic for table in plan.global_tables])
        ages, cluster_id = stale_ages(admin.configs(topics)), admin.cluster_id()
    finally:
        admin.close()
    return Program(
        identity=f"readers of {name}",
        application_id=name,
        cluster_id=cluster_id,
        plan=Plan(stages=(), topics=(), fingerprint="", global_tables=plan.global_tables),
        lanes=1,
        key_groups=1,
        guarantee=settings.processing_guarantee,
        kernel={
            "event_time": settings.event_time,
            **app_handlers(settings),
            "application_id": name,
            "app_configs": app_configs(settings),
        },
        consumer=client_properties(settings, "consumer"),
        producer={},
        state_dir=str(place),
        map_size=settings.state.map_size,
        stale_after_ms=ages,
    )
