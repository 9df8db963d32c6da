"""Whether a log still is what was read of it: leader epochs (KIP-320).

An offset alone does not say which record it means: a log that lost its end and has grown past it
again has others there. The leader epoch in which a record was written does: the broker says where
the records of an epoch end, and where that is before an offset that was read, the log is another
one from there on. The client asks that only for a position that it is sent to with a leader epoch,
and tells by an error, or by reading on there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter, sleep
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from mustela.connectors.kafka.calls import close_aside
from mustela.connectors.kafka.client import ClientErrors, consumer_client, servers_of
from mustela.connectors.kafka.errors import ErrorKind, ReadTimedOut, error_of, fault, kind_of
from mustela.model import TopicPartition as Place

__all__ = ["LogPosition", "kept_ends"]

ASKED_MAX = 200
_WAIT_S = 0.1
_PAUSE_S = 0.005
_PROPERTIES = {
    # What is read is thrown away: as little of it as there can be.
    "isolation.level": "read_uncommitted",
    "queued.min.messages": 1,
    "max.partition.fetch.bytes": 1 << 10,
}
_DOING = "compare logs with what was read of them"


class LogPosition(NamedTuple):
    """An offset, and a leader epoch in which the log reached it.

    Attributes:
        offset: The offset.
        leader_epoch: The leader epoch, or -1 if it is not known.
    """

    offset: int
    leader_epoch: int = -1


def kept_ends(
    properties: Mapping[str, Any],
    read: Mapping[Place, LogPosition],
    *,
    timeout: float,
) -> dict[Place, int]:
    """Return which logs are not what was read of them, and up to where they still are.

    Args:
        properties: Client properties.
        read: Up to where partitions were read; with leader epochs.
        timeout: Seconds for each question.

    Returns:
        For each partition whose log lost records before its position, the offset up to which it
        is as it was read.

    Raises:
        BrokerUnavailable: If no broker answers.
        ReadTimedOut: If they answer other questions only.
    """
    kept: dict[Place, int] = {}
    places = [Place(*place) for place in read]
    for first in range(0, len(places), ASKED_MAX):
        some = {place: read[place] for place in places[first : first + ASKED_MAX]}
        with _Asker(properties, timeout) as asker:
            heard = asker.ask({place: at.offset for place, at in some.items()}, some)
        suspects = {place: at for place, at in some.items() if heard[place] is None}
        if suspects:
            kept.update(_ends_of(properties, suspects, timeout))
    return kept


def _ends_of(
    properties: Mapping[str, Any], read: Mapping[Place, LogPosition], timeout: float
) -> dict[Place, int]:
    """Return up to where logs are what was read, of those that do not hold a position any more.

    With a reset policy the client goes on by itself where the log begins to be another one. Where
    retention deleted what was read last, the log did not lose anything else.
    """
    with _Asker(properties, timeout, reset="earliest") as asker:
        firsts = asker.firsts(read)
        heard = asker.ask(firsts, read)
    return {
        place: min(found, read[place].offset)
        for place, found in heard.items()
        if found is not None and firsts[place] <= read[place].offset
    }


class _Asker:
    """A consumer that is sent to positions, and hears whether logs hold them.

    Args:
        properties: Client properties.
        timeout: Seconds for all that is asked.
        reset: What the client does at a position that a log does not hold: ``error``, or
            ``earliest``, with which it goes on at the last one that the log does hold.
    """

    def __init__(
        self, properties: Mapping[str, Any], timeout: float, *, reset: str = "error"
    ) -> None:
        self._servers = servers_of(properties)
        self._timeout = timeout
        self._errors = ClientErrors()
        overrides = {**_PROPERTIES, "auto.offset.reset": reset}
        self._consumer = consumer_client(properties, overrides, self._errors)
        self._started = perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        close_aside(self._consumer)
        if isinstance(error, KafkaException):
            raise fault(error, _DOING, servers=self._servers) from error

    def firsts(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return where logs begin."""
        found: dict[Place, int] = {}
        for place in places:
            where = TopicPartition(*place)
            found[place] = self._consumer.get_watermark_offsets(where, timeout=self._timeout)[0]
        return found

    def ask(
        self, begin: Mapping[Place, int], read: Mapping[Place, LogPosition]
    ) -> dict[Place, int | None]:
        """Return the offset that comes first from each partition, None for an error.

        Args:
            begin: Where the client is before it is sent to positions. What it hears there it
                passes over.
            read: The positions.
        """
        for topic in {place.topic for place in read}:
            self._consumer.list_topics(topic, timeout=self._timeout)
        self._consumer.incremental_assign([TopicPartition(*p, at) for p, at in begin.items()])
        for place, at in read.items():
            self._seek(TopicPartition(*place, at.offset, leader_epoch=at.leader_epoch))
        heard: dict[Place, int | None] = {}
        while len(heard) < len(read):
            messages = self._consumer.consume(ASKED_MAX, _WAIT_S)
            for message in messages:
                place = Place(message.topic() or "", message.partition() or 0)
                if place not in heard and _says_something(message):
                    lost = _kind_of(message) is ErrorKind.OUT_OF_RANGE
                    heard[place] = None if lost else message.offset()
            if not messages:
                self._check()
        self._errors.heard()
        return heard

    def _seek(self, where: TopicPartition) -> None:
        while True:
            try:
                self._consumer.seek(where)
            except KafkaException as raised:
                if error_of(raised).code() != KafkaError._STATE:  # pyright: ignore[reportPrivateUsage]
                    raise
                self._check()  # it has not begun yet with what it was assigned
                sleep(_PAUSE_S)
            else:
                return

    def _check(self) -> None:
        """Raise if it takes too long."""
        waited = perf_counter() - self._started
        self._errors.raise_refused(_DOING, self._servers)
        if waited >= self._timeout:
            raise self._errors.why(_DOING, self._servers, waited) or ReadTimedOut(
                f"could not {_DOING}: nothing came for {waited:.0f} s",
                evidence={"servers": self._servers},
                fix="check the broker's log and load; the request is retried",
            )


def _kind_of(message: Message) -> ErrorKind | None:
    error = message.error()
    return None if error is None else kind_of(error)


def _says_something(message: Message) -> bool:
    """Whether a message tells of the log: a record, its end, or an error that will not pass."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
        return True
    if kind_of(error) is ErrorKind.OUT_OF_RANGE:
        return True
    if kind_of(error) in (ErrorKind.RETRYABLE, ErrorKind.BROKER_GONE, ErrorKind.TOPIC_GONE):
        return False  # the client asks again by itself
    raise KafkaException(error)
