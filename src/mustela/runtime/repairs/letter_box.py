"""Dead letters of an application: read, replayed in transactions, dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from mustela.clock import Clock
from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.deleting import delete_records
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.topic_checks import TopicSpec
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.errors import UsageError
from mustela.faultpoints import reach
from mustela.plan.dead_letter import (
    REPLAYS,
    Letter,
    LetterFilter,
    decode_done,
    done_key,
    encode_done,
    replays_topic,
)
from mustela.plan.ranges import RawChunk

__all__ = ["Done", "LetterBox", "NoDeadLettersError", "Refused"]

BATCH: Final = 500
"""How many letters one transaction replays, at most."""
_TIMEOUT_S: Final = 15.0


class NoDeadLettersError(UsageError):
    """The application has no dead-letter topic."""

    code = "NO_DEAD_LETTERS"


@dataclass(slots=True)
class Refused:
    """Letters that cannot be replayed, and why.

    Attributes:
        reasons: The places by the reason.
    """

    reasons: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def note(self, letter: Letter, why: str) -> None:
        """Note one."""
        self.reasons.setdefault(why, []).append(letter.place)


@dataclass(frozen=True, slots=True)
class Done:
    """What was done with a letter.

    Attributes:
        what: ``replayed`` or ``dropped``.
        at_ms: When.
        topic: Where the record went; empty where it was dropped.
    """

    what: str
    at_ms: int
    topic: str = ""


class LetterBox:
    """The dead letters of an application.

    A letter is done with when the topic of replays says so. That row and the replayed record are
    in one transaction, of a producer that fences every other replay of the application: a record
    is replayed exactly once, wherever a replay is killed, and however often it is run.

    Args:
        settings: Name the application, its dead-letter topic and the brokers.
        clock: Says when something was done, and waits.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.topic = settings.dead_letter_topic
        self._marks = replays_topic(self.topic)
        self._admin = KafkaAdmin(client_properties(settings, "admin"), timeout=_TIMEOUT_S)
        self._reader = RangeReader(client_properties(settings, "consumer"))
        self._done: dict[tuple[int, int], Done] = {}
        self._gone: list[bytes] = []

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._admin.close()

    def letters(self, wanted: LetterFilter, *, done: bool = False) -> Iterator[Letter]:
        """Yield letters, partition by partition, the oldest first.

        Args:
            wanted: Which.
            done: Whether to yield those too that are done with.

        Raises:
            NoDeadLettersError: If there is no topic of dead letters.
        """
        self._read_marks()
        for letter in self._all():
            place = letter.partition, letter.offset
            if (done or place not in self._done) and wanted.fits(letter):
                yield self._whole(letter)

    def done_with(self, letter: Letter) -> Done | None:
        """Return what was done with a letter; None if it is pending."""
        return self._done.get((letter.partition, letter.offset))

    def replay(
        self,
        wanted: LetterFilter,
        refused: Refused,
        *,
        to: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
    ) -> Iterator[list[tuple[Letter, str]]]:
        """Send the records of letters back; yield each transaction's, with their topics.

        Args:
            wanted: Which letters.
            refused: Takes those that cannot be replayed.
            to: A topic for all; by default each goes where it was read from, or was to be written.
            rate: Records a second, at most.
            limit: Records in all, at most.
        """
        with self._sink() as sink:  # whoever replays too is fenced before the marks are read
            found = self._sendable(self.letters(wanted), to, refused)
            chosen = islice(found, limit) if limit is not None else found
            size = BATCH if rate is None else max(1, min(BATCH, int(rate)))
            known: dict[str, int] = {}
            while batch := list(islice(chosen, size)):
                began = self._clock.monotonic()
                self._send(sink, batch, known)
                yield batch
                if rate is not None:
                    spent = self._clock.monotonic() - began
                    self._clock.sleep(max(0.0, len(batch) / rate - spent))

    def sendable(
        self, wanted: LetterFilter, refused: Refused, to: str | None = None
    ) -> Iterator[tuple[Letter, str]]:
        """Yield what `replay` would send, and where."""
        return self._sendable(self.letters(wanted), to, refused)

    def drop(self, wanted: LetterFilter) -> tuple[int, Mapping[int, int]]:
        """Mark letters as dropped, and delete those before the first pending one.

        Returns:
            How many were marked, and the first offset that is left in each partition of which
            letters were deleted.
        """
        count = 0
        with self._sink() as sink:
            chosen = self.letters(wanted)
            while batch := list(islice(chosen, BATCH)):
                self._mark(sink, [(letter, "") for letter in batch], "dropped")
                count += len(batch)
        with self._sink() as sink:  # opened again, so that the marks can be read
            return count, self._delete(sink)

    def _delete(self, sink: TransactionalSink) -> dict[int, int]:
        """Delete the letters before the first one that is pending, of each partition."""
        places = self._places()
        ends, starts = self._admin.end_offsets(places), self._admin.earliest_offsets(places)
        first = {place.partition: end for place, end in ends.items()}
        for letter in self.letters(LetterFilter()):
            first[letter.partition] = min(first[letter.partition], letter.offset)
        before = {place.partition: start for place, start in starts.items()}
        cut = {part: offset for part, offset in first.items() if offset > before.get(part, 0)}
        if cut:
            delete_records(client_properties(self._settings, "admin"), self.topic, cut)
            self._read_marks()
        if self._gone:
            sink.begin()
            sink.produce_columns(self._marks, self._gone, [None] * len(self._gone))
            sink.flush()
            sink.commit()
        return cut

    def _send(
        self, sink: TransactionalSink, batch: Sequence[tuple[Letter, str]], known: dict[str, int]
    ) -> None:
        """Send records and their marks in one transaction."""
        for topic in {topic for _, topic in batch} - known.keys():
            known[topic] = self._admin.partitions(topic)
        sink.begin()
        sink.produce_columns(
            [topic for _, topic in batch],
            [letter.key for letter, _ in batch],
            [letter.value for letter, _ in batch],
            [letter.timestamp for letter, _ in batch],
            [(*one.own_headers, (REPLAYS, str(one.replays + 1).encode())) for one, _ in batch],
            [_partition(letter, topic, known[topic]) for letter, topic in batch],
        )
        reach("half-produced")
        self._produce_marks(sink, batch, "replayed")
        sink.flush()
        reach("flushed")
        sink.commit()
        reach("committed")

    def _mark(
        self, sink: TransactionalSink, batch: Sequence[tuple[Letter, str]], what: str
    ) -> None:
        sink.begin()
        self._produce_marks(sink, batch, what)
        sink.flush()
        sink.commit()

    def _produce_marks(
        self, sink: TransactionalSink, batch: Sequence[tuple[Letter, str]], what: str
    ) -> None:
        now, topic_id = self._clock.now_ms(), self._topic_id()
        keys = [done_key(topic_id, letter.partition, letter.offset) for letter, _ in batch]
        values = [encode_done(what, now, topic) for _, topic in batch]
        sink.produce_columns(self._marks, keys, values)

    def _sendable(
        self, letters: Iterable[Letter], to: str | None, refused: Refused
    ) -> Iterator[tuple[Letter, str]]:
        for letter in letters:
            why = letter.why_not(elsewhere=to is not None)
            if why is None:
                yield letter, to or letter.source[0]
            else:
                refused.note(letter, why)

    def _sink(self) -> _OpenSink:
        self._topic_id()
        settings = self._settings
        self._admin.create(
            [
                TopicSpec(
                    name=self._marks,
                    partitions=1,
                    replication_factor=settings.replication_factor,
                    config={"cleanup.policy": "compact"},
                    application_id=settings.application_id,
                )
            ]
        )
        return _OpenSink(settings)

    def _whole(self, letter: Letter) -> Letter:
        """Return a letter with its record as it was read, if that is still in its topic."""
        topic, partition = letter.source
        offset = letter.fact("offset")
        if not letter.is_made or partition is None or not offset.isdigit():
            return letter
        there = self._admin.describe([topic]).get(topic)
        if there is None or partition >= there.partitions:
            return letter
        place, at = (topic, partition), int(offset)
        starts, ends = self._admin.earliest_offsets([place]), self._admin.end_offsets([place])
        if not next(iter(starts.values())) <= at < next(iter(ends.values())):
            return letter
        for chunk in self._reader.read(topic, partition, at, at + 1):
            for record in _letters_of(chunk, partition):
                if record.offset == at:
                    return letter.with_record(record)
        return letter

    def _topic_id(self) -> str:
        found = self._admin.describe([self.topic]).get(self.topic)
        if found is None:
            what = f"there is no topic of dead letters, {self.topic!r}"
            raise NoDeadLettersError(
                what,
                why="it is made when an application starts that may write dead letters",
                fix="let a handler say dead_letter, or name the topic: set dead_letter_topic in "
                "mustela.yaml, or pass MODULE:APP in place of an application id",
                fields={"topic": self.topic},
            )
        return found.topic_id

    def _places(self) -> list[tuple[str, int]]:
        return [(self.topic, part) for part in range(self._admin.partitions(self.topic))]

    def _all(self) -> Iterator[Letter]:
        places = self._places()
        starts, ends = self._admin.earliest_offsets(places), self._admin.end_offsets(places)
        for place in sorted(places):
            at = next(one for one in ends if (one.topic, one.partition) == place)
            if starts[at] >= ends[at]:
                continue
            for chunk in self._reader.read(*place, starts[at], ends[at]):
                yield from _letters_of(chunk, place[1])

    def _read_marks(self) -> None:
        """Read which letters are done with."""
        topic_id = self._topic_id()
        self._done, self._gone = {}, []
        if self._marks not in self._admin.describe([self._marks]):
            return
        ((place, end),) = self._admin.end_offsets([(self._marks, 0)]).items()
        start = self._admin.earliest_offsets([(self._marks, 0)])[place]
        starts = {
            at.partition: of for at, of in self._admin.earliest_offsets(self._places()).items()
        }
        rows: dict[bytes, bytes | None] = {}
        if start < end:
            for chunk in self._reader.read(self._marks, 0, start, end):
                rows |= {key: row for key, row in zip(chunk.keys, chunk.values, strict=True) if key}
        for key, row in rows.items():
            if row is None:
                continue
            (its_topic, partition, offset), told = decode_done(key, row)
            if its_topic != topic_id or offset < starts.get(partition, 0):
                self._gone.append(key)
            else:
                done = Done(str(told["done"]), int(told["at"]), str(told.get("to", "")))
                self._done[partition, offset] = done


class _OpenSink:
    """The producer of replays while it is used.

    Args:
        settings: Name the application and the brokers.
    """

    def __init__(self, settings: Settings) -> None:
        name = f"{settings.application_id}-replays"
        self._sink = TransactionalSink(client_properties(settings, "producer"), name)

    def __enter__(self) -> TransactionalSink:
        """Open it: an older one is fenced, and what it left open is aborted."""
        self._sink.open()
        return self._sink

    def __exit__(self, *_error: object) -> None:
        """Close it; a transaction that is open is aborted by the next one."""
        self._sink.close()


def _letters_of(chunk: RawChunk, partition: int) -> Iterator[Letter]:
    headers: Any = chunk.headers or [()] * len(chunk.offsets)
    for row, offset in enumerate(chunk.offsets):
        yield Letter(
            partition=partition,
            offset=offset,
            timestamp=chunk.timestamps[row],
            key=chunk.keys[row],
            value=chunk.values[row],
            headers=tuple(headers[row]),
        )


def _partition(letter: Letter, topic: str, partitions: int) -> int | None:
    """Return the partition of a record that goes back where it was read; None to choose by key."""
    source, partition = letter.source
    if source != topic or partition is None or partition >= partitions:
        return None
    return partition
