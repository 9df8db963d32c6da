"""What one Python worker process keeps between tasks.

Spark reuses worker processes and gives them tasks of any lane. What is dear to build, such as
consumers, open environments and compiled stages, is kept here per process and per program. After
a fork, or when a new program comes, everything is built anew.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mustela.clock import SystemClock
from mustela.connectors.calls.spool import clear_abandoned
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.log import read_last_record
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.reading_time import ReadingSince
from mustela.connectors.kafka.row_checks import RowChecks, RowLimits
from mustela.connectors.kafka.transaction import PlainSink
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.wiring import WiredPlan
from mustela.logs.output import LogOutput
from mustela.plan.calls import CallersSeen
from mustela.plan.epoch import (
    EpochOrder,
    GlobalMark,
    GroupMark,
    Program,
    changelog_topic,
    epochs_topic,
    global_identity,
)
from mustela.processes import boot_id
from mustela.spark.arrivals import call_steps, calls_root
from mustela.spark.busy import BusyNote, busy_root
from mustela.spark.claim import ClaimCheck
from mustela.spark.partitions import KnownPartitions
from mustela.spark.shipment import Shipment
from mustela.spark.worker_log import Place, worker_log
from mustela.state.directories import environment_path, make_private
from mustela.state.interfaces import EnvironmentSpec, Token
from mustela.state.leftovers import Tenant, clear_leftovers
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions
from mustela.state.lmdb_reader import LmdbReaders
from mustela.state.registry import EnvironmentRegistry
from mustela.state.verify import verify_environments

if TYPE_CHECKING:
    from mustela.connectors.calls.pool import CallPool
    from mustela.connectors.kafka.writers.cluster import Cluster
    from mustela.connectors.kafka.writers.writer import TransactionWriter
    from mustela.plan.ticket import Ticket
    from mustela.spark.files import FileReader
    from mustela.spark.lane_writer import ForOwners, LaneWriter, Sealer

__all__ = ["Process", "current"]


@dataclass(slots=True)
class Process:
    """The things of one process and one program.

    Attributes:
        pid: The process.
        program: What it runs.
        wired: Its plan.
        known_good: Environments, by stage and key group, that were verified.
        watermark: A committed watermark that was told with an order, or -1.
        epoch: The epoch of the task that runs, or -1.
        reading_since: By topic, partition and first offset, since when what is to be restored is
            fetched ahead.
    """

    pid: int
    program: Program
    wired: WiredPlan = field(init=False)
    _options: KernelOptions | None = None
    _reader: RangeReader | FileReader | None = None
    _registry: EnvironmentRegistry | None = None
    _sink: PlainSink | None = None
    _row_checks: RowChecks | None = None
    _admin: KafkaAdmin | None = None
    _brokers: Cluster | None = None
    _calls: CallPool | None = None
    _note: BusyNote | None = None
    known_good: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    watermark: int = -1
    epoch: int = -1
    _log: LogOutput | None = None
    _specs: dict[tuple[int, int], EnvironmentSpec] = field(
        default_factory=dict[tuple[int, int], EnvironmentSpec]
    )
    _settled: set[tuple[int, bool]] = field(default_factory=set[tuple[int, bool]])
    reading_since: dict[tuple[str, int, int], ReadingSince] = field(
        default_factory=dict[tuple[str, int, int], ReadingSince]
    )

    def __post_init__(self) -> None:
        """Find out about the plan what tasks will ask."""
        self.wired = WiredPlan(self.program.plan)
        self._log = worker_log(self.program.logs, self.where)

    def where(self) -> Place:
        """Return where the code that runs is at, for what it logs."""
        return Place(self.program.plan, self.note.doing(), self.epoch)

    @property
    def options(self) -> KernelOptions:
        """The kernel's options; topics that functions name are asked for their partitions."""
        if self._options is None:
            told = self.program.kernel.get("topic_partitions", {})
            options = KernelOptions(**self.program.kernel)
            counts: Mapping[str, int] = KnownPartitions(told, self.program.producer)
            if self.program.files is not None:
                counts = defaultdict(lambda: 1, told)
            self._options = replace(
                options,
                topic_partitions=counts,
                calls=self._desk(),
                on_step=self.note.step,
                timer=SystemClock().monotonic,
                pause=SystemClock().sleep,
            )
        return self._options

    def _desk(self) -> CallPool | None:
        """Return what makes calls to the outside, if any step needs it."""
        if self._calls is None and call_steps(self.program.plan):
            from mustela.connectors.calls.pool import CallPool  # not every program makes calls

            root, watched = calls_root(self.program), bool(self.program.spool_dir)
            if not watched:
                make_private(Path(tempfile.gettempdir()), root)
                clear_abandoned(root.parent, SystemClock().now_ms() / 1000)
            self._calls = CallPool(root, SystemClock(), watched=watched)
        return self._calls

    def tell_calls(self, order: EpochOrder) -> None:
        """Tell those who make calls what the driver knows of other hosts."""
        if self._desk() is not None:
            assert self._calls is not None
            self._calls.tell(order.callers, order.outcomes)

    def callers(self) -> CallersSeen | None:
        """Return who makes calls on this host, if this process does."""
        return None if self._calls is None else self._calls.seen()

    @property
    def note(self) -> BusyNote:
        """Where this process says what it is at."""
        if self._note is None:
            self._note = BusyNote(busy_root(self.program.spool_dir))
        return self._note

    @property
    def reader(self) -> RangeReader | FileReader:
        """The reader of offset ranges, with its consumers."""
        if self._reader is None and self.program.files is not None:
            from mustela.spark.files import FileReader  # with Arrow, which only this needs

            self._reader = FileReader(self.program.files.inputs)
        if self._reader is None:
            self._reader = RangeReader.shared(
                self.program.consumer, read_timeout=self.program.read_timeout
            )
        return self._reader

    @property
    def admin(self) -> KafkaAdmin:
        """What asks the broker where logs begin, and how old their records are."""
        if self._admin is None:
            self._admin = KafkaAdmin(self.program.consumer)
        return self._admin

    def claim(self, incarnation: int) -> ClaimCheck:
        """Return what tells whether another instance took over from one that gave an order."""
        return ClaimCheck(incarnation, self._last_epoch_row)

    def _last_epoch_row(self) -> bytes | None:
        topic = epochs_topic(self.program.application_id)
        last = read_last_record(self.program.consumer, topic, admin=self.admin)
        return None if last is None else last.value

    @property
    def sink(self) -> PlainSink:
        """The producer of tasks that send rows themselves."""
        if self._sink is None:
            self._sink = PlainSink(self.program.producer)
        return self._sink

    def lane_writer(self, ticket: Ticket) -> LaneWriter:
        """Return what writes a lane's changelog rows."""
        from mustela.spark.lane_writer import LaneWriter  # with what only this needs

        program = self.program
        names = program.plan.log_names

        def topic(store: str) -> str:
            return changelog_topic(program.application_id, names.get(store, store))

        return LaneWriter(self.transaction_writer(ticket), topic, least=program.lane_rows)

    def transaction_writer(self, ticket: Ticket) -> TransactionWriter:
        """Return what writes into a transaction; its connections stay for the next one."""
        from mustela.connectors.kafka.writers.writer import TransactionWriter

        return TransactionWriter(self.program.producer, ticket, cluster=self.brokers)

    @property
    def brokers(self) -> Cluster:
        """The connections of who writes by itself."""
        from mustela.connectors.kafka.writers.cluster import Cluster

        if self._brokers is None:
            self._brokers = Cluster(self.program.producer)
        return self._brokers

    def sealer(self, header: tuple[str, bytes] | None) -> Sealer:
        """Return what puts sink rows together for the driver.

        Args:
            header: A header that each row gets besides its own.
        """
        from mustela.spark.lane_writer import Sealer  # with what only this needs

        program = self.program
        return Sealer(self.brokers, program.producer, header, least=program.lane_rows)

    def for_owners(self, header: tuple[str, bytes] | None, owners: int) -> ForOwners:
        """Return what puts sink rows together for the owners of partitions.

        Args:
            header: A header that each row gets besides its own.
            owners: How many there are.
        """
        from mustela.spark.lane_writer import ForOwners  # with what only this needs

        return ForOwners(self.brokers, self.program.producer, header, owners)

    @property
    def row_checks(self) -> RowChecks:
        """What such tasks look through their rows with."""
        if self._row_checks is None:
            rules = self.program.row_rules
            self._row_checks = RowChecks(
                KafkaAdmin(rules["admin"]),
                SystemClock(),
                RowLimits(**rules["limits"]),
                partitions=lambda: rules["new_topics"],
                origin=rules["origin"],
            )
        return self._row_checks

    def environment(self, stage: int, group: int) -> LmdbEnvironment:
        """Return the open environment of one key group in one stage."""
        spec = self._specs.get((stage, group))
        if spec is None:
            spec = self._specs[stage, group] = self.program.environment(stage, group)
        return self.environment_of(spec)

    def environment_of(self, spec: EnvironmentSpec) -> LmdbEnvironment:
        """Return the open environment of any specification."""
        if self._registry is None:
            root, options = Path(self.program.state_dir), _lmdb_options(self.program)
            self._registry = EnvironmentRegistry(root, options=options, boot=_boot(self.program))
        return self._registry.get(spec)

    def forget_others(self, stage: int, marks: Sequence[GroupMark]) -> None:
        """Forget pendings that another process has taken over: a lane runs in any of them.

        Args:
            stage: A stage.
            marks: The committed state of its key groups.
        """
        if self._registry is None or not marks:
            return
        for environment in self._registry.opened():
            spec = environment.spec
            if self._specs.get((stage, spec.group)) is spec:
                token = marks[spec.group].token
                environment.forget_but(None if token is None else Token(*token))

    def settle_in(self, incarnation: int, marks: Mapping[str, GlobalMark] | None) -> None:
        """Delete what others left on this host, before anything of it is opened.

        Where workers share the driver's disk, the driver has done so.

        Args:
            incarnation: Of the start that gives the orders.
            marks: The topics of global tables, if the order names them.
        """
        if (incarnation, marks is not None) in self._settled:
            return
        program = self.program
        if not program.spool_dir and program.files is None:
            clear_leftovers(
                Path(program.state_dir),
                Tenant(
                    application_id=program.application_id,
                    cluster_id=program.cluster_id,
                    life=program.life,
                    incarnation=incarnation,
                ),
                None if marks is None else self._claimed(marks),
            )
        self._settled.add((incarnation, marks is not None))

    def _claimed(self, marks: Mapping[str, GlobalMark]) -> set[str]:
        """Return the directories that the program uses."""
        plan = self.program.plan
        stores = {stage.identity for stage in plan.stages if stage.stores}
        tables = [table for table in plan.global_tables if table.topic in marks]
        return stores | {global_identity(table, marks[table.topic]) for table in tables}

    def weed_out(self, places: Iterable[tuple[int, int]]) -> None:
        """Verify environments that may be damaged, in a child process, and delete the bad ones.

        Each environment is looked at once per process and program.
        """
        root = Path(self.program.state_dir)
        new = [place for place in places if place not in self.known_good]
        paths = {environment_path(root, self.program.environment(*place)): place for place in new}
        there = [path for path in paths if path.exists()]
        for path in verify_environments(there) if there else ():
            self.environment(*paths[path]).destroy()
        self.known_good.update(new)

    def close(self) -> None:
        """Close everything; for a new program in the same process."""
        if self._log is not None:
            self._log.close()
        if self._note is not None:
            self._note.close()
        if self._calls is not None:
            self._calls.close()
        if self._registry is not None:
            self._registry.close_all(clean=False)
        if self._reader is not None:
            self._reader.close()
        if self._sink is not None:
            self._sink.close()
        if self._row_checks is not None:
            self._row_checks.close()
        if self._admin is not None:
            self._admin.close()
        if self._brokers is not None:
            self._brokers.forget()


def state_readers(program: Program) -> LmdbReaders:
    """Return what reads a program's state on this host, in a process that does not write it."""
    root, options = Path(program.state_dir), _lmdb_options(program)
    return LmdbReaders(root, options=options, boot=_boot(program))


def _lmdb_options(program: Program) -> LmdbOptions:
    saved = program.saved_dir
    return LmdbOptions(map_bytes=program.map_size, saved_in=Path(saved) if saved else None)


def _boot(program: Program) -> str:
    # Without the boot's name only this run knows that no other boot was in between.
    return boot_id() or f"run {program.identity}"


_CURRENT: list[Process] = []
"""The one process state; a list so that it can be replaced. Keyed by pid and program."""


def current(shipment: Shipment) -> Process:
    """Return this process's things for a program, made now if need be."""
    if _CURRENT:
        process = _CURRENT[0]
        if process.pid == os.getpid() and process.program.identity == shipment.identity:
            return process
        _CURRENT.clear()
        if process.pid == os.getpid():
            process.close()
    program = shipment.unpack()
    process = Process(os.getpid(), program)
    _CURRENT.append(process)
    return process
