"""Starting an application: topics, the claim, the program, the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mustela.api.handlers import app_handlers, wants_raws
from mustela.config.clients import client_properties
from mustela.config.settings import Settings, app_configs
from mustela.connectors.kafka.errors import TransactionFenced
from mustela.connectors.kafka.row_checks import RowChecks, RowLimits
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.errors import MustelaError
from mustela.plan.epoch import EpochOrder, Program, RestoreOrder
from mustela.plan.plan import Plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.commit.committer import Committer
from mustela.runtime.commit.successor import Successor
from mustela.runtime.engine import Engine, EpochJobError
from mustela.runtime.events import Listener, Restoring, Said
from mustela.runtime.gate.adopt import global_marks_of
from mustela.runtime.passing_faults import PassingFaults
from mustela.runtime.ports import LocalState, World
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.record.group_marks import marks_of
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.time.epoch_timer import call_wait_ms
from mustela.runtime.time.watermark import steady_ms
from mustela.runtime.topics.application_topics import first_chooser
from mustela.runtime.topics.global_tables import GlobalFollower
from mustela.state.faults import StateDamagedError, StateGoneError
from mustela.state.interfaces import Token

__all__ = ["CLAIMS_MAX", "Opening", "all_groups", "check_before_start", "row_handler", "row_limits"]

CLAIMS_MAX = 5
"""How often a claim is repeated that was fenced without a newer claim."""


def row_limits(settings: Settings, *, refuses: bool) -> RowLimits:
    """Return the limits of output rows from the settings.

    Args:
        settings: The settings.
        refuses: Whether a row that the broker refuses ends the application.
    """
    return RowLimits.of(
        client_properties(settings, "producer"),
        header=settings.epoch_header,
        creates=settings.topics.create,
        refuses=refuses,
    )


def row_handler(settings: Settings, plan: Plan) -> RowHandler:
    """Return what becomes of rows that the broker refuses."""
    handler = app_handlers(settings)["production_handler"]
    return RowHandler.of(handler, plan.nodes, settings.application_id)


def check_before_start(
    settings: Settings, plan: Plan, world: World, listener: Listener
) -> Recovery:
    """Check whether the application can run, before an engine is started for it.

    This is also before the claim: an application that cannot run must not end a running instance.

    Returns:
        The topics found, for `Opening`, which need not look again.

    Raises:
        MustelaError: If topics are missing, or record, broker and program do not fit.
    """
    recovery = Recovery(settings, plan, world, lambda text: listener.on_event(Said(text=text)))
    faults = PassingFaults(world.clock, limit=settings.commit_timeout.total_seconds())
    _check(recovery, faults, listener)
    return recovery


def _check(recovery: Recovery, faults: PassingFaults, listener: Listener) -> None:
    faults.retry(recovery.examine, listener.on_error)
    faults.retry(recovery.ensure_topics, listener.on_error)


class Opening:
    """Prepares an application for its next epoch.

    Args:
        settings: The settings.
        plan: The physical plan.
        engine: A started engine.
        world: Kafka, disk and clocks.
        listener: Receives the events.
        lanes: Number of lanes.
        checked: The result of `check_before_start`; None checks here.

    Attributes:
        plan: The running plan, including the topics that patterns have found.
        recovery: Finds topics, the last record and start offsets.
        global_tables: Follows the topics of global tables.
        before_restore: Called when the state is claimed, before what is missing is restored.
    """

    def __init__(  # noqa: PLR0913 - an application, its world, and what is known of it
        self,
        settings: Settings,
        plan: Plan,
        engine: Engine,
        *,
        world: World,
        listener: Listener,
        lanes: int,
        checked: Recovery | None = None,
    ) -> None:
        self._settings = settings
        self.plan = plan
        self._engine = engine
        self._world = world
        self._listener = listener
        self._lanes = lanes
        self.recovery = checked or Recovery(settings, plan, world, self._say)
        self._is_checked = checked is not None
        self.global_tables = GlobalFollower(plan, world.cluster, self._say)
        self._state_dir = settings.state_dir
        self._is_loaded = False
        self._rehearsed: Program | None = None
        self.before_restore: Callable[[CommittedState], None] = lambda _state: None

    def row_checks(self) -> RowChecks:
        """Return the checks for rows that the broker would refuse."""
        settings, recovery, world = self._settings, self.recovery, self._world
        return RowChecks(
            world.cluster,
            world.clock,
            row_limits(settings, refuses=row_handler(settings, self.plan).fails),
            partitions=lambda: (recovery.widest_source, settings.replication_factor),
            origin=first_chooser(self.plan),
        )

    def open(
        self, committer: Committer, successor: Successor, faults: PassingFaults
    ) -> CommittedState:
        """Check topics, fence older instances, read the last epoch and restore what is missing.

        Raises:
            FencedError: If a newer instance started meanwhile.
            MustelaError: If the application cannot continue.
        """
        on_fault = self._listener.on_error
        # Before the claim: an application that cannot run must not end a running instance.
        self._engine.check(self.plan)
        if not self._is_checked:
            _check(self.recovery, faults, self._listener)
        faults.retry(self.recovery.tell_of_weak_topics, on_fault)
        state = faults.retry(lambda: self._claim(committer, successor), on_fault)
        try:
            self._take_up(state, faults)
        except MustelaError as error:
            successor.refuse(state.incarnation, error)
            raise
        return state

    def _take_up(self, state: CommittedState, faults: PassingFaults) -> None:
        """Bring the engine and local state to the claimed state."""
        on_fault = self._listener.on_error
        faults.retry(lambda: self.recovery.claimed(state), on_fault)
        self.global_tables.resume(state.global_marks)
        faults.retry(self.global_tables.find, on_fault)
        state.watermark.resume(steady_ms(self._world.clock))
        self._place_state()
        self._load(state)
        self.before_restore(state)
        if not state.is_empty:
            self._restore(state)

    def _say(self, text: str) -> None:
        self._listener.on_event(Said(text=text))

    def take_plan(self, state: CommittedState) -> bool:
        """Switch to the plan of the state, which may read newly found topics.

        Returns:
            Whether the plan has changed.
        """
        if state.plan is self.plan:
            return False
        self.plan = state.plan
        if self._is_loaded:
            self._load(state)
        return True

    def settle(self, state: CommittedState) -> None:
        """Sync and close local state before a clean stop."""
        if self._is_loaded and not state.is_empty:
            self._engine.settle(all_groups(state))

    def release(self) -> None:
        """Release the directory of local state."""
        self._world.disk.release(self._state_dir)

    def _claim(self, committer: Committer, successor: Successor) -> CommittedState:
        """Fence older instances, read what they left, and commit the claim of this one.

        An instance that fences this one without a claim is only finding out how its last commit
        ended, or ends before its claim: then this claim is repeated.
        """
        tries = 0
        while True:
            tries += 1
            self._world.transactions.reopen()
            state = self.recovery.next_claim(lanes=self._lanes)
            self.take_plan(state)
            try:
                committer.claim(state.to_record(self._world.clock.now_ms()))
            except TransactionFenced as error:
                if tries == CLAIMS_MAX:
                    raise successor.fenced(error) from error
                successor.refuse_soon(state.incarnation - 1, error)
            else:
                return state

    def _place_state(self) -> None:
        """Choose the directory of local state, and delete what no stage uses any more."""
        settings, disk = self._settings, self._world.disk
        name = settings.application_id
        backend = "memory" if settings.state.backend == "memory" else "disk"
        self._state_dir = disk.choose(
            LocalState(application_id=name, root=settings.state_dir, backend=backend),
            self._say,
        )
        claimed = {stage.identity for stage in self.plan.stages if stage.stores}
        claimed |= self.global_tables.claimed
        for place in {self._state_dir, settings.state_dir}:
            disk.remove_unclaimed(place, name, claimed)

    def rehearse(self, record: EpochRecord, place: Path) -> None:
        """Let the engine run an epoch of this program that does nothing, before any claim.

        Args:
            record: The last epoch that another instance committed, with the program's names of
                stores.
            place: The directory of local state.

        Raises:
            MustelaError: If the engine cannot run the program.
        """
        self._state_dir = place
        program = self._program(record)
        if self._rehearsed is not None:
            program = _with_identity_if_same(program, self._rehearsed)
        follower = GlobalFollower(self.plan, self._world.cluster, lambda _text: None)
        follower.resume(global_marks_of(record))
        follower.find()
        order = EpochOrder(
            global_marks=dict(follower.marks),
            token=Token(record.incarnation, record.epoch, 0),
            ranges=((),) * self._engine.cores,
            marks=marks_of(self.plan, record),
            now_ms=self._world.clock.now_ms(),
            probe=True,
        )
        self._world.transactions.warm()
        self._engine.rehearse(program, order)
        self._rehearsed = program

    def _load(self, state: CommittedState) -> None:
        program = self._program(state)
        if self._rehearsed is not None:
            program = _with_identity_if_same(program, self._rehearsed)
        self._engine.load(program)
        self._is_loaded = True

    def _program(self, state: CommittedState | EpochRecord) -> Program:
        settings = self._settings
        new_topics = (self.recovery.widest_source, settings.replication_factor)
        return Program(
            identity=self._world.new_id(),
            application_id=settings.application_id,
            cluster_id=self.recovery.cluster_id,
            plan=self.plan,
            lanes=self._lanes,
            key_groups=state.key_groups,
            guarantee=settings.processing_guarantee,
            kernel=self._kernel_options(state.key_groups),
            consumer=client_properties(settings, "consumer"),
            producer=client_properties(settings, "producer"),
            state_dir=str(self._state_dir),
            saved_dir="" if self._state_dir == settings.state_dir else str(settings.state_dir),
            state_backend=settings.state.backend,
            map_size=settings.state.map_size,
            result_bytes=settings.epoch.result_bytes,
            small_seconds=settings.epoch.small.total_seconds(),
            lanes_named=settings.lanes is not None,
            lane_rows=settings.commit.lane_rows,
            row_rules={
                "admin": client_properties(settings, "admin"),
                "limits": asdict(
                    row_limits(settings, refuses=row_handler(settings, self.plan).fails)
                ),
                "new_topics": new_topics,
                "origin": first_chooser(self.plan),
            },
            stale_after_ms=self.recovery.stale_after_ms(),
            life=state.life,
            changelog_ids={
                name: store.changelog_id
                for name, store in state.stores.items()
                if store.changelog_id
            },
            adopts_unnamed=state.adopts_unnamed,
        )

    def _kernel_options(self, key_groups: int) -> dict[str, Any]:
        settings = self._settings
        return {
            "emit": settings.emit,
            "event_time": settings.event_time,
            "key_groups": key_groups,
            **app_handlers(settings),
            "letter_raws": wants_raws(node.on_error for node in self.plan.nodes),
            "topic_partitions": self.recovery.sink_partitions(),
            "traces": settings.traces.enabled,
            "late_letters": self.plan.late_letters,
            "application_id": settings.application_id,
            "app_configs": app_configs(settings),
            "keep_calls": settings.history.epochs > 0,
            "call_wait_ms": call_wait_ms(
                self.plan,
                settings.commit_interval.total_seconds(),
                lanes=self._lanes,
                cores=self._engine.cores,
            ),
        }

    def _restore(self, state: CommittedState) -> None:
        order = all_groups(state)
        total: dict[str, int] = {}

        def progress(reports: Any, done: int, groups: int) -> None:
            for report in reports:
                for store, count in report.restored.items():
                    total[store] = total.get(store, 0) + count
            self._listener.on_event(
                Restoring(done=done, groups=groups, records=dict(total), reports=reports)
            )

        for suspect in (False, True):
            try:
                self._engine.restore(replace(order, suspect=suspect), progress)
            except (EpochJobError, StateDamagedError, StateGoneError):
                if suspect:
                    raise
            else:
                self.recovery.unlogged.restored(total)
                return


def _with_identity_if_same(program: Program, known: Program) -> Program:
    """Return a program under the identity of a known one if it is the same otherwise."""
    named = replace(program, identity=known.identity)
    return named if named == known else program


def all_groups(state: CommittedState) -> RestoreOrder:
    """Return the order with the committed state of every key group."""
    return RestoreOrder(
        incarnation=state.incarnation, marks=state.marks(), watermark=state.watermark.value
    )
