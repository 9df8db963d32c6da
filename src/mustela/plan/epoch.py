"""What the driver and the tasks of an epoch say to each other.

A `Program` reaches every worker once. An `EpochOrder` goes with each epoch's job, and each task
answers with frames: rows for the driver, and one `TaskReport`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from mustela.logs.options import LogOptions
from mustela.plan.calls import CallersSeen, CallOutcome, CallTape
from mustela.plan.files import Files
from mustela.plan.keygroups import lanes_by_group
from mustela.plan.measured import Measured
from mustela.plan.plan import Plan
from mustela.plan.ranges import LeftOut, RangeReport, SourceRange
from mustela.plan.ticket import Ticket
from mustela.plan.time import Due
from mustela.plan.traces import Traced
from mustela.plan.watermark import WatermarkOrder
from mustela.state.interfaces import Committed, EnvironmentSpec, Token
from mustela.state.leftovers import GLOBAL_PREFIX
from mustela.topology.global_table import GlobalTableNode

__all__ = [
    "FIRST_RECORDS",
    "EpochOrder",
    "Failure",
    "GlobalMark",
    "GroupMark",
    "Guarantee",
    "OwnerReport",
    "Placement",
    "Program",
    "RestoreOrder",
    "RowOutline",
    "TaskReport",
    "changelog_topic",
    "changelog_topics",
    "epochs_topic",
    "global_identity",
    "history_topic",
]

Guarantee = Literal["exactly_once", "at_least_once"]

FIRST_RECORDS: Final = 200
"""What the first epoch of a start reads at most: few, so that the first results come soon, however
long a record takes."""


def changelog_topic(application_id: str, store: str) -> str:
    """Return the name of a store's changelog topic.

    Example:
        >>> changelog_topic("wordcount", "counts")
        'wordcount-counts-changelog'
    """
    return f"{application_id}-{store}-changelog"


def changelog_topics(application_id: str, plan: Plan) -> set[str]:
    """Return the names that the changelogs of a plan's stores have, or would have."""
    return {changelog_topic(application_id, log) for log in plan.log_names.values()}


def epochs_topic(application_id: str) -> str:
    """Return the name of an application's epochs topic.

    Example:
        >>> epochs_topic("wordcount")
        'wordcount-epochs'
    """
    return f"{application_id}-epochs"


def history_topic(application_id: str) -> str:
    """Return the name of the topic that keeps what each epoch did.

    Example:
        >>> history_topic("wordcount")
        'wordcount-history'
    """
    return f"{application_id}-history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """All that a task needs and that does not change during a run of the application.

    Attributes:
        identity: Unique for each run; workers use it as the key of what they cache.
        application_id: The application.
        cluster_id: The Kafka cluster.
        plan: The physical plan.
        lanes: Number of lanes, L, at the start of the run; an order may say another.
        key_groups: Number of key groups, G.
        guarantee: Who sends the sink rows: the driver's transaction, or the tasks.
        kernel: Options of the kernel, by name.
        consumer: Client properties for reading.
        producer: Client properties for tasks that send rows themselves.
        row_rules: How they check such rows, by name.
        state_dir: Root of the state on local disk.
        small_seconds: An epoch runs as one task if all cores together would be faster by at most
            so many seconds, for each exchange and at least once.
        lanes_named: Whether the settings say how many lanes there are: all of them have a part in
            an epoch of which nothing is known, however small it is.
        saved_dir: Where a clean stop saves state that is on tmpfs; empty if state is on disk.
        state_backend: ``lmdb`` on disk, or ``memory`` on tmpfs if there is room.
        map_size: Sparse size of each environment's file in bytes.
        read_timeout: Seconds without progress after which a read fails.
        batch_records: Records that run through the source stage at once.
        stale_after_ms: By topic, the age above which a local copy of it may have missed deletions.
        result_bytes: Bytes of results that the driver holds in memory before it spills.
        spool_dir: Where tasks may leave large results for the driver; empty if they share no disk.
        life: Identifies the application's life, as in its epoch records; a reset begins a new one.
        changelog_ids: The id of each logged store's changelog topic, by store.
        adopts_unnamed: Whether local state that names no life belongs to this one, because an older
            version wrote the record that names it.
        logs: How workers log; None leaves that to them.
        files: Where tasks read and write if there is no broker; None if there is one.
        lane_rows: Changelog rows from which on a lane writes them by itself, if it has a ticket.
    """

    identity: str
    application_id: str
    cluster_id: str
    plan: Plan
    lanes: int
    key_groups: int
    guarantee: Guarantee
    kernel: Mapping[str, Any]
    consumer: Mapping[str, Any]
    producer: Mapping[str, Any]
    state_dir: str
    state_backend: Literal["lmdb", "memory"] = "lmdb"
    map_size: int = 1 << 36
    read_timeout: float = 30.0
    batch_records: int = 20_000
    stale_after_ms: Mapping[str, int] = field(default_factory=dict[str, int])
    result_bytes: int = 256 * 1024 * 1024
    spool_dir: str = ""
    row_rules: Mapping[str, Any] = field(default_factory=dict[str, Any])
    saved_dir: str = ""
    small_seconds: float = 0.0
    lanes_named: bool = False
    life: str = ""
    changelog_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    adopts_unnamed: bool = False
    logs: LogOptions | None = None
    files: Files | None = None
    lane_rows: int = 1_000

    def lanes_in(self, order: EpochOrder) -> int:
        """Return the number of lanes in an epoch; only which lane has a key group depends on it."""
        return order.lanes or self.lanes

    def lane_of_groups(self, order: EpochOrder) -> Sequence[int]:
        """Return the lane of each key group in an epoch."""
        if order.placement is not None:
            return order.placement.lane_of
        return lanes_by_group(self.lanes_in(order), self.key_groups)

    def environment(self, stage: int, group: int) -> EnvironmentSpec:
        """Describe the environment of one key group in one stage."""
        where = self.plan.stages[stage]
        logs = (
            changelog_topic(self.application_id, store.log_name)
            for store in where.stores
            if store.logged
        )
        ages = [self.stale_after_ms[log] for log in logs if log in self.stale_after_ms]
        return EnvironmentSpec(
            application_id=self.application_id,
            cluster_id=self.cluster_id,
            stage=where.identity,
            group=group,
            groups=self.key_groups,
            stores=where.stores,
            stale_after_ms=min(ages, default=None),
            life=self.life,
            changelog_ids={
                store: topic for store, topic in self.changelog_ids.items() if store in where.logged
            },
            adopts_unnamed=self.adopts_unnamed,
        )


class Placement(NamedTuple):
    """Which lane has which key group in an epoch, and where it is at home.

    Attributes:
        lane_of: The lane of each key group.
        hosts: The host of each lane, by the name that the engine knows it by.
    """

    lane_of: tuple[int, ...]
    hosts: tuple[str, ...]


class GroupMark(NamedTuple):
    """The committed state of one key group of one stage."""

    token: tuple[int, int, int] | None
    changelog_ends: tuple[int, ...]
    time_ms: int

    def committed(self, stores: tuple[str, ...]) -> Committed:
        """Return it in the state room's terms; ``stores`` names the logged stores."""
        return Committed(
            token=None if self.token is None else Token(*self.token),
            changelog_ends=dict(zip(stores, self.changelog_ends, strict=True)),
            time_ms=self.time_ms,
        )


class GlobalMark(NamedTuple):
    """How far a global table's topic must be read.

    Attributes:
        topic_id: The topic's id, which changes when the topic is deleted and created again.
        ends: For each partition the offset after the last record.
        leaders: For each partition a leader epoch in which the log reached that offset, or -1.
        losses: How often the topic lost records that had been read: earlier copies are not used.
    """

    topic_id: str
    ends: tuple[int, ...]
    leaders: tuple[int, ...] = ()
    losses: int = 0

    def leader(self, partition: int) -> int:
        """Return the leader epoch of a partition's end, -1 if it is not known."""
        return self.leaders[partition] if partition < len(self.leaders) else -1


def global_identity(table: GlobalTableNode, mark: GlobalMark) -> str:
    """Return the name of the directory that holds a host's copy of a global table.

    Another topic, one that lost records, another number of partitions, another layout or another
    type of rows means another directory, so that the copy is read again.

    Example:
        >>> from mustela.serdes.primitives import StrSerde
        >>> from mustela.state.interfaces import StoreSpec
        >>> store = StoreSpec(name="towns", logged=False)
        >>> table = GlobalTableNode(
        ...     name="towns", topic="towns", key=StrSerde(), value=StrSerde(), store=store)
        >>> global_identity(table, GlobalMark("id", (0, 0))).startswith("global-")
        True
    """
    store = table.store
    meaning = table.meaning_of(store)
    rows = (meaning.layout, meaning.key, meaning.value, meaning.key_shape, meaning.value_shape)
    losses = (str(mark.losses),) if mark.losses else ()
    topic = (table.topic, mark.topic_id, str(len(mark.ends)), *losses)
    told = "\n".join((store.name, *rows, *topic))
    return f"{GLOBAL_PREFIX}{hashlib.sha256(told.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOrder:
    """One epoch, as every task of its job sees it.

    Attributes:
        token: Identifies the epoch and its run.
        ranges: For each source task the ranges it reads, in order.
        marks: For each stage with stores, the committed state of each key group.
        now_ms: The epoch's one wall-clock time.
        event_time: What the watermark depends on, apart from what the source tasks see.
        due: For each stage that acts on time, when each key group wants to run without a record.
        suspect: Whether local state may be damaged, so that every value is checked before it is
            used.
        header: Name and value of the header of sent rows, if tasks send them.
        global_marks: By topic of a global table, how far its copies must have read.
        left_out: Which parts of the ranges are skipped: records that kill workers.
        triggered: Scheduled sources that tick now, whatever their schedules say; for tests.
        probe: Whether it only tests if the epoch can run; it is never committed, and its rows are
            not sent.
        callers: The processes of all hosts that make calls, as far as the driver knows; None where
            each task sees for itself who lives.
        outcomes: By step, what has become of calls that were made on other hosts.
        lanes: Number of lanes; 0 for as many as the program says.
        ticket: The transaction that lanes may write into; None if only the driver writes.
        seals: Whether tasks put sink rows together for the driver, who then numbers batches.
        owners: Number of tasks behind the lanes that write sink rows, each those of the partitions
            that it owns; 0 if the driver does. Without a ticket they leave all rows to the driver.
        placement: Which lane has which key group; None if lanes have contiguous runs of them, and
            are at home on every host.
    """

    token: Token
    ranges: tuple[tuple[SourceRange, ...], ...]
    marks: Mapping[int, tuple[GroupMark, ...]]
    now_ms: int
    event_time: WatermarkOrder = field(default_factory=WatermarkOrder)
    due: Mapping[int, tuple[Due, ...]] = field(default_factory=dict[int, tuple[Due, ...]])
    suspect: bool = False
    header: tuple[str, bytes] | None = None
    global_marks: Mapping[str, GlobalMark] = field(default_factory=dict[str, GlobalMark])
    left_out: tuple[LeftOut, ...] = ()
    triggered: Collection[str] = ()
    probe: bool = False
    callers: frozenset[str] | None = None
    outcomes: Mapping[str, tuple[CallOutcome, ...]] = field(
        default_factory=dict[str, tuple[CallOutcome, ...]]
    )
    lanes: int = 0
    ticket: Ticket | None = None
    seals: bool = False
    owners: int = 0
    placement: Placement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOrder:
    """Bring every key group of every stage to the committed state.

    Attributes:
        incarnation: The running incarnation.
        marks: For each stage with stores, the committed state of each key group.
        suspect: Whether local state may be damaged, so that every value is checked before it is
            used.
        watermark: The committed watermark, or -1.
    """

    incarnation: int
    marks: Mapping[int, tuple[GroupMark, ...]]
    suspect: bool = False
    watermark: int = -1


class RowOutline(NamedTuple):
    """A summary of rows for Kafka, so that not each of them has to be looked at.

    Attributes:
        topics: Their topics.
        key_bytes: Size of the longest key.
        value_bytes: Size of the longest value.
        header_bytes: Size of the longest headers.
        first_ms: The earliest timestamp; None if the broker gives them.
        last_ms: The latest timestamp.
        keyless: Whether a row has no key.
    """

    topics: tuple[str, ...]
    key_bytes: int
    value_bytes: int
    header_bytes: int
    first_ms: int | None
    last_ms: int | None
    keyless: bool


class Failure(NamedTuple):
    """A task's error, in the form in which it travels to the driver.

    Attributes:
        error: The error, if it can be pickled.
        text: Its text with the traceback inside the worker.
    """

    error: BaseException | None
    text: str


class OwnerReport(NamedTuple):
    """What an owner of partitions did.

    Attributes:
        owner: Its number.
        places: The partitions that it has written to, by topic and number.
        size: What brokers store of its rows, in bytes.
        seconds: How long it wrote.
        spark_stage: The stage of Spark's that it was in, or -1.
        failure: Why it failed, if it did.
    """

    owner: int
    places: tuple[tuple[str, int], ...]
    size: int
    seconds: float
    spark_stage: int
    failure: Failure | None


@dataclass(slots=True, kw_only=True)
class TaskReport:
    """What one task did.

    Attributes:
        stage: Its stage.
        task: Its index in the stage.
        ranges: What it read.
        wrote: Key groups for which it wrote a pending.
        outlines: For each part of its rows that the driver puts together, a summary, in order.
        sealed_outlines: Summaries of those that it has put together itself.
        due: For each key group that it opened in a stage that acts on time, when it wants to run
            next.
        counters: Counts by name.
        restored: Records read from changelogs, by store; 0 for a store that has none, and has lost
            rows that only the local copy had.
        seconds: Time spent, by part: ``source`` and ``lane``, and what of these two was without
            a core or the broker's answer, ``waited``; ``wait`` is the time before them.
        failure: Why it failed, if it did.
        pid: The process that ran it.
        traced: Spans for records that carry a trace context.
        measured: What it measured beside its work.
        calls: What it learned from the calls of its steps, if that is kept.
        callers: Who makes calls on its host, if anybody does.
        spark_stage: The stage of Spark's that it was in, or -1.
        written: By store and key group, where the changelog ends behind the rows that the task has
            written by itself.
        written_bytes: Keys and values of these rows.
        sealed: How many rows it has put together, for the driver or for the owners of partitions.
        sink_bytes: Bytes of its sink rows, put together or not, as far as they left the host.
        away: Whether it ran on another host than its lane's home.
    """

    stage: int
    task: int
    ranges: list[RangeReport] = field(default_factory=list[RangeReport])
    wrote: list[int] = field(default_factory=list[int])
    outlines: list[RowOutline] = field(default_factory=list[RowOutline])
    sealed_outlines: list[RowOutline] = field(default_factory=list[RowOutline])
    due: dict[int, Due] = field(default_factory=dict[int, Due])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    restored: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None
    pid: int = 0
    traced: list[Traced] = field(default_factory=list[Traced])
    measured: Measured = field(default_factory=Measured)
    calls: dict[str, CallTape] = field(default_factory=dict[str, CallTape])
    callers: CallersSeen | None = None
    spark_stage: int = -1
    written: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    written_bytes: int = 0
    sealed: int = 0
    sink_bytes: int = 0
    away: bool = False

    @property
    def worked(self) -> float:
        """Seconds it worked, without those in which it waited for a core or for the broker.

        These say nothing of its work: a machine that is busy with other things has more of them.
        """
        took = self.seconds.get("source", 0.0) + self.seconds.get("lane", 0.0)
        return max(0.0, took - self.seconds.get("waited", 0.0))
