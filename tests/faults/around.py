"""What stands around an application under kills and lives on: services, and who answers requests.

A `Around` is made for a campaign and told where the application's topics are.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer

from mustela.connectors.kafka.client import servers_of
from tests.faults.reach import Servers, reaching
from tests.integration.http_service import HttpService
from tests.patience import PATIENCE_S

__all__ = ["AROUND", "Around"]

TWICE = 0.1
POLL_S = 0.2


class Around(Protocol):
    """Something that an application needs.

    Attributes:
        environment: Variables that tell the application where it is.
    """

    environment: dict[str, str]

    def start(self) -> None:
        """Begin to serve."""
        ...

    def stop(self) -> None:
        """Serve no more."""
        ...


class Service:
    """The service that calls go to."""

    def __init__(self, servers: Servers, prefix: str, seed: int) -> None:
        del prefix, seed
        # Where the broker listens, applications reach the service, too.
        address = servers_of(reaching(servers)).rpartition(":")[0]
        self._service = HttpService(address=address)
        self.environment = {"FAULTS_URL": self._service.url}

    def start(self) -> None:
        """Begin to answer."""
        self._service.__enter__()

    def stop(self) -> None:
        """Answer no more."""
        self._service.__exit__()


class Answerer:
    """Answers each request on ``<prefix>.requests``, some twice, to ``<prefix>.replies``.

    A reply is the request in capitals. Requests that come together are answered in any order.

    Args:
        servers: The broker.
        prefix: Of the topics.
        seed: For order and repetition.
    """

    def __init__(self, servers: Servers, prefix: str, seed: int) -> None:
        self.environment: dict[str, str] = {}
        self._random = random.Random(seed)
        self._topics = f"{prefix}.requests", f"{prefix}.replies"
        self._consumer = Consumer(
            {
                **reaching(servers),
                "group.id": f"{prefix}-answerer",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
            }
        )
        self._producer = Producer({**reaching(servers), "linger.ms": 1, "log_level": 0})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="answerer", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._consumer.subscribe([self._topics[0]])
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            found: list[Any] = self._consumer.consume(200, POLL_S)
            requests = [message for message in found if message.error() is None]
            again = [request for request in requests if self._random.random() < TWICE]
            for request in self._random.sample([*requests, *again], len(requests) + len(again)):
                self._producer.produce(
                    self._topics[1],
                    (request.value() or b"").upper(),
                    headers=request.headers(),
                )
            self._producer.flush(PATIENCE_S)

    def stop(self) -> None:
        """Answer no more."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        self._consumer.close()


AROUND: dict[str, Callable[[Servers, str, int], Around]] = {"asking": Service, "replies": Answerer}
"""By kind of application: what it needs, given broker, prefix and seed."""
