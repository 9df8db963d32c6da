"""An application that runs on a real broker, with the topics of the test driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from mustela import App
from mustela.clock import SystemClock
from mustela.config.clients import client_properties
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.plain import PlainSink
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.errors import EnvironmentFault
from mustela.plan.bound import SerdeBinder
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.testing.row import BrokerRow
from mustela.testing.topics import TestInputTopic, TestOutputTopic
from mustela.testing.written import check_written, reader_of, sinks_of, topic_serde

__all__ = ["NotCaughtUpError", "RunningApp"]

_BYTES = (BytesSerde(), BytesSerde())
_MARKERS_S = 10.0
_LOOK_S = 0.02


class NotCaughtUpError(EnvironmentFault):
    """An application has not processed in time what was sent to it."""

    code = "DEV_NOT_CAUGHT_UP"


class RunningApp:
    r"""An application on Spark and a real broker, used as `TopologyTestDriver` is used.

    Its topics are made where they are missing, it runs while the ``with`` block does, and each look
    at an output topic first waits until what was sent is committed. What it reads is committed.

    Args:
        app: The application; it must not have been started.
        settings: Settings over its own, among them ``bootstrap.servers``.
        partitions: Partitions of the topics that are made, by name; one if not given.
        patience: How long it may take to process what was sent, its start included.

    Raises:
        AppStateError: If the application was started before.

    Example:
        ::

            from mustela_dev import DevelopmentBroker, RunningApp

            with DevelopmentBroker() as broker:
                settings = {"bootstrap.servers": broker.bootstrap_servers}
                with RunningApp(make_app(), settings) as running:
                    running.create_input_topic("orders").pipe_input("ann", "book")
                    running.create_output_topic("totals").expect_table("key | value\n ann | 1")
    """

    def __init__(
        self,
        app: App,
        settings: Mapping[str, Any] | None = None,
        *,
        partitions: Mapping[str, int] | None = None,
        patience: timedelta = timedelta(minutes=2),
    ) -> None:
        self.app = app
        self._patience = patience
        self._partitions = dict(partitions or {})
        app.configure(**(settings or {}))
        self._binder = SerdeBinder(app.settings.application_id, app.settings.schema_registry)
        self._clock = SystemClock()
        self._made: set[str] = set()
        self._positions: dict[str, list[int]] = {}
        self._rows: dict[str, list[BrokerRow]] = {}
        self._sent = True  # the first look waits until the application has started

    def __enter__(self) -> Self:
        """Make the topics, and start the application."""
        topics = self.app.topics
        names = (*topics.reads, *topics.global_tables, *topics.writes)
        self._make(*names, *((topics.dead_letters,) if topics.dead_letters else ()))
        self._sink = PlainSink(client_properties(self.app.settings, "producer"))
        self.app.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the application; raise what ended it, unless the block has raised."""
        try:
            self.app.__exit__(kind, error, trace)
        finally:
            self._sink.close()

    def create_input_topic(
        self,
        name: str,
        key: Any = None,
        value: Any = None,
        start: int | datetime | None = None,
        auto_advance: int | timedelta | None = None,
    ) -> TestInputTopic[Any, Any]:
        """Return a topic to send records to; see `TopologyTestDriver.create_input_topic`.

        Raises:
            TestDriverError: If the application does not read the topic.
        """
        node = reader_of(self.app.built_topology(), name)
        self._make(name)
        return TestInputTopic(
            name,
            key=self._serde(name, key, node.key, key=True),
            value=self._serde(name, value, node.value, key=False),
            pipe=self._send,
            clock=self._clock.now_ms,
            start=start,
            auto_advance=auto_advance,
        )

    def create_output_topic(
        self, name: str, key: Any = None, value: Any = None
    ) -> TestOutputTopic[Any, Any]:
        """Return a topic to read results from; see `TopologyTestDriver.create_output_topic`.

        Raises:
            TestDriverError: If no step writes the topic.
        """
        topology = self.app.built_topology()
        check_written(name, topology, self.app.settings)
        sinks = sinks_of(topology, name, self._binder)
        own = next(iter(sinks.values()), _BYTES)
        return TestOutputTopic(
            name,
            key=self._serde(name, key, own[0], key=True),
            value=self._serde(name, value, own[1], key=False),
            rows=lambda: self._read(name),
            position=self._positions.setdefault(name, [0]),
            sinks=sinks,
        )

    def wait_until_caught_up(self) -> None:
        """Wait until all that was sent is committed with its results.

        Raises:
            NotCaughtUpError: If it takes longer than ``patience``.
            MustelaError: What ended the application, if it has ended.
        """
        if self.app.wait_until_caught_up(self._patience):
            self._sent = False
            return
        if self.app.error is not None:
            raise self.app.error
        state = self.app.state.value
        msg = f"{self.app.settings.application_id} has not caught up within {self._patience}"
        fix = "see what it does in its log, or pass a longer patience="
        raise NotCaughtUpError(msg, evidence={"state": state}, fix=fix)

    def _serde(self, topic: str, said: Any, known: Serde[Any] | None, *, key: bool) -> Serde[Any]:
        return topic_serde(self._binder, topic, said, known, key=key)

    def _make(self, *names: str) -> None:
        """Make topics where they are missing; those that were made are not asked for again."""
        names = tuple(name for name in names if name not in self._made)
        if not names:
            return
        admin = KafkaAdmin(client_properties(self.app.settings, "admin"))
        try:
            admin.create(
                [TopicSpec(name=name, partitions=self._partitions.get(name, 1)) for name in names]
            )
        finally:
            admin.close()
        self._made.update(names)

    def _send(self, rows: Sequence[BrokerRow]) -> None:
        if not rows:
            return
        topics, keys, values, timestamps, headers = zip(*(row[:5] for row in rows), strict=True)
        self._sink.produce_columns(topics, keys, values, timestamps, headers)
        self._sink.flush()
        self._sent = True

    def _read(self, topic: str) -> list[BrokerRow]:
        """Return all committed rows of a topic, once what was sent is among their causes."""
        if self._sent:
            self.wait_until_caught_up()
            self._rows.clear()
        if topic not in self._rows:
            properties = client_properties(self.app.settings, "consumer")
            self._wait_for_markers(topic)
            found = list(tail(properties, topic, TailOptions(until_end=True)))
            self._rows[topic] = [
                BrokerRow(topic, row.key, row.value, row.timestamp, row.headers, row.partition)
                for row in sorted(found, key=lambda row: (row.partition, row.offset))
            ]
        return self._rows[topic]

    def _wait_for_markers(self, topic: str) -> None:
        """Wait until the broker shows readers what was committed, at most `_MARKERS_S`.

        A commit returns when it is decided; its markers come to the partitions soon after. Somebody
        else's open transaction would hold them back for as long as it lasts.
        """
        admin = KafkaAdmin(client_properties(self.app.settings, "admin"))
        try:
            places = [(topic, part) for part in range(admin.partitions(topic, refresh=True))]
            deadline = self._clock.monotonic() + _MARKERS_S
            while admin.end_offsets(places) != admin.high_watermarks(places):
                if self._clock.monotonic() >= deadline:
                    return
                self._clock.sleep(_LOOK_S)
        finally:
            admin.close()
