"""The driver's side of a transaction against brokers that answer as they are told to."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.errors import (
    PermissionRefused,
    TransactionAborted,
    TransactionFenced,
    TransactionUnknown,
)
from mustela.connectors.kafka.writers import cluster
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.wire import NO_TAGS, Answer, Api, compact_string
from mustela.errors import InvariantError

LAST_EPOCH = 32_767
FENCED, CONCURRENT, NOT_COORDINATOR = 90, 51, 16
AT_COORDINATOR = b"\0" * 4 + b"\0\0" + b"\1" + b"\0\0\0\7" + compact_string("host") + b"\0\0\0\1\0"


class Broker:
    """Knows versions 1 or 2 of transactions; gives each request the next answer of its kind."""

    def __init__(self, version: int = 2) -> None:
        self.features = {"transaction.version": version}
        self.answers: dict[str, deque[bytes | KafkaException]] = {}
        self.asked: list[tuple[str, bytes]] = []
        self.connected = 0

    def connect(self, *_: Any) -> Broker:
        self.connected += 1
        return self

    def knows(self, _api: Api) -> bool:
        return True

    def is_lost(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def call(self, api: Api, body: bytes, _sent: object = None) -> Answer:
        if api.name == "FindCoordinator":
            return Answer(AT_COORDINATOR)
        self.asked.append((api.name, body))
        answer = self.answers[api.name].popleft()
        if isinstance(answer, KafkaException):
            raise answer
        return Answer(answer)

    def will(self, name: str, *answers: bytes | KafkaException) -> None:
        self.answers.setdefault(name, deque()).extend(answers)

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


def identity(code: int = 0, producer: int = -1, epoch: int = -1) -> bytes:
    """The answer to InitProducerId and, in version 2, to EndTxn."""
    return struct.pack(">ihqh", 0, code, producer, epoch) + NO_TAGS


def ended(code: int = 0) -> bytes:
    """The answer to EndTxn in version 1."""
    return struct.pack(">ih", 0, code) + NO_TAGS


def lost() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TRANSPORT, "connection reset"))


@pytest.fixture
def open_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TransactionCoordinator]:
    """Opens a coordinator whose first identity is producer 5 with the given epoch."""

    def make(broker: Broker, epoch: int = 3, **options: Any) -> TransactionCoordinator:
        monkeypatch.setattr(cluster, "Connection", broker.connect)
        broker.will("InitProducerId", identity(0, 5, epoch))
        made = TransactionCoordinator({"bootstrap.servers": "host:1"}, "id", **options)
        made.open()
        broker.asked.clear()
        return made

    return make


Open = Callable[..., TransactionCoordinator]


def test_in_version_2_the_end_gives_the_next_ticket(open_with: Open) -> None:
    """One request less for each transaction."""
    broker = Broker()
    coordinator = open_with(broker)
    tickets = [coordinator.begin()]
    for epoch in (4, 5):
        broker.will("EndTxn", identity(0, 5, epoch))
        coordinator.commit()
        tickets.append(coordinator.begin())
    assert [(one.producer_id, one.producer_epoch) for one in tickets] == [(5, 3), (5, 4), (5, 5)]
    assert all(ticket.by_writing for ticket in tickets)
    assert broker.names() == ["EndTxn", "EndTxn"]


def test_in_version_1_the_next_ticket_is_asked_for_as_who_one_is(open_with: Open) -> None:
    """Asking as nobody would fence a successor."""
    broker = Broker(version=1)
    coordinator = open_with(broker)
    first = coordinator.begin()
    broker.will("EndTxn", ended())
    broker.will("InitProducerId", identity(0, 5, 4))
    coordinator.commit()
    second = coordinator.begin()
    assert (first.producer_epoch, second.producer_epoch) == (3, 4)
    assert not second.by_writing
    assert broker.names() == ["EndTxn", "InitProducerId"]
    assert broker.asked[1][1].endswith(struct.pack(">qh", 5, 3) + NO_TAGS)


@pytest.mark.parametrize("version", [1, 2])
def test_when_the_epochs_have_run_out_the_producer_has_another_id(
    open_with: Open, version: int
) -> None:
    """An epoch is a short. A ticket of the old id is no ticket of the new one."""
    broker = Broker(version)
    coordinator = open_with(broker, epoch=LAST_EPOCH - 1)
    last = coordinator.begin()
    fresh = identity(0, 6, 0)
    broker.will("EndTxn", fresh if version == 2 else ended())
    broker.will("InitProducerId", fresh)
    coordinator.commit()
    ticket = coordinator.begin()
    assert (ticket.producer_id, ticket.producer_epoch) == (6, 0)
    assert ticket != last


def test_a_commit_without_an_answer_is_unknown_and_not_asked_again(open_with: Open) -> None:
    """It may have happened: the epoch record decides."""
    broker = Broker()
    coordinator = open_with(broker)
    coordinator.begin()
    broker.will("EndTxn", lost())
    with pytest.raises(TransactionUnknown):
        coordinator.commit()
    assert broker.names() == ["EndTxn"]
    with pytest.raises(InvariantError, match="not open"):
        coordinator.begin()


@pytest.mark.parametrize(
    ("code", "expected"),
    [(FENCED, TransactionFenced), (47, TransactionFenced), (48, TransactionAborted)],
)
def test_a_commit_that_is_refused_says_what_is_known(
    open_with: Open, code: int, expected: type[Exception]
) -> None:
    """Another producer took over; or the coordinator has aborted by itself."""
    broker = Broker()
    coordinator = open_with(broker)
    coordinator.begin()
    broker.will("EndTxn", identity(code))
    with pytest.raises(expected):
        coordinator.commit()


def test_what_cannot_be_served_now_is_asked_again(open_with: Open) -> None:
    """A transaction that is ending, a coordinator that has moved, a connection that broke."""
    broker = Broker(version=1)
    coordinator = open_with(broker)
    coordinator.begin()
    broker.will("EndTxn", ended(CONCURRENT), ended(NOT_COORDINATOR), ended())
    coordinator.commit()
    broker.will("InitProducerId", lost(), identity(CONCURRENT), identity(0, 5, 4))
    assert coordinator.begin().producer_epoch == 4
    assert broker.names() == ["EndTxn"] * 3 + ["InitProducerId"] * 3
    assert broker.connected == 2


def test_it_is_asked_again_only_for_a_while(open_with: Open) -> None:
    """Then the error is that of the last answer."""
    broker = Broker()
    coordinator = open_with(broker, commit_timeout=0.0)
    coordinator.begin()
    broker.will("EndTxn", *[identity(CONCURRENT)] * 2)
    with pytest.raises(TransactionUnknown, match="CONCURRENT_TRANSACTIONS"):
        coordinator.commit()


def test_a_replaced_driver_gets_no_ticket(open_with: Open) -> None:
    """It learns of it when it begins."""
    broker = Broker(version=1)
    coordinator = open_with(broker)
    coordinator.begin()
    broker.will("EndTxn", ended())
    broker.will("InitProducerId", identity(FENCED))
    coordinator.commit()
    with pytest.raises(TransactionFenced):
        coordinator.begin()


def test_a_refusal_to_open_is_no_transaction_that_failed(
    open_with: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may lack the right to the id."""
    broker = Broker()
    coordinator = open_with(broker)
    broker.will("InitProducerId", identity(53))
    with pytest.raises(PermissionRefused):
        coordinator.open()
    with pytest.raises(InvariantError):
        coordinator.begin()
