"""Questions about topics, offsets and groups, and orders to make and delete them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter, sleep
from typing import Any, TypeVar, cast

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    NewTopic as _NewTopic,  # pyright: ignore[reportPrivateImportUsage]
)

from mustela.connectors.kafka.calls import await_coordinator, close_aside
from mustela.connectors.kafka.client import (
    ClientErrors,
    admin_client,
    consumer_client,
    servers_of,
    unavailable,
)
from mustela.connectors.kafka.errors import (
    BrokerUnavailable,
    ErrorKind,
    KafkaRetryable,
    SourceGone,
    error_of,
    fault,
    kind_of,
)
from mustela.connectors.kafka.leaks import topic_id_of
from mustela.connectors.kafka.metadata import UNKNOWN_PAUSE_S, Doubt
from mustela.connectors.kafka.topic_checks import (
    INTERNAL,
    InternalTopicError,
    MissingTopicError,
    TopicDescription,
    TopicSpec,
    check_config,
    check_partitions,
    missing_topic,
    weak_topics,
)
from mustela.connectors.kafka.topic_settings import TopicSettings
from mustela.connectors.kafka.truncation import LogPosition, kept_ends
from mustela.errors import Origin, UsageError
from mustela.model import TopicPartition as Place

__all__ = [
    "GroupInUseError",
    "InternalTopicError",
    "KafkaAdmin",
    "MissingTopicError",
    "TopicDescription",
    "TopicSpec",
]

T = TypeVar("T")

LISTENED_MAX = 100
ASKED_MAX = 250
"""Partitions of one question for offsets: the client's time for it grows with their square."""
UNDECIDED_S = 3.0
"""So long a commit of group offsets may take before those from before it are told."""
LATEST = -1
EARLIEST = -2


class GroupInUseError(UsageError):
    """The group's offsets cannot be changed, because it has members."""

    code = "GROUP_IN_USE"


class KafkaAdmin(TopicSettings):
    """Asks and orders; its clients stay connected. Used by one thread at a time.

    Args:
        properties: Client properties.
        timeout: Seconds for each request.
    """

    def __init__(self, properties: Mapping[str, Any], *, timeout: float = 30.0) -> None:
        self._properties = dict(properties)
        self._servers = servers_of(properties)
        self._timeout = timeout
        self._errors = ClientErrors()
        self._admin_client: AdminClient | None = None
        self._consumer_client: Consumer | None = None
        self._uncommitted_client: Consumer | None = None
        self._partitions: dict[str, int] = {}

    def close(self) -> None:
        """Close the connections."""
        consumers = (self._consumer_client, self._uncommitted_client)
        self._consumer_client = self._uncommitted_client = self._admin_client = None
        for consumer in filter(None, consumers):
            consumer.close()

    def cluster_id(self) -> str:
        """Return the id of the cluster.

        Raises:
            BrokerUnavailable: If no broker answers.
        """
        return str(self._cluster("ask for the cluster id").cluster_id)

    def topics(self) -> list[str]:
        """Return the names of all topics but Kafka's own."""
        found = self._call("list topics", lambda: self._admin.list_topics(timeout=self._timeout))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Describe those of ``topics`` that exist."""
        names = sorted(set(topics))
        if not names:
            return {}
        futures = self._call(
            "describe topics",
            lambda: self._admin.describe_topics(
                TopicCollection(names), request_timeout=self._timeout
            ),
        )
        found: dict[str, TopicDescription] = {}
        for name, future in futures.items():
            try:
                topic = future.result(self._timeout)
            except (KafkaException, TimeoutError) as raised:
                if _is_missing(raised):
                    self._partitions.pop(name, None)
                    continue
                raise self._fault(raised, f"describe topic '{name}'") from raised
            found[name] = TopicDescription(
                name=name,
                topic_id=topic_id_of(topic),
                partitions=len(topic.partitions),
                replication_factor=len(topic.partitions[0].replicas),
            )
            self._partitions[name] = found[name].partitions
        return found

    def partitions(self, topic: str, *, refresh: bool = False) -> int:
        """Return a topic's number of partitions, from memory unless ``refresh`` is set.

        Raises:
            MissingTopicError: If there is no such topic.
        """
        if refresh or topic not in self._partitions:
            self.describe([topic])
        count = self._partitions.get(topic)
        if count is None:
            raise self.missing_topic(topic)
        return count

    def missing_topic(
        self, topic: str, *, use: str = "", at: Origin | None = None
    ) -> MissingTopicError:
        """Make the error that a topic does not exist, with the name that may have been meant.

        Args:
            topic: The name that was given.
            use: ``source``, ``sink``, ``global table`` or ``internal``, where known.
            at: The user's line.
        """
        return missing_topic(topic, self.topics(), use=use, at=at, servers=self._servers)

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics and wait until they can be used; those that exist already stay.

        Raises:
            EnvironmentFault: If the broker refuses.
        """
        if not specs:
            return
        wanted = [
            _NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=spec.replication_factor,
                config={**spec.config, **spec.created_with},
            )
            for spec in specs
        ]
        futures = self._call(
            "create topics",
            lambda: self._admin.create_topics(
                wanted, operation_timeout=self._timeout, request_timeout=self._timeout
            ),
        )
        for name, future in futures.items():
            try:
                future.result(self._timeout)
            except (KafkaException, TimeoutError) as raised:
                if _code(raised) == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue
                raise self._fault(raised, f"create topic '{name}'") from raised
        self._await({spec.name for spec in specs}, there=True)

    def check_internal(self, specs: Sequence[TopicSpec]) -> None:
        """Check that internal topics, which exist, are what the application needs.

        Partitions must be the same, and the cleanup policy and the kind of timestamp, where a spec
        names them. Other settings are the operator's to change.

        Raises:
            InternalTopicError: If one differs.
        """
        names = [spec.name for spec in specs]
        described = self.describe(names)
        for spec in specs:
            topic = described.get(spec.name)
            if topic is None:
                raise self.missing_topic(spec.name, use=INTERNAL)
            check_partitions(spec, topic)
        configs = self.configs(names)  # what cannot be changed is told before what can
        for spec in specs:
            check_config(spec, configs[spec.name])

    def weak_topics(self, topics: Iterable[str]) -> list[str]:
        """Say which of these topics can lose what was committed when a broker fails."""
        described = self.describe(topics)
        brokers = len(self._cluster("ask for the brokers").nodes)
        return weak_topics(described, self.configs(described), brokers)

    def delete(self, topics: Iterable[str]) -> None:
        """Delete topics and wait until they are gone; those that do not exist are no error."""
        names = sorted(set(topics))
        if not names:
            return
        futures = self._call(
            "delete topics",
            lambda: self._admin.delete_topics(
                names, operation_timeout=self._timeout, request_timeout=self._timeout
            ),
        )
        for name, future in futures.items():
            self._partitions.pop(name, None)
            try:
                future.result(self._timeout)
            except (KafkaException, TimeoutError) as raised:
                if not _is_missing(raised):
                    raise self._fault(raised, f"delete topic '{name}'") from raised
        self._await(set(names), there=False)

    def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[Place, int]:
        """Return the last stable offset of each partition: up to there a reader sees everything.

        One request goes to each broker, for all its partitions at once.

        Raises:
            BrokerUnavailable: If no broker answers.
            MissingTopicError: If a topic does not exist.
        """
        return self._offsets(dict.fromkeys(places, LATEST))

    def log_ends(self, places: Iterable[tuple[str, int]]) -> dict[Place, LogPosition]:
        """Return the same with the leader epoch of each partition, -1 where it is not told."""
        return {
            Place(answer.topic, answer.partition): LogPosition(answer.offset, _leader_of(answer))
            for answer in self._ask_offsets(dict.fromkeys(places, LATEST), self._consumer)
        }

    def kept_ends(self, read: Mapping[Place, LogPosition]) -> dict[Place, int]:
        """Return up to where logs are what was read of them, where they lost some of that.

        Args:
            read: Up to where partitions were read, and in which leader epoch.
        """
        if not read:
            return {}
        return kept_ends(self._properties, read, timeout=self._timeout)

    def high_watermarks(self, places: Iterable[tuple[str, int]]) -> dict[Place, int]:
        """Return the offset behind the last record of each partition, committed or not.

        It lies beyond the last stable offset while a transaction is open.
        """
        return self._offsets(dict.fromkeys(places, LATEST), self._uncommitted)

    def earliest_offsets(self, places: Iterable[tuple[str, int]]) -> dict[Place, int]:
        """Return the first offset that each partition still holds."""
        return self._offsets(dict.fromkeys(places, EARLIEST))

    def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[Place, int | None]:
        """Return the first offset whose timestamp is at or after the given one.

        Args:
            times: Milliseconds by topic and partition.

        Returns:
            An offset, or None where all records are older.
        """
        found = self._offsets(times)
        return {place: None if offset < 0 else offset for place, offset in found.items()}

    def group_offsets(self, group: str) -> dict[Place, int]:
        """Return the offsets that a consumer group has committed; none is no error.

        A consumer asks, for every partition there is: the admin client's own question kills the
        process where the group's coordinator is not there yet (confluentinc/librdkafka issue 5040).

        A commit that is being decided is waited for, but not for long: that of a process that was
        killed stays open until a newer one fences it, and what was committed before it is told.
        """
        listed = self._call("list topics", lambda: self._admin.list_topics(timeout=self._timeout))
        places = [
            TopicPartition(name, partition)
            for name, topic in listed.topics.items()
            if not name.startswith("__")
            for partition in topic.partitions
        ]
        if not places:
            return {}
        try:
            return self._committed(group, places, min(self._timeout, UNDECIDED_S), decided=True)
        except BrokerUnavailable:
            return self._committed(group, places, self._timeout, decided=False)

    def _committed(
        self, group: str, places: list[TopicPartition], seconds: float, *, decided: bool
    ) -> dict[Place, int]:
        doing = f"ask for the offsets of group '{group}'"
        own = {"group.id": group, "isolation.level": f"read_{'' if decided else 'un'}committed"}
        consumer = consumer_client(self._properties, own, self._errors)
        try:
            await_coordinator(consumer, places[0], seconds)
            found = self._call(doing, lambda: consumer.committed(places, timeout=seconds))
        except KafkaException as raised:
            raise self._fault(raised, doing) from raised
        finally:
            close_aside(consumer)
        return {Place(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def set_group_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the offsets of a group without members.

        Raises:
            GroupInUseError: If the group has members.
        """
        if not offsets:
            return
        doing = f"set the offsets of group '{group}'"
        places = [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        futures = self._call(
            doing,
            lambda: self._admin.alter_consumer_group_offsets(
                request, request_timeout=self._timeout
            ),
        )
        self._group_result(futures[group], group, doing)

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets; a group that does not exist is no error.

        Raises:
            GroupInUseError: If the group has members.
        """
        doing = f"delete group '{group}'"
        futures = self._call(
            doing,
            lambda: self._admin.delete_consumer_groups([group], request_timeout=self._timeout),
        )
        self._group_result(futures[group], group, doing)

    def _cluster(self, doing: str) -> Any:
        return self._wait(
            doing, lambda: self._admin.describe_cluster(request_timeout=self._timeout)
        )

    @property
    def _admin(self) -> Any:
        """The admin client; its stub says nothing of what its futures hold."""
        if self._admin_client is None:
            self._admin_client = admin_client(self._properties, self._errors)
        return self._admin_client

    @property
    def _consumer(self) -> Consumer:
        if self._consumer_client is None:
            self._consumer_client = consumer_client(self._properties, None, self._errors)
        return self._consumer_client

    @property
    def _uncommitted(self) -> Consumer:
        """A consumer to which what nobody has committed yet counts too."""
        if self._uncommitted_client is None:
            self._uncommitted_client = consumer_client(
                self._properties, {"isolation.level": "read_uncommitted"}, self._errors
            )
        return self._uncommitted_client

    def _offsets(
        self, times: Mapping[tuple[str, int], int], consumer: Consumer | None = None
    ) -> dict[Place, int]:
        """Ask for offsets by time; -1 and -2 stand for the end and the beginning.

        The consumer's call takes a fifth of the time of the admin client's ``list_offsets``, and
        keeps to one request for each broker, which ``get_watermark_offsets`` does not.
        """
        answers = self._ask_offsets(times, consumer or self._consumer)
        return {Place(answer.topic, answer.partition): answer.offset for answer in answers}

    def _ask_offsets(
        self, times: Mapping[tuple[str, int], int], asker: Consumer
    ) -> list[TopicPartition]:
        asked = [TopicPartition(topic, part, time) for (topic, part), time in times.items()]
        found: list[TopicPartition] = []
        for first in range(0, len(asked), ASKED_MAX):
            found += self._ask_some(asked[first : first + ASKED_MAX], asker)
        return found

    def _ask_some(self, asked: list[TopicPartition], asker: Consumer) -> list[TopicPartition]:
        doubt = Doubt()
        while True:
            try:
                found = asker.offsets_for_times(asked, timeout=self._timeout)
                _raise_first(found)
            except KafkaException as raised:
                unknown = kind_of(raised) is ErrorKind.TOPIC_GONE
                if not unknown and not _passes_soon(raised):
                    raise self._fault(raised, _of_places("ask for offsets", asked)) from raised
                # It was made a moment ago: the other client, or its leader, does not know it yet.
                gone = self._gone([(at.topic, at.partition) for at in asked]) if unknown else None
                if doubt.is_over(agreed=gone is not None):
                    doing = _of_places("ask for offsets", asked)
                    lags = _lagging(raised, doing, self._servers) if unknown else None
                    raise (gone or lags or self._fault(raised, doing)) from raised
                if unknown:
                    self._ask_again(asker, {at.topic for at in asked})
            else:
                self._errors.heard()
                return found

    def _await(self, names: set[str], *, there: bool) -> None:
        """Wait until brokers answer as if an order that they have taken were carried out."""
        deadline = perf_counter() + self._timeout
        while True:
            known = names & self.describe(names).keys()
            if known == (names if there else set()):
                return
            if perf_counter() >= deadline:
                doing = f"see topics {', '.join(sorted(names))} {'made' if there else 'deleted'}"
                raise unavailable(doing, self._servers, self._timeout, self._errors)
            sleep(UNKNOWN_PAUSE_S)

    def _gone(self, places: Iterable[tuple[str, int]]) -> UsageError | SourceGone | None:
        """Return the error for the first topic or partition that the brokers do not know."""
        known = self.describe({topic for topic, _ in places})
        for topic, partition in places:
            if topic not in known:
                return self.missing_topic(topic)
            if partition >= known[topic].partitions:
                what = f"topic '{topic}' has no partition {partition}"
                return SourceGone(
                    what,
                    evidence={"partitions": known[topic].partitions},
                    why="Kafka never removes partitions: the topic was deleted and recreated",
                    fix="start again: the start reports what happened to the topic",
                    fields={"topic": topic, "partition": partition},
                )
        return None

    def _ask_again(self, asker: Consumer, topics: Iterable[str]) -> None:
        """Have the client that asks for offsets learn anew which partitions there are."""
        for topic in topics:
            with suppress(KafkaException):
                asker.list_topics(topic, timeout=self._timeout)

    def _group_result(self, future: Future[Any], group: str, doing: str) -> None:
        try:
            result = future.result(self._timeout)
        except (KafkaException, TimeoutError) as raised:
            code = _code(raised)
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return
            if code in (KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID):
                raise _group_in_use(group, doing) from raised
            raise self._fault(raised, doing) from raised
        for place in cast("list[TopicPartition]", getattr(result, "topic_partitions", None) or []):
            if place.error is None:
                continue
            if place.error.code() in (KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID):
                raise _group_in_use(group, doing)
            raise self._fault(place.error, doing)

    def _wait(self, doing: str, ask: Callable[[], Future[T]]) -> T:
        future = self._call(doing, ask)
        try:
            return future.result(self._timeout)
        except (KafkaException, TimeoutError) as raised:
            raise self._fault(raised, doing) from raised

    def _call(self, doing: str, ask: Callable[[], T]) -> T:
        try:
            answer = ask()
        except KafkaException as raised:
            raise self._fault(raised, doing) from raised
        self._errors.heard()
        return answer

    def _listen(self) -> None:
        """Let the clients say what went wrong: they keep it until they are asked."""
        for _ in range(LISTENED_MAX):
            heard = 0 if self._admin_client is None else self._admin.poll(0)
            if not heard:
                break

    def _fault(self, raised: KafkaException | KafkaError | TimeoutError, doing: str) -> Exception:
        """Say why a request failed: when no broker answers, the client only says "timed out"."""
        self._listen()
        if self._errors.refused is not None:
            return fault(self._errors.refused, doing, servers=self._servers)
        late = isinstance(raised, TimeoutError) or (
            error_of(raised).code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # pyright: ignore[reportPrivateUsage]
        )
        if late:
            return unavailable(doing, self._servers, self._timeout, self._errors)
        assert not isinstance(raised, TimeoutError), "handled above"
        return fault(raised, doing, servers=self._servers)


def _leader_of(answer: TopicPartition) -> int:
    epoch = cast("int | None", answer.leader_epoch)  # the client's stub says nothing of None
    return -1 if epoch is None else epoch


def _raise_first(answers: Iterable[TopicPartition]) -> None:
    """Raise the first error among answers as the client would."""
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)


def _of_places(doing: str, places: Sequence[TopicPartition]) -> str:
    first = places[0]
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{doing} of {first.topic}-{first.partition}{more}"


def _code(raised: KafkaException | TimeoutError) -> int | None:
    return None if isinstance(raised, TimeoutError) else error_of(raised).code()


def _passes_soon(raised: KafkaException | KafkaError) -> bool:
    """Tell a leader that is being chosen from a broker that does not answer in time."""
    late = (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)  # pyright: ignore[reportPrivateUsage]
    return kind_of(raised) is ErrorKind.RETRYABLE and error_of(raised).code() not in late


def _lagging(raised: KafkaException, doing: str, servers: str) -> KafkaRetryable:
    """Make the error of a client that does not find what the brokers say is there."""
    error = error_of(raised)
    return KafkaRetryable(
        f"could not {doing}: the client cannot find a partition that the brokers have",
        evidence={"kafka": f"{error.name()}: {error.str()}", "servers": servers},
        fix="check the brokers' logs and load; the request is retried",
        fields={"kafka": error.name()},
    )


def _is_missing(raised: KafkaException | TimeoutError) -> bool:
    return not isinstance(raised, TimeoutError) and kind_of(raised) is ErrorKind.TOPIC_GONE


def _group_in_use(group: str, doing: str) -> GroupInUseError:
    return GroupInUseError(
        f"could not {doing}: it has members",
        why="a consumer is subscribed with this group id; Mustela never subscribes",
        fix=f"stop the consumers of group '{group}', or give the application another id",
        fields={"group": group},
    )
