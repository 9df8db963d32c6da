"""Following the ends of many logs with one consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import perf_counter
from typing import Any, NamedTuple, cast

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    TopicPartition as ClientPartition,
)

from mustela.connectors.kafka.calls import close_aside
from mustela.connectors.kafka.client import ClientErrors, consumer_client, servers_of
from mustela.connectors.kafka.errors import (
    ErrorKind,
    OffsetOutOfRange,
    ReadTimedOut,
    fault,
    kind_of,
)
from mustela.model import TopicPartition

__all__ = ["TailReader", "TailRow"]

_BITE = 1_000
_WAIT_S = 0.1
_FETCH_WAIT_MS = 100
"""How long a fetch waits at the broker for something new: the consumer has no other work."""
_BOUNDS_TIMEOUT_S = 10.0


class TailRow(NamedTuple):
    """A committed record of a log.

    Attributes:
        offset: Its offset.
        key: Its key.
        value: Its value; None for a deletion.
    """

    offset: int
    key: bytes | None
    value: bytes | None


class _Followed:
    """A log that is followed.

    Attributes:
        taken: Everything before this offset was taken.
        position: Everything before this offset has been received.
        rows: What was received and not taken.
    """

    __slots__ = ("position", "rows", "taken")

    def __init__(self, position: int) -> None:
        self.taken = self.position = position
        self.rows: deque[TailRow] = deque()


class TailReader:
    """Follows logs from known offsets, read_committed, and hands out their rows up to known ends.

    One consumer fetches all logs, so that looking at one of many costs nothing. It fetches only
    while `take` waits, and as much as the client's queue holds.

    Args:
        properties: Client properties.
        read_timeout: Seconds without progress after which `take` fails.
    """

    def __init__(self, properties: Mapping[str, Any], *, read_timeout: float = 30.0) -> None:
        self._properties = {"fetch.wait.max.ms": _FETCH_WAIT_MS, **properties}
        self._servers = servers_of(properties)
        self._read_timeout = read_timeout
        self._errors = ClientErrors()
        self._consumer: Any = None
        self._followed: dict[TopicPartition, _Followed] = {}

    def follow(self, starts: Mapping[TopicPartition, int]) -> None:
        """Follow logs from given offsets, if they are not followed from there already.

        Args:
            starts: The offset of the first record that is wanted of each; more logs may be followed
                later.
        """
        new = [place for place, start in starts.items() if not self._is_at(place, start)]
        if not new:
            return
        if self._consumer is None:
            self._consumer = consumer_client(self._properties, None, self._errors)
        known = [ClientPartition(*place) for place in new if place in self._followed]
        try:
            if known:
                self._consumer.incremental_unassign(known)
            self._consumer.incremental_assign(
                [ClientPartition(*place, starts[place]) for place in new]
            )
        except KafkaException as raised:
            self.close()
            raise fault(raised, "follow changelogs", servers=self._servers) from raised
        for place in new:
            self._followed[place] = _Followed(starts[place])

    def _is_at(self, place: TopicPartition, start: int) -> bool:
        known = self._followed.get(place)
        return known is not None and known.taken == start

    def take(self, place: TopicPartition, end: int) -> list[TailRow]:
        """Return the rows of a followed log before an offset, and go on from there next time.

        Args:
            place: The log; see `follow`.
            end: An offset that the log is known to reach.

        Raises:
            OffsetOutOfRange: If the log begins behind what is wanted.
            ReadTimedOut: If nothing comes for the read timeout.
            EnvironmentFault: If the broker does not answer.
        """
        log = self._followed[place]
        heard = perf_counter()
        try:
            while log.position < end:
                if self._poll():
                    heard = perf_counter()
                elif perf_counter() - heard > self._read_timeout:
                    raise self._timed_out(place, log.position, end)
        except KafkaException as raised:
            self.close()
            doing = f"read {place.topic}-{place.partition} at {log.position}"
            raise fault(raised, doing, servers=self._servers) from raised
        except BaseException:
            self.close()
            raise
        rows: list[TailRow] = []
        while log.rows and log.rows[0].offset < end:
            rows.append(log.rows.popleft())
        log.taken = end
        return rows

    def fresh(self, place: TopicPartition, wait_s: float = 0.0) -> list[TailRow]:
        """Return the rows of a followed log that have come; if there are none, wait for some.

        Args:
            place: The log; see `follow`.
            wait_s: How many seconds to wait for rows.

        Raises:
            OffsetOutOfRange: If the log no longer holds what comes next.
            EnvironmentFault: If the broker says that the log is gone.
        """
        log = self._followed[place]
        try:
            self._poll(0.0 if log.rows else wait_s)
        except KafkaException as raised:
            self.close()
            raise fault(raised, f"follow {place.topic}", servers=self._servers) from raised
        except BaseException:
            self.close()
            raise
        rows, log.rows = list(log.rows), deque()
        if rows:
            log.taken = rows[-1].offset + 1
        return rows

    def _poll(self, wait_s: float = _WAIT_S) -> bool:
        """Receive what has come, or wait for a moment; return whether anything came."""
        messages = self._consumer.consume(_BITE, 0)
        if not messages and wait_s:
            messages = self._consumer.consume(1, wait_s)
        for message in messages:
            place = TopicPartition(message.topic(), message.partition())
            log = self._followed.get(place)
            if log is None:
                continue  # of a log that is not followed any more
            error = message.error()
            if error is None:
                offset = cast("int", message.offset())
                log.rows.append(TailRow(offset, message.key(), message.value()))
                log.position = offset + 1
            else:
                self._take_event(place, log, message, error)
        return bool(messages)

    def _take_event(
        self, place: TopicPartition, log: _Followed, message: Message, error: KafkaError
    ) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
            log.position = max(log.position, message.offset() or 0)
            return
        kind = kind_of(error)
        if kind in (ErrorKind.RETRYABLE, ErrorKind.BROKER_GONE):
            return  # the client tries again; the read timeout limits that
        if kind is ErrorKind.OUT_OF_RANGE:
            raise self._out_of_range(place, log.position)
        raise fault(error, f"read {place.topic}-{place.partition}", servers=self._servers)

    def _out_of_range(self, place: TopicPartition, offset: int) -> OffsetOutOfRange:
        earliest, end = None, None
        try:
            bounds = self._consumer.get_watermark_offsets(
                ClientPartition(*place), timeout=_BOUNDS_TIMEOUT_S
            )
            earliest, end = bounds or (None, None)
        except KafkaException:
            pass  # no broker answers: the bounds are only for the message
        return OffsetOutOfRange(
            f"topic '{place.topic}' partition {place.partition} does not hold offset {offset}",
            evidence={"earliest": earliest, "end": end},
            why="records were deleted, or the topic was deleted and created again",
            fields={"topic": place.topic, "partition": place.partition, "earliest": earliest},
        )

    def _timed_out(self, place: TopicPartition, position: int, end: int) -> ReadTimedOut:
        doing = f"read {place.topic}-{place.partition} from {position} to {end}"
        down = self._errors.why(doing, self._servers, self._read_timeout)
        if down is not None:
            return cast("ReadTimedOut", down)
        return ReadTimedOut(
            f"could not {doing}: nothing came for {self._read_timeout:.0f} s",
            evidence={"servers": self._servers},
            fix="check the broker's log and load; the read is retried",
        )

    def close(self) -> None:
        """Follow nothing any more."""
        consumer, self._consumer = self._consumer, None
        self._followed = {}
        if consumer is not None:
            close_aside(consumer)
