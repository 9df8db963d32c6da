"""Output rows that the broker would refuse, found before they are sent.

A row that is refused ends the whole transaction, and the epoch would have to be produced again to
find out which row it was. What a topic's settings say can be seen beforehand, by columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mustela.clock import Clock
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import RefusedRow
from mustela.errors import EnvironmentFault, Origin
from mustela.runtime.engine import RowColumns

__all__ = ["RowChecks", "RowLimits", "TopicFacts"]

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
        compressed: Whether rows are compressed, so that their size on the way is not known.
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
        codecs = {str(producer.get(f"compression.{name}", "none")) for name in ("type", "codec")}
        return cls(
            client_bytes=int(producer.get("message.max.bytes", _CLIENT_BYTES_MAX)),
            compressed=codecs != {"none"},
            header_bytes=len(header),
            creates=creates,
            refuses=refuses,
        )


def _number(text: str | None) -> int:
    try:
        return _NEVER if text is None else int(text)
    except ValueError:
        return _NEVER


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
        admin: KafkaAdmin,
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

    def refused(self, tag: object, columns: RowColumns) -> list[RefusedRow]:
        """Return the rows that the broker would refuse, each with the reason.

        Args:
            tag: Stands in the result.
            columns: The rows.

        Raises:
            MissingTopicError: If a topic does not exist, is not to be made, and rows without a
                topic end the application.
        """
        topics = columns.topics
        names = {topics} if isinstance(topics, str) else set(topics)
        try:
            unknown = names - self._facts.keys()
            if unknown:
                self._learn(unknown)
            found = self._look(tag, columns, names)
            if found:  # a setting may have changed since it was asked for
                self._learn(names)
                found = self._look(tag, columns, names)
        except EnvironmentFault:
            return []  # nobody answers, which the transaction will find out by itself
        return found

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
            configs = {}  # not everybody may read settings
        for topic in known:
            self._facts[topic] = TopicFacts.of(configs.get(topic, {}))

    def _look(self, tag: object, columns: RowColumns, names: set[str]) -> list[RefusedRow]:
        limits, topics = self._limits, columns.topics
        facts = [self._facts[name] for name in names if name in self._facts]
        largest = self._largest(facts)
        now = self._clock.now_ms()
        times = columns.timestamps or ()
        key, value = _longest(columns.keys), _longest(columns.values)
        ahead = now + min((fact.ahead_ms for fact in facts), default=_NEVER)
        behind = now - min((fact.behind_ms for fact in facts), default=_NEVER)
        suspicious = (
            len(facts) < len(names)
            or key + value > limits.client_bytes
            or self._size(key, value, _longest_headers(columns)) > largest
            or max(times, default=0) > ahead
            or min(times, default=now) < behind
            or (any(fact.compacted for fact in facts) and None in columns.keys)
        )
        if not suspicious:
            return []
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


def _longest(column: Sequence[Any]) -> int:
    try:
        return max(map(len, column), default=0)
    except TypeError:  # None has no length; to look for it first takes twice the time
        return max((len(item) for item in column if item), default=0)


def _longest_headers(columns: RowColumns) -> int:
    return max((_size_of(own) for own in columns.headers), default=0) if columns.headers else 0


def _size_of(headers: Iterable[tuple[str, bytes | None]]) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)
