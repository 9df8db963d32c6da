"""What the driver's loop needs from its environment: Kafka, a disk, clocks.

The real world implements these with `connectors.kafka` (see `kafka_world`); tests implement them
with a simulated world, in which brokers and machines fail on command. The engine is the one port in
another module, `engine`: users choose it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mustela.clock import Clock
from mustela.connectors.kafka.admin import MissingTopicError, TopicDescription, TopicSpec
from mustela.connectors.kafka.truncation import LogPosition
from mustela.errors import Origin
from mustela.model import Headers, TopicPartition
from mustela.plan.keygroups import DEFAULT_KEY_GROUPS
from mustela.plan.sealed import SealedRows
from mustela.plan.ticket import Ticket
from mustela.runtime.record.record_rows import RecordPolicy

__all__ = ["Cluster", "Disk", "EpochLog", "LocalState", "Transactions", "World"]


class Cluster(Protocol):
    """Queries for topics and offsets, and the creation of topics."""

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster."""
        ...

    def topics(self) -> list[str]:
        """Return the names of all topics but Kafka's own."""
        ...

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Describe those of ``topics`` that exist, as far as the broker that answers knows."""
        ...

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics, including the broker's defaults."""
        ...

    def configure(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Change settings of topics, by topic; all others stay."""
        ...

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics and wait until they can be used; existing ones are left alone."""
        ...

    def check_internal(self, specs: Sequence[TopicSpec]) -> None:
        """Check that existing internal topics fit the application."""
        ...

    def weak_topics(self, topics: Iterable[str]) -> list[str]:
        """Return which of these topics can lose committed records when a broker fails."""
        ...

    def missing_topic(
        self, topic: str, *, use: str = "", at: Origin | None = None
    ) -> MissingTopicError:
        """Return the error for a topic that does not exist."""
        ...

    def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition: a reader sees everything before it."""
        ...

    def log_ends(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, LogPosition]:
        """Return the same with the leader epoch of each partition, -1 if unknown."""
        ...

    def kept_ends(self, read: Mapping[TopicPartition, LogPosition]) -> dict[TopicPartition, int]:
        """Return, for logs that lost what was read, up to which offset they still hold it."""
        ...

    def high_watermarks(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the offset after each partition's last record, including open transactions."""
        ...

    def earliest_offsets(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        ...

    def offsets_for_times(
        self, times: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at or after the given one, or None."""
        ...

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return the offsets that a consumer group has committed."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Bell(Protocol):
    """Tells of new records; `RecordBell` is the real one."""

    def wait(self, ends: Mapping[TopicPartition, int], seconds: float) -> bool:
        """Wait for a record behind an end; return whether it is worth a look."""
        ...

    def hush(self) -> None:
        """Fetch nothing until the next `wait`."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Transactions(Protocol):
    """The transactional producer of the application; `TransactionalSink` is the real one."""

    @property
    def takes_sealed(self) -> bool:
        """Whether lanes may put sink rows together, all but their place in the transaction."""
        ...

    def warm(self) -> None:
        """Connect, so that a later `reopen` takes less time; nothing is fenced by that."""
        ...

    def reopen(self) -> None:
        """Open a new producer: older ones are fenced, and their open transactions end."""
        ...

    def lend(self) -> Ticket | None:
        """Begin a transaction for one attempt of an epoch; None if only the driver can write.

        It ends with that attempt: what `begin` or `lend` gives next is another one, unless `begin`
        is given the ticket.
        """
        ...

    def begin(self, ticket: Ticket | None = None) -> None:
        """Begin a transaction, or go on with the one that was lent, if its ticket is given."""
        ...

    def produce_columns(  # noqa: PLR0913 - the columns of a row
        self,
        topics: str | Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
        partitions: Sequence[int | None] | int | None = None,
        *,
        header: tuple[str, bytes] | None = None,
        tag: object = None,
        skip: Collection[int] = (),
    ) -> None:
        """Produce rows."""
        ...

    def produce_sealed(self, sealed: Sequence[SealedRows]) -> None:
        """Produce rows that lanes have put together, where `takes_sealed` says that they may."""
        ...

    def produce_tracked(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        *,
        tag: object = None,
    ) -> None:
        """Produce rows whose end offset `flush` returns; ``tag`` comes back with a refused one."""
        ...

    def send_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the group's offsets with the transaction."""
        ...

    def flush(self) -> dict[tuple[str, int], int]:
        """Wait until the broker has every row; return the end offsets of tracked partitions."""
        ...

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the end offsets of tracked partitions, as far as the broker has reported them."""
        ...

    def commit(self) -> None:
        """Commit the transaction."""
        ...

    def close(self) -> None:
        """Close the producer; an open transaction is aborted, if that is quick."""
        ...


class EpochLog(Protocol):
    """The epochs topic of the application."""

    def newest_first(self) -> Iterator[bytes]:
        """Yield the values of its committed records, the last one first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalState:
    """Whose state is kept where.

    Attributes:
        application_id: The application.
        root: The directory of state on disk.
        backend: ``disk``, or ``memory`` for tmpfs.
    """

    application_id: str
    root: Path
    backend: str


class Disk(Protocol):
    """The disk for local state, on the driver's host."""

    def choose(self, state: LocalState, say: Callable[[str], None]) -> Path:
        """Return the directory to keep state in; ``say`` is called if it differs from ``root``."""
        ...

    def remove_unclaimed(self, place: Path, application_id: str, claimed: Collection[str]) -> None:
        """Delete the directories that no stage of the application uses."""
        ...

    def release(self, place: Path) -> None:
        """Delete a directory that `choose` made on tmpfs; leave any other alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that the driver's loop uses besides the engine.

    Attributes:
        cluster: Kafka's topics and offsets.
        transactions: The transactional producer.
        epochs: The epochs topic.
        epochs_of: Returns the epochs topic of another application, for reading only.
        disk: The disk for local state.
        clock: Wall and monotonic time.
        new_id: Returns a unique text.
        crash_point: Called at named places in the protocol; see `faultpoints`.
        records: When an epoch record is written whole.
        first_key_groups: How many key groups an application begins with, if its settings do not
            say.
        bell: Tells of new records while there is nothing to do; without it the loop looks for them.
    """

    cluster: Cluster
    transactions: Transactions
    epochs: EpochLog
    epochs_of: Callable[[str], EpochLog]
    disk: Disk
    clock: Clock
    new_id: Callable[[], str]
    crash_point: Callable[[str], Any]
    records: RecordPolicy = field(default_factory=RecordPolicy)
    first_key_groups: int = DEFAULT_KEY_GROUPS
    bell: Bell | None = None

    def close(self) -> None:
        """Close the connections."""
        if self.bell is not None:
            self.bell.close()
        self.transactions.close()
        self.cluster.close()
