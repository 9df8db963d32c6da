"""The brokers of a cluster: who leads what, who coordinates what, and connections to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter, sleep
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.client import servers_of
from mustela.connectors.kafka.errors import ErrorKind, error_of, kind_of
from mustela.connectors.kafka.writers.connection import Connection, Place
from mustela.connectors.kafka.writers.traffic import Traffic
from mustela.connectors.kafka.writers.wire import (
    NO_TAGS,
    Api,
    compact_array,
    compact_string,
)

__all__ = ["FIND_COORDINATOR", "METADATA", "OF_GROUP", "OF_TRANSACTION", "Cluster"]

METADATA = Api(3, 9, "Metadata")
FIND_COORDINATOR = Api(10, 3, "FindCoordinator")
OF_GROUP, OF_TRANSACTION = 0, 1
_DEFAULT_PORT = 9092
_PAUSE_FIRST_S = 0.002
_PAUSE_LAST_S = 0.2
_NO_AUTO_CREATION = b"\0"
_NO_OPERATIONS = b"\0\0"
_COUNTED_S = 300.0
_AGAIN = (ErrorKind.RETRYABLE, ErrorKind.BROKER_GONE)
T = TypeVar("T")


class Cluster:
    """Connections that are made when they are needed, and made again when they are lost.

    Args:
        properties: Client properties, by librdkafka's names.
        timeout: Seconds that one question may take, its connection included.
        traffic: Where is counted what goes over its connections.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        traffic: Traffic | None = None,
    ) -> None:
        self._traffic = traffic
        self._properties = dict(properties)
        self._timeout = timeout
        self._bootstrap = list(_places(servers_of(properties)))
        self._places: dict[int, Place] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._open: dict[Place, Connection] = {}

    def until_served(self, ask: Callable[[], T], limit: float) -> T:
        """Ask again while the brokers cannot serve it now.

        Args:
            ask: What raises a `KafkaException` until it is served.
            limit: Seconds after which the last error is raised.

        Raises:
            KafkaException: The last error.
        """
        start, pause = perf_counter(), _PAUSE_FIRST_S
        while True:
            try:
                return ask()
            except KafkaException as raised:
                error = error_of(raised)
                if kind_of(error) not in _AGAIN or perf_counter() - start > limit:
                    raise
            self._coordinators.clear()
            if kind_of(error) is ErrorKind.BROKER_GONE:
                self.forget()
            sleep(pause)
            pause = min(2 * pause, _PAUSE_LAST_S)

    def any(self) -> Connection:
        """Return a connection to some broker.

        Raises:
            KafkaException: If none answers.
        """
        for place in list(self._open):
            if not self._open[place].is_lost():
                return self._open[place]
            self._open.pop(place).close()
        last: KafkaException | None = None
        for place in (*self._bootstrap, *self._places.values()):
            try:
                return self._to(place)
            except KafkaException as raised:
                last = raised
                if kind_of(raised) is ErrorKind.AUTHENTICATION:
                    break
        assert last is not None, "there are no bootstrap servers"
        raise last

    def leader(self, topic: str, partition: int) -> int:
        """Return which broker leads a partition.

        Raises:
            KafkaException: If there is none, or nobody answers.
        """
        node = self._leaders.get((topic, partition))
        if node is None:
            self._look_up([topic])
            node = self._leaders.get((topic, partition))
        if node is None:
            code = KafkaError.LEADER_NOT_AVAILABLE
            raise KafkaException(KafkaError(code, f"{topic}-{partition} has no leader"))
        return node

    def broker(self, node: int) -> Connection:
        """Return a connection to a broker that was named by `leader`.

        Raises:
            KafkaException: If it does not answer.
        """
        return self._to(self._places[node])

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; it is asked for again after some minutes.

        Raises:
            KafkaException: If there is none, or nobody answers.
        """
        known = self._counts.get(topic)
        if known is None or perf_counter() - known[1] > _COUNTED_S:
            self._look_up([topic])
            known = self._counts[topic]
        return known[0]

    def each(self) -> list[Connection]:
        """Return a connection to every broker.

        Raises:
            KafkaException: If one does not answer.
        """
        self._look_up([])
        return [self._to(place) for place in self._places.values()]

    def coordinator(self, kind: int, name: str) -> Connection:
        """Return a connection to the broker that coordinates a group or a transactional id.

        Raises:
            KafkaException: If there is none at the moment.
        """
        known = self._coordinators.get((kind, name))
        if known is not None:
            return self._to(self._places[known])
        body = compact_string(name) + bytes([kind]) + NO_TAGS
        answer = self.any().call(FIND_COORDINATOR, body)
        answer.int32()
        code, text = answer.int16(), answer.string()
        if code:
            raise KafkaException(KafkaError(code, text or ""))
        node, host, port = answer.int32(), answer.string() or "", answer.int32()
        self._places[node] = (host, port)
        self._coordinators[kind, name] = node
        return self._to((host, port))

    def forget(self) -> None:
        """Let all connections go, and what is known of who leads and coordinates."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self._leaders.clear()
        self._coordinators.clear()

    def _to(self, place: Place) -> Connection:
        found = self._open.get(place)
        if found is not None and found.is_lost():
            found.close()
            found = None
        if found is None:
            found = self._open[place] = Connection(
                place, self._properties, self._timeout, self._traffic
            )
        return found

    def _look_up(self, topics: Iterable[str]) -> None:
        asked = compact_array(compact_string(topic) + NO_TAGS for topic in topics)
        body = asked + _NO_AUTO_CREATION + _NO_OPERATIONS + NO_TAGS
        answer = self.any().call(METADATA, body)
        answer.int32()

        def broker() -> tuple[int, Place]:
            found = answer.int32(), (answer.string() or "", answer.int32())
            answer.string()
            answer.tags()
            return found

        def partition() -> tuple[int, int]:
            answer.int16()
            number, leader = answer.int32(), answer.int32()
            answer.int32()
            for _ in range(3):  # replicas, those in step, those that are gone
                answer.array(answer.int32)
            answer.tags()
            return number, leader

        self._places.update(answer.array(broker))
        answer.string()
        answer.int32()

        def topic() -> None:
            code, name = answer.int16(), answer.string() or ""
            answer.int8()
            found = answer.array(partition)
            answer.int32()
            answer.tags()
            if code:
                raise KafkaException(KafkaError(code, name))
            self._leaders.update({(name, number): node for number, node in found if node >= 0})
            self._counts[name] = len(found), perf_counter()

        answer.array(topic)


def _places(servers: str) -> Iterable[Place]:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host:
            host, port = port, str(_DEFAULT_PORT)
        yield host.rpartition("//")[2].strip("[]"), int(port)
