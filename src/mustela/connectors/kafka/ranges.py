"""Reading ranges of offsets, in the Python workers that Spark keeps."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mustela.connectors.kafka.calls import close_aside
from mustela.connectors.kafka.client import ClientErrors, consumer_client, servers_of
from mustela.connectors.kafka.errors import (
    ErrorKind,
    OffsetOutOfRange,
    ReadTimedOut,
    SourceGone,
    fault,
    kind_of,
)
from mustela.connectors.kafka.metadata import METADATA_LAG_S
from mustela.connectors.kafka.small_fetch import (
    TOGETHER_RECORDS_MAX,
    Fetched,
    OffsetRange,
    SmallFetch,
    append_bare,
    append_full,
)
from mustela.errors import InvariantError, MustelaError
from mustela.plan.ranges import RawChunk

__all__ = ["RangeReader"]

CONSUMERS_MAX = 8
AHEAD_MAX = 2
QUERY_TIMEOUT_S = 10.0
CHUNK_BYTES_MAX = 16 << 20
CHUNK_RECORDS = 20_000
BITE = 1_000
"""Messages taken from the client at once: few enough to be in the processor's cache when they are
looked at again, which takes a tenth off the time of a read."""
_WAIT_S = 0.1


class _Client(NamedTuple):
    """A consumer, what it said went wrong, and how many partitions it knows of each topic."""

    consumer: Consumer
    errors: ClientErrors
    topics: dict[str, int]

    def hear_of(self, topic: str, partition: int, timeout: float) -> None:
        """Ask for a topic's leaders once; an assignment alone would find them a second later.

        A partition that was added since is asked for again: the client takes it for an error
        otherwise.
        """
        if partition >= self.topics.get(topic, 0):
            self.topics[topic] = self.partitions_of(topic, timeout)

    def partitions_of(self, topic: str, timeout: float) -> int:
        """Ask how many partitions a topic has; 0 if it is not there."""
        found = self.consumer.list_topics(topic, timeout=timeout).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)


class RangeReader:
    """Reads ranges of offsets, read_committed.

    Its consumers stay connected between reads, but fetch only while a read is under way: an idle
    worker costs nothing. Reads one after the other share one consumer, whatever the partition;
    reads that are interleaved take one each.

    Args:
        properties: Client properties.
        read_timeout: Seconds without progress after which a read fails.
        isolation: ``read_committed``, or ``read_uncommitted`` to look at everything.
    """

    _by_process: ClassVar[dict[tuple[object, ...], RangeReader]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        properties: Mapping[str, Any],
        *,
        read_timeout: float = 30.0,
        isolation: str = "read_committed",
    ) -> None:
        self._properties = dict(properties)
        self._servers = servers_of(properties)
        self._read_timeout = read_timeout
        self._isolation = isolation
        self._free: list[_Client] = []
        self._made = 0
        self._ahead: dict[tuple[str, int, int], _Client] = {}
        self._together: dict[OffsetRange, Fetched] = {}

    @classmethod
    def shared(cls, properties: Mapping[str, Any], *, read_timeout: float = 30.0) -> RangeReader:
        """Return this process's reader for these properties; make it at the first call.

        A process that was forked does not use its parent's: a client does not survive a fork.
        """
        key = (os.getpid(), read_timeout, *sorted((k, str(v)) for k, v in properties.items()))
        with cls._lock:
            reader = cls._by_process.get(key)
            if reader is None:
                reader = cls._by_process[key] = cls(properties, read_timeout=read_timeout)
            return reader

    def ahead(self, topic: str, partition: int, start: int) -> None:
        """Begin to fetch what a later read will ask for, while the caller does other work.

        Two ranges are fetched ahead at a time, each as far as the client's queue holds: the one
        that is read next, and the one behind it. It is a hint: a failure shows when the range is
        read. What nobody reads is fetched until `drop_ahead`, or until others take its place.
        """
        place = (topic, partition, start)
        if place in self._ahead or not (self._free or self._made < CONSUMERS_MAX):
            return
        if len(self._ahead) == AHEAD_MAX:
            self._drop(next(iter(self._ahead)))
        client = self._take()
        where = TopicPartition(*place)
        try:
            self._point(client, where)
        except KafkaException:
            self._give_back(client, where, sound=False)
        else:
            self._ahead[place] = client

    def gather(self, wanted: Sequence[OffsetRange]) -> None:
        """Fetch what later reads will ask for, if it is little: one question for all partitions.

        A read of its own takes the broker's answer, and the client some work, for each partition.
        It is a hint: what does not come as usual is left to the reads, which say what it is.

        Args:
            wanted: Ranges; of each partition the first one is fetched, for just that read.
        """
        first = {(one.topic, one.partition): one for one in reversed(wanted) if one.start < one.end}
        few = sum(one.end - one.start for one in wanted) <= TOGETHER_RECORDS_MAX
        if len(first) < 2 or not few or not (self._free or self._made < CONSUMERS_MAX):
            return
        places = [TopicPartition(*one[:3]) for one in first.values()]
        client = self._take()
        fetch = SmallFetch(client.consumer, first.values())
        try:
            for where in places:
                client.hear_of(where.topic, where.partition, self._read_timeout)
            client.consumer.incremental_assign(places)
            fetch.run()
        except KafkaException:
            fetch.is_sound = False
        finally:
            self._give_back(client, *places, sound=fetch.is_sound)
        self._together = fetch.found

    def drop_ahead(self) -> None:
        """Fetch no more of what was begun ahead and not read."""
        self._together.clear()
        for place in list(self._ahead):
            self._drop(place)

    def _drop(self, place: tuple[str, int, int]) -> None:
        self._give_back(self._ahead.pop(place), TopicPartition(*place), sound=True)

    def _point(self, client: _Client, where: TopicPartition) -> None:
        client.hear_of(where.topic, where.partition, self._read_timeout)
        client.consumer.incremental_assign([where])

    def read(  # noqa: PLR0913 - what is read, and how
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_batch: int = CHUNK_RECORDS,
        bare: bool = False,
        goes_on: bool = False,
    ) -> Generator[RawChunk]:
        """Read the committed records with offsets from ``start`` up to, not including, ``end``.

        Args:
            topic: The topic.
            partition: Its partition.
            start: First offset.
            end: Offset behind the last one.
            max_batch: Records in a chunk, at most.
            bare: Leave out timestamps and headers, which takes a fifth off the time.
            goes_on: The caller will read on from ``end``, or call `drop_ahead`: the consumer stays
                where it is, with what it has fetched of that already.

        Raises:
            OffsetOutOfRange: If the log begins behind ``start`` or ends before ``end``.
            SourceGone: If there is no such topic or partition.
            ReadTimedOut: If nothing arrived for the read timeout.
            BrokerUnavailable: The same, and no broker answers.
        """
        had = self._together.pop(OffsetRange(topic, partition, start, end), None)
        if had is not None:
            if had.chunk.offsets:
                yield had.chunk
            start = had.position
        if start >= end:
            return
        where = TopicPartition(topic, partition, start)
        pointed = self._ahead.pop((topic, partition, start), None)
        client = pointed or self._take()
        sound = stays = False
        try:
            if pointed is None:
                self._point(client, where)
            add = append_bare if bare else append_full
            position = yield from self._chunks(client, where, end, max_batch, add)
            sound = True
            stays = goes_on and position == end
        except GeneratorExit:
            sound = True
            raise
        except KafkaException as raised:
            doing = f"read {topic}-{partition} at {start}"
            raise fault(raised, doing, servers=self._servers) from raised
        finally:
            if stays:
                self._ahead[topic, partition, end] = client
            else:
                self._give_back(client, where, sound=sound)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return what the consumers that no read uses have told of themselves since last asked."""
        found: dict[str, dict[str, float]] = {}
        for client in (*self._free, *self._ahead.values()):
            found.update(client.errors.take_statistics())
        return found

    def close(self) -> None:
        """Close the consumers that no read uses."""
        self.drop_ahead()
        while self._free:
            self._free.pop().consumer.close()
            self._made -= 1

    def _take(self) -> _Client:
        if self._free:
            return self._free.pop()
        if self._made >= CONSUMERS_MAX:
            what = f"more than {CONSUMERS_MAX} reads of one reader are under way"
            raise InvariantError(what)
        errors = ClientErrors()
        consumer = consumer_client(self._properties, {"isolation.level": self._isolation}, errors)
        self._made += 1
        return _Client(consumer, errors, {})

    def _give_back(self, client: _Client, *places: TopicPartition, sound: bool) -> None:
        if sound:
            try:
                client.consumer.incremental_unassign(list(places))
            except KafkaException:
                sound = False
        if sound:
            self._free.append(client)
        else:
            # What the client holds after an error is not known well enough to read on with it.
            self._made -= 1
            close_aside(client.consumer)

    def _chunks(
        self,
        client: _Client,
        where: TopicPartition,
        end: int,
        max_batch: int,
        append: Callable[[RawChunk, Sequence[Message]], None],
    ) -> Generator[RawChunk, None, int]:
        """Yield the chunks; return the offset at which the client goes on."""
        consumer, errors, _ = client
        consume = consumer.consume
        position = where.offset
        chunk = RawChunk()
        size = 0
        heard = perf_counter()
        missing = _Missing(client, where)
        while position < end:
            # A drain never asks for more than the range can hold, and never waits: a wait for a
            # number of records would not end where control records or aborted data take offsets.
            messages = consume(min(max_batch - len(chunk), end - position, BITE), 0)
            if not messages:
                messages = consume(1, _WAIT_S)
            if not messages:
                missing.look()
                self._check_progress(missing, where, (position, end), heard)
                continue
            reached = position
            if any(map(Message.error, messages)):
                messages, reached = self._without_events(missing, messages, where, position)
            if messages or reached >= 0:
                heard = perf_counter()
                missing.found()
            if messages:
                _check_order(messages, position)
                append(chunk, messages)
                position = chunk.offsets[-1] + 1
                size += sum(map(len, messages))
            position = max(position, reached)
            if position >= end:
                chunk.cut(bisect_left(chunk.offsets, end))
            if chunk.offsets and (
                position >= end or len(chunk) >= max_batch or size >= CHUNK_BYTES_MAX
            ):
                yield chunk
                chunk, size, heard = RawChunk(), 0, perf_counter()
        errors.heard()
        return position

    def _without_events(
        self,
        missing: _Missing,
        messages: Sequence[Message],
        where: TopicPartition,
        position: int,
    ) -> tuple[list[Message], int]:
        """Take events out of a batch; return the rest, and how far an end of partition reaches."""
        records: list[Message] = []
        reached = -1
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
                # It stands behind all data, so nothing before its offset is still to come.
                reached = max(reached, message.offset() or -1)
            elif kind_of(error) in (ErrorKind.RETRYABLE, ErrorKind.BROKER_GONE):
                continue  # the client tries again by itself; the read timeout bounds that
            elif kind_of(error) is ErrorKind.TOPIC_GONE:
                missing.note()
            else:
                raise self._named(missing.client.consumer, error, where, position)
        return records, reached

    def _out_of_range(
        self, where: TopicPartition, offset: int, bounds: tuple[int, int] | None
    ) -> OffsetOutOfRange:
        earliest, end = bounds or (None, None)
        return OffsetOutOfRange(
            f"topic '{where.topic}' partition {where.partition} does not hold offset {offset}",
            evidence={"earliest": earliest, "end": end},
            why="the broker's retention deleted the records before they were read, "
            "or the topic was deleted and created again",
            fix="keep records longer (retention.ms, retention.bytes of the topic); to start over "
            "with what is there: mustela reset {self._properties.get('group.id', 'APP')}",
            fields={
                "topic": where.topic,
                "partition": where.partition,
                "offset": offset,
                "earliest": earliest,
                "end": end,
            },
        )

    def _named(
        self, consumer: Consumer, error: KafkaError, where: TopicPartition, position: int
    ) -> MustelaError:
        kind = kind_of(error)
        if kind is ErrorKind.OUT_OF_RANGE:
            return self._out_of_range(where, position, _bounds(consumer, where))
        doing = f"read {where.topic}-{where.partition} at {position}"
        return fault(error, doing, servers=self._servers)

    def _check_progress(
        self,
        missing: _Missing,
        where: TopicPartition,
        span: tuple[int, int],
        heard: float,
    ) -> None:
        """Do nothing while there is time; then find out why nothing comes, and raise that."""
        consumer, errors, _ = missing.client
        waited = perf_counter() - heard
        doing = f"read {where.topic}-{where.partition} from {span[0]} to {span[1]}"
        errors.raise_refused(doing, self._servers)
        if waited < self._read_timeout:
            return
        down = errors.why(doing, self._servers, waited)
        if down is not None:
            raise down
        bounds = _bounds(consumer, where)
        if bounds is not None and (span[0] < bounds[0] or span[1] > bounds[1]):
            raise self._out_of_range(where, span[0], bounds)
        if not _is_there(consumer, where):
            missing.note()  # one answer is not enough
            return
        what = f"could not {doing}: nothing came for {waited:.0f} s"
        raise ReadTimedOut(
            what,
            evidence={"servers": self._servers, "log": bounds or "did not answer"},
            fix="check the broker's log and load; the read is retried",
        )


class _Missing:
    """A partition that the client says is not there, while the driver has seen it.

    Args:
        client: The client.
        where: The partition.
    """

    def __init__(self, client: _Client, where: TopicPartition) -> None:
        self.client = client
        self._where = where
        self._is_noted = False
        self._since: float | None = None

    def note(self) -> None:
        """Note that the client says so."""
        self._is_noted = True

    def found(self) -> None:
        """Note that something came from the partition."""
        self._is_noted = False
        self._since = None

    def look(self) -> None:
        """Have the client learn anew which partitions there are, if it did not know this one.

        Raises:
            SourceGone: If the brokers it asks do not know it for too long. The time begins with
                their answer: one that has just come up is the one that lags.
        """
        if not self._is_noted:
            return
        try:
            known = self.client.partitions_of(self._where.topic, QUERY_TIMEOUT_S)
        except KafkaException:
            self._since = None
            return
        now = perf_counter()
        if known > self._where.partition:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since > METADATA_LAG_S:
            raise _gone(self._where)


def _check_order(messages: Sequence[Message], position: int) -> None:
    first = messages[0].offset()
    if first is None or first < position:
        what = f"the client went back from offset {position} to {first}"
        raise InvariantError(what)


def _bounds(consumer: Consumer, where: TopicPartition) -> tuple[int, int] | None:
    """Ask for the earliest offset and the end; None if no broker answers."""
    try:
        return consumer.get_watermark_offsets(where, timeout=QUERY_TIMEOUT_S)
    except KafkaException:
        return None


def _is_there(consumer: Consumer, where: TopicPartition) -> bool:
    try:
        found = consumer.list_topics(where.topic, timeout=QUERY_TIMEOUT_S).topics
    except KafkaException:
        return True
    topic = found.get(where.topic)
    return topic is not None and topic.error is None and where.partition in topic.partitions


def _gone(where: TopicPartition) -> SourceGone:
    return SourceGone(
        f"there is no partition {where.partition} of topic '{where.topic}'",
        why="it was there when the epoch was planned",
        fix="start the application again: the start reports what happened to the topic",
        fields={"topic": where.topic, "partition": where.partition},
    )
