"""SIGKILL: to all of an application, to its driver, its JVM, a worker; and lost local state."""

from __future__ import annotations

import os
import signal
import time

import psutil

from tests.faults.kinds.kind import Kind
from tests.faults.life import Life, require
from tests.faults.shocks.pauses import jvm, worker
from tests.faults.shocks.shock import Profile, Shock, phases_of
from tests.patience import PATIENCE_S

__all__ = ["SHOCKS"]


def _gone(process: psutil.Process) -> None:
    """Kill a process and see that it is gone."""
    process.kill()
    _, left = psutil.wait_procs([process], timeout=PATIENCE_S)
    alive = [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    require(not alive, f"{process} lives on")


def kill_app(life: Life) -> str:
    """Kill everything at a phase or at any time; a kill restores nothing."""
    child = life.child()
    lanes = life.random.random() < 0.4
    with life.halted(phases_of(life, lanes=lanes)) as (point, _):
        if not point:
            time.sleep(life.random.random())
        count = life.kill_app()
    campaign = life.campaign
    if not campaign.is_damaged:
        campaign.check_restored(child)
    campaign.is_damaged = False
    return f"{count} processes ended by SIGKILL at {point or 'any time'}"


def kill_driver(life: Life) -> str:
    """Kill the driver alone: its JVM and its workers are left over, beside the next run."""
    child = life.child()
    life.campaign.is_damaged = True
    others = [process for process in child.processes() if process.pid != child.pid]
    with life.halted(phases_of(life)) as (point, _):
        os.kill(child.pid, signal.SIGKILL)
        code = child.wait()
    require(code == -signal.SIGKILL, f"the driver ended with {code}")
    life.campaign.child = None
    life.campaign.alone.append(child)
    left = [process.pid for process in others if process.is_running()]
    life.start()
    return f"driver {child.pid} ended by SIGKILL at {point or 'any time'}, {len(left)} left over"


def kill_jvm(life: Life) -> str:
    """Kill the JVM alone."""
    life.child()
    life.campaign.is_damaged = True
    with life.halted(phases_of(life)) as (point, _):
        (found, *_) = jvm(life)
        _gone(found)
    return f"JVM {found.pid} ended by SIGKILL at {point or 'any time'}"


def kill_worker(life: Life) -> str:
    """Kill one worker, at a phase of its own or at any time."""
    life.child()
    life.campaign.is_damaged = True
    with life.halted(phases_of(life, lanes=True)) as (point, who):
        found = psutil.Process(who) if who else worker(life)[0]
        _gone(found)
    return f"worker {found.pid} ended by SIGKILL at {point or 'any time'}"


def lose_state(life: Life) -> str:
    """Kill everything, delete some key groups, and go on."""
    life.child()
    life.kill_app()
    count = life.campaign.lose_state(0.7)
    require(count > 0, "there was no state")
    life.start()
    return f"{count} key groups deleted"


def kill_in_recovery(life: Life) -> str:
    """Kill everything while lost state is restored."""
    life.child()
    life.kill_app()
    count = life.campaign.lose_state(0.7)
    require(count > 0, "there was no state")
    life.start()
    who = life.halt("in-recovery")
    life.kill_app()
    return f"{count} key groups deleted, worker {who} ended by SIGKILL while it restored"


def _has_state(kind: Kind, profile: Profile) -> bool:
    return kind.has_state and profile.get("MUSTELA__STATE__BACKEND") != "memory"


SHOCKS = [
    Shock(name="kill-app", strike=kill_app, weight=3),
    Shock(name="kill-driver", strike=kill_driver),
    Shock(name="kill-jvm", strike=kill_jvm),
    Shock(name="kill-worker", strike=kill_worker, weight=20),
    Shock(name="lose-state", strike=lose_state, fits=_has_state),
    Shock(name="kill-in-recovery", strike=kill_in_recovery, fits=_has_state),
]
