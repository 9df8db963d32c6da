"""What becomes of the rows of one transaction, as far as the client and the brokers tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.errors import ErrorKind, kind_of

__all__ = ["Deliveries", "Diagnosis"]

METADATA_TIMEOUT_S = 5.0
SHOWN_MAX = 10
# What an abort does to the rows that were still waiting says nothing of why it was aborted.
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why the rows of a transaction did not arrive.

    Attributes:
        evidence: Topics with what is wrong with them, for an error.
        gone: Topics that do not exist.
        internal: Those of ``gone`` that hold changelogs or epochs.
        application_id: Whose they are.
    """

    evidence: Mapping[str, str] = field(default_factory=dict[str, str])
    gone: tuple[str, ...] = ()
    internal: tuple[str, ...] = ()
    application_id: str = "APP"

    @property
    def why(self) -> str | None:
        """The rule that was broken, where it is known."""
        if not self.gone:
            return None
        return "an epoch is committed with all of its rows, or not at all"

    @property
    def fix(self) -> str | None:
        """What to do about it, where that is known."""
        if self.internal:
            return (
                "do not make internal topics by hand: clear the application with:"
                f" mustela reset {self.application_id}"
            )
        if self.gone:
            return f"create it again: mustela topics create {self.gone[0]} --partitions 6"
        return None


class Deliveries:
    """The topics of a transaction, the ends that it must learn, and the rows that failed.

    Args:
        application_id: Whose they are, for what is advised.

    Attributes:
        ends: The offset after the last tracked row of each partition, as reported.
        first_error: Why the first row failed of which there is a report.
    """

    def __init__(self, application_id: str = "APP") -> None:
        self._application_id = application_id
        self.ends: dict[tuple[str, int], int] = {}
        self._tracked: set[tuple[str, int]] = set()
        self._topics: set[str] = set()
        self._failed: Counter[tuple[str, str]] = Counter()
        self.first_error: KafkaError | None = None

    def sent(self, columns: Columns) -> None:
        """Note the topics of some rows."""
        topics = columns.topics
        self._topics.update((topics,) if isinstance(topics, str) else topics)

    def expect(self, topic: str, partition: int) -> None:
        """Note that the end of a partition must be known before the commit."""
        self._tracked.add((topic, partition))

    def note(self, error: KafkaError | None, message: Message) -> None:
        """Take the delivery report of a row."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None:
            if error.code() not in _PURGED:
                self.first_error = self.first_error or error
                self._failed[topic or "", f"{error.name()}: {error.str()}"] += 1
        elif topic is not None and partition is not None and offset is not None and offset >= 0:
            self.ends[topic, partition] = offset + 1

    def without_end(self) -> list[tuple[str, int]]:
        """Return the partitions whose end must be known and is not."""
        return sorted(self._tracked - self.ends.keys())

    def diagnose(self, producer: Producer | None) -> Diagnosis:
        """Say what is known of rows that did not arrive.

        Args:
            producer: Asks the brokers about the topics; None not to ask.
        """
        wrong = {} if producer is None else self._wrong_topics(producer)
        gone = tuple(name for name, (_, is_gone) in wrong.items() if is_gone)
        tracked = {topic for topic, _ in self._tracked}
        evidence: dict[str, str] = {}
        if self._failed:
            evidence["not delivered"] = _lines(
                f"{count} row(s) to {topic}: {text}"
                for (topic, text), count in self._failed.most_common(SHOWN_MAX)
            )
        if wrong:
            evidence["topics"] = _lines(f"{name}: {text}" for name, (text, _) in wrong.items())
        elif not self._failed and self._topics:
            evidence["topics"] = ", ".join(sorted(self._topics)[:SHOWN_MAX])
        internal = tuple(name for name in gone if name in tracked)
        return Diagnosis(evidence, gone, internal, self._application_id)

    def _wrong_topics(self, producer: Producer) -> dict[str, tuple[str, bool]]:
        """Return the topics that do not exist or have no leader, with what is wrong with them."""
        try:
            known = producer.list_topics(timeout=METADATA_TIMEOUT_S).topics
        except KafkaException:
            return {}
        wrong: dict[str, tuple[str, bool]] = {}
        for name in sorted(self._topics):
            topic = known.get(name)
            if topic is None:
                wrong[name] = ("does not exist", True)
            elif topic.error is not None:
                is_gone = kind_of(topic.error) is ErrorKind.TOPIC_GONE
                wrong[name] = (f"{topic.error.name()}: {topic.error.str()}", is_gone)
            else:
                headless = sorted(n for n, part in topic.partitions.items() if part.leader < 0)
                if headless:
                    wrong[name] = (f"partition {headless[0]} has no leader", False)
        return wrong


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(list(texts)[:SHOWN_MAX])
