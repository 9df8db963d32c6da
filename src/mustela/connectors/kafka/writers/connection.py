"""A connection to one broker: one question at a time, or one ahead of its answer."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.writers.security import encrypted, log_in
from mustela.connectors.kafka.writers.traffic import Traffic
from mustela.connectors.kafka.writers.wire import NO_TAGS, Answer, Api, compact_string, frame

__all__ = ["Connection", "Place"]

API_VERSIONS = Api(18, 3, "ApiVersions")
_ANSWER_BYTES_MAX = 64 << 20
_FEATURES_TAG = 2
_VERSION = "1"
_TIMED_OUT = KafkaError._TIMED_OUT  # pyright: ignore[reportPrivateUsage]
_TRANSPORT = KafkaError._TRANSPORT  # pyright: ignore[reportPrivateUsage]
Place = tuple[str, int]
"""Host and port."""


class Connection:
    """Connected, secured and logged in.

    Args:
        place: Host and port.
        properties: Client properties, by librdkafka's names.
        timeout: Seconds that each step may take.
        traffic: Where is counted what goes over it.

    Attributes:
        versions: The lowest and the highest version of each request that the broker knows.
        features: The level of each feature that the cluster has agreed on.

    Raises:
        KafkaException: If the broker is not there or refuses; so do all methods.
    """

    def __init__(
        self,
        place: Place,
        properties: Mapping[str, Any],
        timeout: float,
        traffic: Traffic | None = None,
    ) -> None:
        self._place = place
        self._traffic = traffic = traffic or Traffic()
        self._asked_at = 0.0
        self._timeout = timeout
        self._asked = 0
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        try:
            plain = socket.create_connection(place, timeout)
        except OSError as raised:
            raise self._lost(raised) from raised
        traffic.connects += 1
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain
        try:
            self._socket = encrypted(plain, place[0], properties)
            self._ask_versions()
            log_in(self.call, properties)
        except OSError as raised:
            self.close()
            raise self._lost(raised) from raised
        except KafkaException:
            self.close()
            raise

    def knows(self, api: Api) -> bool:
        """Whether the broker knows a request in its version."""
        low, high = self.versions.get(api.key, (1, 0))
        return low <= api.version <= high

    def call(self, api: Api, body: bytes, sent: Callable[[], object] | None = None) -> Answer:
        """Ask and wait for the answer; ``sent`` is called in between."""
        self.send(api, body)
        if sent is not None:
            sent()
        return self.receive(api)

    def send(self, api: Api, *body: bytes) -> None:
        """Ask; each question needs one `receive`, in order. The body may come in parts."""
        self._asked += 1
        self._asked_at = perf_counter()
        data = frame(api, self._asked, body)
        self._traffic.requests_sent += 1
        self._traffic.bytes_sent += len(data)
        try:
            self._socket.sendall(data)
        except OSError as raised:
            raise self._lost(raised) from raised

    def receive(self, api: Api) -> Answer:
        """Wait for the answer to the question that was sent last."""
        try:
            (length,) = struct.unpack(">i", self._read(4))
            if not 4 <= length <= _ANSWER_BYTES_MAX:
                raise ConnectionError(f"an answer of {length} bytes")  # noqa: EM102
            data = self._read(length)
        except OSError as raised:
            raise self._lost(raised) from raised
        self._traffic.responses_received += 1
        self._traffic.bytes_received += 4 + length
        self._traffic.waited_s += perf_counter() - self._asked_at
        answer = Answer(data)
        correlation = answer.int32()
        if correlation != self._asked:
            raise self._lost(ConnectionError(f"answer {correlation} to question {self._asked}"))
        if api.flexible and api != API_VERSIONS:
            answer.tags()
        return answer

    def is_lost(self) -> bool:
        """Whether the broker has closed it; to be asked when no answer is awaited.

        Brokers close what is idle for ten minutes. A question sent after that looks like one whose
        answer was lost, and an end without an answer is an end that nobody knows of.
        """
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        finally:
            self._socket.settimeout(self._timeout)
        return True

    def close(self) -> None:
        """Let it go."""
        if self._socket.fileno() >= 0:
            self._traffic.disconnects += 1
        self._socket.close()

    def _ask_versions(self) -> None:
        body = compact_string("mustela") + compact_string(_VERSION) + NO_TAGS
        answer = self.call(API_VERSIONS, body)
        code = answer.int16()
        if code:
            raise KafkaException(KafkaError(code, "brokers before Kafka 2.4 are not known here"))

        def version() -> tuple[int, tuple[int, int]]:
            found = answer.int16(), (answer.int16(), answer.int16())
            answer.tags()
            return found

        self.versions = dict(answer.array(version))
        answer.int32()
        agreed = answer.tags().get(_FEATURES_TAG)
        if agreed is not None:
            self.features = dict(agreed.array(lambda: _feature(agreed)))

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            some = self._socket.recv(count - len(data))
            if not some:
                raise ConnectionError("the broker has closed the connection")  # noqa: EM101
            data += some
        return bytes(data)

    def _lost(self, raised: OSError) -> KafkaException:
        host, port = self._place
        code = _TIMED_OUT if isinstance(raised, TimeoutError) else _TRANSPORT
        return KafkaException(KafkaError(code, f"{host}:{port}: {raised}"))


def _feature(agreed: Answer) -> tuple[str, int]:
    name, highest = agreed.string() or "", agreed.int16()
    agreed.int16()
    agreed.tags()
    return name, highest
