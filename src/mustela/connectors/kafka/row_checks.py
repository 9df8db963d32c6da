"""Output rows that the broker would refuse, found before they are sent.

A row that is refused ends the whole transaction, and the epoch would have to be produced again to
find out which row it was. What a topic's settings say can be seen beforehand, by columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mustela.clock import Clock
from mustela.connectors.kafka.admin import TopicSpec
from mustela.connectors.kafka.columns import RowColumns
from mustela.connectors.kafka.compression import UNASKED, codec_of
from mustela.connectors.kafka.errors import RefusedRow
from mustela.errors import EnvironmentFault, Origin
from mustela.plan.epoch import RowOutline

__all__ = ["RowChecks", "RowLimits", "TopicFacts", "Topics", "outline_of"]

_LEAST_OVERHEAD = 61 + 7
"""Bytes around a record that is alone in its batch, at least."""
_NEVER = 2**63 - 1
_CLIENT_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What a topic takes.

    Attributes:
        max_bytes: Size of the largest batch.
        ahead_ms: How far ahead of the broker's clock a timestamp may be.
        behind_ms: How far behind it.
        compacted: Whether each record must have a key.
    """

    max_bytes: int = _NEVER
    ahead_ms: int = _NEVER
    behind_ms: int = _NEVER
    compacted: bool = False

    @classmethod
    def of(cls, config: Mapping[str, str]) -> TopicFacts:
        """Read a topic's settings; what is not among them sets no limit.

        Example:
            >>> TopicFacts.of({"cleanup.policy": "compact,delete"}).compacted
            True
        """
        timed = config.get("message.timestamp.type", "CreateTime") == "CreateTime"
        both = config.get("message.timestamp.difference.max.ms")
        ahead = config.get("message.timestamp.after.max.ms", both) if timed else None
        behind = config.get("message.timestamp.before.max.ms", both) if timed else None
        return cls(
            max_bytes=_number(config.get("max.message.bytes")),
            ahead_ms=_number(ahead),
            behind_ms=_number(behind),
            compacted="compact" in config.get("cleanup.policy", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimits:
    """What the application's own settings say of output rows.

    Attributes:
        client_bytes: Size of the largest key with its value that the client sends.
        compressed: Whether the application asks for rows to be compressed, so that some may pass
            whose size by itself is too large. What is compressed unasked never gets larger.
        header_bytes: Size of the header that each row gets besides its own.
        creates: Whether topics that do not exist are made.
        refuses: Whether a topic that does not exist ends the application.
    """

    client_bytes: int = _CLIENT_BYTES_MAX
    compressed: bool = False
    header_bytes: int = 0
    creates: bool = False
    refuses: bool = True

    @classmethod
    def of(
        cls, producer: Mapping[str, Any], *, header: str, creates: bool, refuses: bool
    ) -> RowLimits:
        """Read them from the properties of the producer.

        Example:
            >>> properties = {"compression.type": "zstd"}
            >>> RowLimits.of(properties, header="", creates=False, refuses=True).compressed
            True
        """
        return cls(
            client_bytes=int(producer.get("message.max.bytes", _CLIENT_BYTES_MAX)),
            compressed=codec_of(producer) not in {UNASKED, "none"},
            header_bytes=len(header),
            creates=creates,
            refuses=refuses,
        )


def _number(text: str | None) -> int:
    try:
        return _NEVER if text is None else int(text)
    except ValueError:
        return _NEVER


class Topics(Protocol):
    """Knows and makes topics; `KafkaAdmin` does."""

    def describe(self, topics: Iterable[str]) -> Mapping[str, object]:
        """Describe those that exist."""
        ...

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return their settings."""
        ...

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Make topics."""
        ...

    def missing_topic(self, topic: str, *, use: str = "", at: Origin | None = None) -> Exception:
        """Make the error that one does not exist."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RowChecks:
    """Knows what topics take, and looks through rows before they are sent.

    Args:
        admin: Asks for topics and their settings; each topic once, and again before any of its
            rows is refused.
        clock: The wall clock.
        limits: The application's settings.
        partitions: Gives the number of partitions for a topic that is made.
        origin: The line of the sink whose function names topics, where there is one.
    """

    def __init__(
        self,
        admin: Topics,
        clock: Clock,
        limits: RowLimits,
        *,
        partitions: Callable[[], tuple[int, int]],
        origin: Origin | None = None,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._limits = limits
        self._partitions = partitions
        self._origin = origin
        self._facts: dict[str, TopicFacts] = {}

    def suspicious(self, outline: RowOutline) -> bool:
        """Say whether the broker may refuse one of some rows.

        Raises:
            MissingTopicError: If a topic does not exist, is not to be made, and rows without a
                topic end the application.
        """
        try:
            unknown = [name for name in outline.topics if name not in self._facts]
            if unknown:
                self._learn(unknown)
        except EnvironmentFault:
            return False  # nobody answers, which the transaction will find out by itself
        return self._exceeds(outline)

    def refused(
        self, tag: object, columns: RowColumns, outline: RowOutline | None = None
    ) -> list[RefusedRow]:
        """Return the rows that the broker would refuse, each with the reason.

        Args:
            tag: Stands in the result.
            columns: The rows.
            outline: What they are like, if that is known.

        Raises:
            MissingTopicError: As `suspicious` does.
        """
        seen = outline_of(columns) if outline is None else outline
        if not self.suspicious(seen):
            return []
        try:
            self._learn(seen.topics)  # a setting may have changed since it was asked for
        except EnvironmentFault:
            return []
        return self._look(tag, columns) if self._exceeds(seen) else []

    def batch_bytes(self, topics: str | Iterable[str]) -> int:
        """Return how large a batch may be that each of some topics takes, as far as is known."""
        names = {topics} if isinstance(topics, str) else set(topics)
        known = (self._facts[name] for name in names if name in self._facts)
        return min((facts.max_bytes for facts in known), default=_NEVER)

    def close(self) -> None:
        """Let go of the connections."""
        self._admin.close()

    def _learn(self, topics: Iterable[str]) -> None:
        wanted = sorted(topics)
        there = self._admin.describe(wanted)
        missing = [topic for topic in wanted if topic not in there]
        if missing and self._limits.creates:
            count, replicas = self._partitions()
            self._admin.create(
                [
                    TopicSpec(name=topic, partitions=count, replication_factor=replicas)
                    for topic in missing
                ]
            )
            missing = []
        if missing and self._limits.refuses:
            raise self._admin.missing_topic(missing[0], use="sink", at=self._origin)
        for topic in missing:
            self._facts.pop(topic, None)
        known = [topic for topic in wanted if topic not in missing]
        try:
            configs = self._admin.configs(known)
        except EnvironmentFault:
            configs = dict[str, Mapping[str, str]]()  # not everybody may read settings
        for topic in known:
            self._facts[topic] = TopicFacts.of(configs.get(topic, {}))

    def _exceeds(self, outline: RowOutline) -> bool:
        limits = self._limits
        facts = [self._facts[name] for name in outline.topics if name in self._facts]
        now = self._clock.now_ms()
        key, value = outline.key_bytes, outline.value_bytes
        ahead = now + min((fact.ahead_ms for fact in facts), default=_NEVER)
        behind = now - min((fact.behind_ms for fact in facts), default=_NEVER)
        return (
            len(facts) < len(outline.topics)
            or key + value > limits.client_bytes
            or self._size(key, value, outline.header_bytes) > self._largest(facts)
            or (outline.last_ms is not None and outline.last_ms > ahead)
            or (outline.first_ms is not None and outline.first_ms < behind)
            or (outline.keyless and any(fact.compacted for fact in facts))
        )

    def _look(self, tag: object, columns: RowColumns) -> list[RefusedRow]:
        topics, now = columns.topics, self._clock.now_ms()
        found: list[RefusedRow] = []
        for row in range(len(columns.values)):
            topic = topics if isinstance(topics, str) else topics[row]
            reason = self._reason(columns, row, topic, now)
            if reason is not None:
                found.append(RefusedRow(tag, row, topic, *reason))
        return found

    def _largest(self, facts: Sequence[TopicFacts]) -> int:
        if self._limits.compressed:
            return _NEVER
        return min((fact.max_bytes for fact in facts), default=_NEVER)

    def _size(self, key: int, value: int, headers: int) -> int:
        return key + value + headers + self._limits.header_bytes + _LEAST_OVERHEAD

    def _reason(
        self, columns: RowColumns, row: int, topic: str, now: int
    ) -> tuple[str, str] | None:
        facts = self._facts.get(topic)
        if facts is None:
            return "UNKNOWN_TOPIC_OR_PART", "the topic does not exist"
        key, value = columns.keys[row], columns.values[row]
        sizes = len(key or b""), len(value or b"")
        limit = self._limits.client_bytes
        if sum(sizes) > limit:
            return "MSG_SIZE_TOO_LARGE", f"{sum(sizes)} bytes; the client sends {limit} at most"
        headers = _size_of(columns.headers[row]) if columns.headers else 0
        size = self._size(*sizes, headers)
        if size > self._largest([facts]):
            told = f"{size} bytes; max.message.bytes of the topic is {facts.max_bytes}"
            return "MSG_SIZE_TOO_LARGE", told
        if columns.timestamps is not None:
            time = columns.timestamps[row]
            if time - now > facts.ahead_ms:
                told = f"timestamp {time} is {time - now} ms ahead, {facts.ahead_ms} are allowed"
                return "INVALID_TIMESTAMP", told
            if now - time > facts.behind_ms:
                told = f"timestamp {time} is {now - time} ms old, {facts.behind_ms} are allowed"
                return "INVALID_TIMESTAMP", told
        if key is None and facts.compacted:
            return "INVALID_RECORD", "a compacted topic takes no record without a key"
        return None


def outline_of(columns: RowColumns) -> RowOutline:
    """Say what rows are like, by columns.

    Example:
        >>> from mustela.connectors.kafka.columns import Columns
        >>> rows = Columns(topics="out", keys=[b"a", None], values=[b"", b"bee"], timestamps=[7, 5])
        >>> outline_of(rows)[1:]
        (1, 3, 0, 5, 7, True)
    """
    topics, times, headers = columns.topics, columns.timestamps, columns.headers
    key_bytes, keyless = _longest(columns.keys)
    return RowOutline(
        topics=(topics,) if isinstance(topics, str) else tuple(sorted(set(topics))),
        key_bytes=key_bytes,
        value_bytes=_longest(columns.values)[0],
        header_bytes=max(map(_size_of, headers), default=0) if headers else 0,
        first_ms=min(times) if times else None,
        last_ms=max(times) if times else None,
        keyless=keyless,
    )


def _longest(column: Sequence[Any]) -> tuple[int, bool]:
    """Return the size of the longest item, and whether one is None."""
    try:
        return max(map(len, column), default=0), False
    except TypeError:  # None has no length; to look for it first takes twice the time
        return max((len(item) for item in column if item), default=0), True


def _size_of(headers: Iterable[tuple[str, bytes | None]]) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)
