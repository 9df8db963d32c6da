"""Plays a script: the real driver loop, planner, kernel and state in a simulated world."""

from __future__ import annotations

import gc
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from mustela.config.settings import Settings
from mustela.errors import InvariantError, MustelaError
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.events import EpochDone
from mustela.runtime.ports import World
from mustela.runtime.record.epoch_record import epochs_topic
from mustela.runtime.record.record_rows import RecordPolicy
from mustela.runtime.start.opening import check_before_start
from mustela.runtime.time.epoch_timer import EpochTimer
from tests.simulation.engine import SimEngine, simulated
from tests.simulation.happenings import CALM_MS, Happenings
from tests.simulation.invariants import NOT_HELD, Invariants
from tests.simulation.leases import SimLeases, stand_by
from tests.simulation.ports import SimClock, SimCluster, SimDisk, SimEpochLog, SimTransactions
from tests.simulation.programs import PROGRAMS, planned
from tests.simulation.readers import Readers
from tests.simulation.script import Script
from tests.simulation.world import Killed, Life, SimWorld, Violation
from tests.simulation.writers import SharedSimTransactions

__all__ = ["APPLICATION", "Result", "play"]

APPLICATION = "sim"
REST_ROUNDS = 3
ENGINE_START_S = 0.5
_WHOLE = RecordPolicy()
_DELTAS = RecordPolicy(whole_bytes_max=0, deltas_max=5)
"""Records are small here: so that there are deltas at all, and bases among them."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a script.

    Attributes:
        violations: Which invariants did not hold.
        trace: What happened.
        ends: How processes ended.
        happened: What happened how often.
    """

    violations: list[Violation]
    trace: list[str]
    ends: list[str]
    happened: Counter[str]


_OWNER_BYTES = (1, 1 << 40)
"""Owners of partitions write sink rows, or none ever does."""
_LANE_ROWS = (1, 3, 1_000)
"""So many changelog rows make a lane write: always, sometimes, never."""


@cache
def _settings(options: tuple[tuple[str, Any], ...], own: tuple[tuple[str, Any], ...]) -> Settings:
    told = dict(options)
    values: dict[str, Any] = {
        "application_id": APPLICATION,
        "lanes": told["lanes"],
        "key_groups": told["key_groups"],
        "commit_timeout": f"{told['commit_timeout_s']} s",
        "epoch.max_records": told["max_records"],
        "topics.refresh": f"{told['refresh_s']} s",
        "idleness": f"{told['idleness_s']} s",
        "auto_offset_reset": told["reset"],
        "max_source_drift": None if told["drift_s"] is None else f"{told['drift_s']} s",
        "naming.strict": False,
        **dict(own),
    }
    return Settings.load(values, environ={})


class _Listener:
    """Listens, and notes errors."""

    def __init__(self, world: SimWorld, life: Life) -> None:
        self._world = world
        self._life = life

    def on_event(self, event: Any) -> None:
        """Look at what is told of epochs."""
        if isinstance(event, EpochDone):
            self._world.told(self._life, event.epoch)

    def on_error(self, error: BaseException) -> None:
        """Note it."""
        self._world.note(f"bears {type(error).__name__}: {str(error).splitlines()[0]}")


def _live(world: SimWorld, life: Life, leases: SimLeases, readers: Readers) -> None:
    """Run a process of the application to its end, as `mustela.App` does."""
    try:
        _run(world, life, leases, readers)
        life.outcome = "stopped"
    except Killed:
        life.outcome = "killed"
    except MustelaError as error:
        life.outcome, life.error = error.code, error
        world.note("".join(traceback.format_exception(error)[-4:]))
        if isinstance(error, InvariantError) and not world.may_stop(error.code):
            world.report(Violation("stops", f"a bug of Mustela's: {error}"))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is found
        life.outcome, life.error = type(error).__name__, error
        world.report(Violation("stops", f"{type(error).__name__}: {error}"))
    if life.dead:
        life.outcome = "killed"


def _run(world: SimWorld, life: Life, leases: SimLeases, readers: Readers) -> None:
    script = world.script
    program = PROGRAMS[script.program]
    own = tuple(sorted(program.settings.items()))
    kind = SimTransactions
    if world.lanes_write:
        kind = SharedSimTransactions
        own += (("commit.writers", "lanes"), ("commit.lane_rows", _LANE_ROWS[script.seed % 3]))
        own += (("commit.owner_bytes", _OWNER_BYTES[script.seed % 2]),)
    settings = _settings(tuple(sorted(script.options.items())), own)
    clock, listener = SimClock(world, life), _Listener(world, life)
    ports = World(
        cluster=SimCluster(world, life),
        transactions=kind(
            world, life, APPLICATION, int(settings.commit_timeout.total_seconds() * 1000)
        ),
        epochs=SimEpochLog(world, life, epochs_topic(APPLICATION)),
        epochs_of=lambda name: SimEpochLog(world, life, epochs_topic(name)),
        disk=SimDisk(world, life),
        clock=clock,
        new_id=world.new_id,
        crash_point=lambda name: None,
        records=_WHOLE if script.seed % 4 == 0 else _DELTAS,
    )
    plan, checked = planned(script.program, life.version), None
    if life.stands_by:
        stand_by(life, leases, clock, listener.on_error, settings.commit_timeout)
        if life.stopping:
            return
    if world.starts_beside:
        checked = check_before_start(settings, plan, ports, listener)
        leases.begin(life)
        clock.sleep(world.random.random() * ENGINE_START_S)
    coordinator = Coordinator(
        settings,
        plan,
        SimEngine(world, life),
        clock=clock,
        listener=listener,
        world=ports,
        checked=checked,
        published=readers.begin(life),
    )
    try:
        coordinator.prepare()
        life.running = True
        _loop(world, life, coordinator, settings.commit_interval.total_seconds())
    finally:
        coordinator.close()
        leases.end(life, ended=coordinator.barrier.phase is not Phase.FENCED)


def _loop(world: SimWorld, life: Life, coordinator: Coordinator, interval: float) -> None:
    """Run epochs until the process is to stop, or has come to rest when all is put right."""
    clock, timer = SimClock(world, life), EpochTimer(interval)
    restless = PROGRAMS[world.script.program].restless
    while not life.stopping:
        started = clock.monotonic()
        busy = coordinator.run_once()
        spent = clock.monotonic() - started
        lag = coordinator.lag()
        world.broker.tick()
        worked = lag > 0 if restless else busy or lag > 0
        life.rest = 0 if worked else life.rest + 1
        if worked and world.is_calm:  # what it read has time to become idle
            world.calm_until = max(world.calm_until, world.ms + CALM_MS)
        is_over = world.is_calm and not life.stopping and life.rest > REST_ROUNDS
        if is_over and world.ms > world.calm_until:
            world.came_to_rest = life.stopping = True
        clock.sleep(timer.pause(busy=busy, seconds=spent, lag=lag))


def play(script: Script, *, off: frozenset[str] = NOT_HELD) -> Result:
    """Play a script.

    Args:
        script: What happens.
        off: Invariants that are not looked at.
    """
    with _uncollected(), simulated():
        world = SimWorld(script, lambda world, life: _live(world, life, leases, readers))
        leases = SimLeases(world)
        world.off = off
        happenings = Happenings(world, APPLICATION)
        readers = Readers(world, APPLICATION)
        invariants = Invariants(world, APPLICATION, readers)
        world.told = invariants.told
        world.run(happenings.is_over)
        if not world.violations:
            invariants.at_the_end(happenings)
        world.abandon()
    return Result(world.violations, world.trace, world.ends, world.happened)


@contextmanager
def _uncollected() -> Iterator[None]:
    """A seed is short: garbage is collected after it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
