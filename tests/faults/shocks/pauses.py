"""SIGSTOP and SIGCONT of driver, JVM, a worker, broker and all of them, for short and for long."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from functools import partial

import psutil

from tests.faults.life import Life, await_state, require
from tests.faults.shocks.shock import Shock, phases_of

__all__ = ["SHOCKS", "paused"]

SHORT_S = (0.05, 1.0)
BEYOND_S = (1.1, 1.6)
"""Times the transaction timeout."""
Choose = Callable[[Life], list[psutil.Process]]


def driver(life: Life) -> list[psutil.Process]:
    """Return the Python process that runs the loop."""
    return [psutil.Process(_child(life).pid)]


def jvm(life: Life) -> list[psutil.Process]:
    """Return Spark's Java."""
    return [process for process in _child(life).processes() if process.name() == "java"]


def worker(life: Life) -> list[psutil.Process]:
    """Return one of the Python workers."""
    found = _child(life).workers()
    require(bool(found), "there is no worker")
    return [life.random.choice(found)]


def broker(life: Life) -> list[psutil.Process]:
    """Return the broker."""
    return [psutil.Process(life.broker.pid)]


def everything(life: Life) -> list[psutil.Process]:
    """Return all processes of the application."""
    return _child(life).processes()


WHO: dict[str, Choose] = {
    "driver": driver,
    "jvm": jvm,
    "worker": worker,
    "broker": broker,
    "app": everything,
}


def _child(life: Life):
    child = life.campaign.child
    assert child is not None
    return child


def stop(processes: Sequence[psutil.Process]) -> None:
    """Send SIGSTOP, and see that each process stands still."""
    for process in processes:
        process.suspend()
    await_state(list(processes), is_stopped, "stopped")


def go_on(processes: Sequence[psutil.Process]) -> None:
    """Send SIGCONT to what still lives."""
    for process in processes:
        try:
            process.send_signal(signal.SIGCONT)
        except psutil.NoSuchProcess:
            continue


def is_stopped(process: psutil.Process) -> bool:
    """Tell whether a process stands still; one that is gone by now does so for good."""
    try:
        return process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return True


def paused(life: Life, who: str, seconds: float) -> str:
    """Halt at a phase or nowhere, stop, let the phase go on, wait, continue."""
    child = life.child()
    lanes = who == "worker" and life.random.random() < 0.5
    with life.halted(phases_of(life, lanes=lanes)) as (point, halted):
        found = [psutil.Process(halted)] if lanes and halted else WHO[who](life)
        require(bool(found), f"no {who} lives")
        stop(found)
    try:
        time.sleep(seconds)
        still = [p.pid for p in found if is_stopped(p)]
        require(len(still) == len(found), f"of {found} only {still} stood still")
    finally:
        go_on(found)
    del child
    return f"{who} {[p.pid for p in found][:4]} stood still for {seconds:.1f} s at {point or 'any'}"


def _short(who: str, life: Life) -> str:
    return paused(life, who, life.random.uniform(*SHORT_S))


def _beyond(who: str, life: Life) -> str:
    timeout_s = float(life.campaign.settings["MUSTELA__COMMIT_TIMEOUT"].removesuffix("s"))
    life.campaign.is_damaged = True
    return paused(life, who, timeout_s * life.random.uniform(*BEYOND_S))


def _is_hasty(_kind: object, profile: object) -> bool:
    return isinstance(profile, dict) and "MUSTELA__COMMIT_TIMEOUT" in profile


SHOCKS = [
    *(Shock(name=f"pause-{who}", strike=partial(_short, who), weight=20) for who in WHO),
    *(
        Shock(name=f"pause-{who}-beyond", strike=partial(_beyond, who), fits=_is_hasty)
        for who in WHO
    ),
]
