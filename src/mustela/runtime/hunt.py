"""Finds the record that kills its worker, by bisection, and leaves it out if so configured.

A function that crashes its process, or uses up all memory, leaves no exception. Parts of the epoch
are run again without a commit: the shortest prefix that still kills a worker ends with the record.
That record must kill a worker on its own, or where another record in its place does not, and the
epoch must survive with none of its records; otherwise the cause is a different one, and smaller
epochs, which commit what comes before, continue the search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final, NamedTuple

from mustela.api.handlers import ErrorContext, Handler, Handling
from mustela.errors import DataError, MustelaError
from mustela.model import Headers, Record, TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.plan.handling import Asked
from mustela.plan.letters import letter_headers
from mustela.plan.ranges import LeftOut
from mustela.runtime.engine import EpochJobError, EpochOutput

__all__ = ["Hunt", "NamedRecord", "Probe", "RecordKilledWorkerError", "record_of"]

Probe = Callable[[EpochOrder], "EpochOutput | MustelaError"]
"""Runs an epoch without committing it, and returns its output or its error."""

_DEATHS: Final = 2
"""How many deaths in a row start a search: a single one may have any cause."""
_LEFT_OUT_MAX: Final = 100
"""How many records may be left out before a commit: with more, records are not the cause."""


class RecordKilledWorkerError(DataError):
    """A record kills the worker process that handles it.

    ``fields`` holds ``step`` (or None), ``topic``, ``partition``, ``offset`` and ``key`` (bytes).
    """

    code = "RECORD_KILLED_WORKER"


class NamedRecord(NamedTuple):
    """A record of a source that an error names.

    Attributes:
        partition: Its topic and partition.
        offset: Its offset.
        step: The step that failed on it, or its topic.
    """

    partition: TopicPartition
    offset: int
    step: str


def record_of(error: MustelaError) -> NamedRecord | None:
    """Return the record that an error names, if it names one.

    Example:
        >>> error = DataError("no", fields={"topic": "in", "partition": 1, "offset": 7})
        >>> record_of(error)
        NamedRecord(partition=TopicPartition(topic='in', partition=1), offset=7, step='in')
        >>> record_of(DataError("no")) is None
        True
    """
    fields = error.fields
    topic, partition, offset = (fields.get(name) for name in ("topic", "partition", "offset"))
    if topic is None or partition is None or offset is None:
        return None
    return NamedRecord(TopicPartition(topic, partition), offset, fields.get("step") or topic)


class Hunt:
    """Searches for records that kill workers, and remembers those that are left out.

    Args:
        handler: What happens to such a record: the processing handler.
        topics: The plan's topics.
        say: Called with reports of the search and of what is left out.
    """

    def __init__(
        self,
        handler: Handler,
        topics: Callable[[], Sequence[str]],
        say: Callable[[str], None],
    ) -> None:
        self._handler = handler
        self._topics = topics
        self._say = say
        self._deaths = 0
        self._found: list[tuple[TopicPartition, LeftOut]] = []

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The records that epochs skip, with the topic indices of the running plan."""
        topics = list(self._topics())
        return tuple(
            span._replace(topic_index=topics.index(place.topic))
            for place, span in self._found
            if place.topic in topics
        )

    @property
    def has_room(self) -> bool:
        """Whether one more record can be left out before the next commit."""
        return len(self._found) < _LEFT_OUT_MAX

    def leave_out(self, record: NamedRecord, why: str) -> None:
        """Have epochs pass over a record, as a handler says; it is counted at its step.

        Args:
            record: The record.
            why: What it did.
        """
        place, offset, step = record
        counted = f"failed_records:{step}"
        self._found.append((place, LeftOut(-1, place.partition, offset, offset, None, counted)))
        self._say(f"skipping offset {offset} of {place.topic}-{place.partition}: {why}")

    def committed(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note a committed epoch: records before its end are no longer tracked."""
        self._deaths = 0
        self._found = [
            (place, span) for place, span in self._found if span.last >= next_offsets.get(place, 0)
        ]

    def is_on(self, error: MustelaError) -> bool:
        """Note why a job failed; return whether to search for a record."""
        died = isinstance(error, EpochJobError) and error.suspect
        self._deaths = self._deaths + 1 if died else 0
        return self._deaths >= _DEATHS and self.has_room

    def find(self, order: EpochOrder, probe: Probe) -> bool:
        """Search an epoch for the record that kills its worker; return whether it is left out.

        Args:
            order: The epoch whose worker died.
            probe: Runs a part of it.

        Raises:
            RecordKilledWorkerError: If there is one, and the handler is ``fail``.
        """
        parts = _Parts(order)
        if not parts.total:
            return False
        self._say(f"searching for the record that kills workers, among {parts.total} offsets")

        def death(*kept: tuple[int, int]) -> EpochJobError | None:
            spans = (*self.left_out, *parts.but(*kept))
            made = probe(replace(order, left_out=spans))
            if isinstance(made, EpochOutput):
                made.close()
            return made if isinstance(made, EpochJobError) else None

        low, high = 0, parts.total
        while high - low > 1:
            middle = (low + high) // 2
            if death((0, middle)) is None:
                low = middle
            else:
                high = middle
        died = _blamed(high - 1, parts.total, death)
        return died is not None and self._judge(order, parts, high - 1, died, probe)

    def _judge(
        self, order: EpochOrder, parts: _Parts, position: int, death: EpochJobError, probe: Probe
    ) -> bool:
        """Check that the epoch survives without the record, and apply the handler to it."""
        index, partition, offset = parts.at(position)
        place = TopicPartition(self._topics()[index], partition)
        step = death.fields.get("step")
        text = f"a record of topic {place.topic!r} kills the worker that handles it"
        headers = _headers(step, text, place, offset)
        mark = LeftOut(index, partition, offset, offset, headers)
        made = probe(replace(order, left_out=(mark, *self.left_out, *parts.but())))
        if not isinstance(made, EpochOutput):
            return False
        key = _key_of(made, headers)
        made.close()
        error = RecordKilledWorkerError(
            text,
            evidence={
                "topic": place.topic,
                "partition": partition,
                "offset": offset,
                "key": _show(key),
                **death.evidence,
            },
            why="every run of an epoch with this record lost its worker, and no run without it did",
            fix="make the function raise instead of ending its process, or skip such records: "
            "processing_handler: continue, or dead_letter",
            fields={
                "step": step,
                "topic": place.topic,
                "partition": partition,
                "offset": offset,
                "key": key,
            },
        )
        word = self._word(error, place, offset, key)
        if word == "fail":
            raise error
        buried = headers if word == "dead_letter" else None
        counted = f"failed_records:{step or place.topic}"
        self._found.append((place, mark._replace(headers=buried, counted=counted)))
        self._deaths = 0
        self._say(f"skipping offset {offset} of {place.topic}-{partition}: it kills its worker")
        return True

    def _word(
        self, error: RecordKilledWorkerError, place: TopicPartition, offset: int, key: bytes | None
    ) -> str:
        """Return the handler's answer; it gets the record's place and key, not its value."""
        if not isinstance(self._handler, Handling):
            return self._handler
        asked = Asked(self._handler, str(error.fields["step"] or place.topic), None)
        context = ErrorContext(
            kind="processing",
            step=str(error.fields["step"] or ""),
            topic=place.topic,
            partition=place.partition,
            offset=offset,
            source_raw_key=key,
        )
        answer = asked.answer(error, Record(key, None), context, repeats=False, pause=None)
        if answer == "instead":
            raise asked.refused(asked.records, "the record that kills its worker has no other")
        return answer


def _blamed(
    last: int, total: int, death: Callable[..., EpochJobError | None]
) -> EpochJobError | None:
    """Return the death of a prefix if its last record is to blame, or None.

    The record kills a worker on its own; or, after the earlier records of its key, it does while as
    many records with another one in its place do not. Both are tried twice: once may be chance.
    """
    own, other = ((last, last + 1),), ()
    if death(*own) is None:
        if last + 1 < total:
            own, other = ((0, last + 1),), ((0, last), (last + 1, last + 2))
        else:
            own, other = ((0, max(last - 1, 0)), (last, last + 1)), ((0, last),)
        if death(*own) is None:
            return None
    return None if other and death(*other) is not None else death(*own)


class _Parts:
    """The offsets of an epoch as one sequence of positions.

    Args:
        order: The epoch.
    """

    def __init__(self, order: EpochOrder) -> None:
        ranges = sorted(part[:4] for ranges in order.ranges for part in ranges)
        self._ranges = [part for part in ranges if part[2] < part[3]]
        sizes = [end - start for _, _, start, end in self._ranges]
        self._ends = list(accumulate(sizes))
        self.total = sum(sizes)

    def at(self, position: int) -> tuple[int, int, int]:
        """Return topic, partition and offset of a position."""
        index = bisect_right(self._ends, position)
        topic, partition, _, end = self._ranges[index]
        return topic, partition, end - (self._ends[index] - position)

    def but(self, *kept: tuple[int, int]) -> list[LeftOut]:
        """Return all positions except some ranges, given in order as (first, stop) pairs."""
        spans: list[LeftOut] = []
        for (topic, partition, start, end), after in zip(self._ranges, self._ends, strict=True):
            begin, here = after - (end - start), start
            for first, stop in kept:
                low = min(max(first - begin, 0), end - start) + start
                high = min(max(stop - begin, 0), end - start) + start
                if low >= high:
                    continue
                if here < low:
                    spans.append(LeftOut(topic, partition, here, low - 1))
                here = high
            if here < end:
                spans.append(LeftOut(topic, partition, here, end - 1))
        return spans


def _headers(step: str | None, text: str, place: TopicPartition, offset: int) -> Headers:
    facts: dict[str, object] = {
        "code": RecordKilledWorkerError.code,
        "class": "WorkerDied",
        "text": text,
        "topic": place.topic,
        "partition": place.partition,
        "offset": offset,
    }
    if step:
        facts = {"step": step, **facts}
    return letter_headers(facts)


def _key_of(output: EpochOutput, headers: Headers) -> bytes | None:
    """Return the key of the dead letter with these headers."""
    for columns in output.dead_letters:
        for key, own in zip(columns.keys, columns.headers or (), strict=False):
            if tuple(own[-len(headers) :]) == headers:
                return key
    return None


def _show(key: bytes | None) -> str:
    """Return a key as text if possible, shortened to a useful length."""
    if key is None:
        return "none"
    try:
        text = repr(key.decode())
    except UnicodeDecodeError:
        text = repr(key)
    return text if len(text) <= 80 else f"{text[:80]}…"
