"""Two instances: the first stands still while a second takes over, then it wakes up."""

from __future__ import annotations

import time
from functools import partial

import psutil

from tests.faults.life import Life, require
from tests.faults.process import ChildEndedError
from tests.faults.shocks.pauses import go_on, stop
from tests.faults.shocks.shock import Shock, phases_of

__all__ = ["SHOCKS"]

FENCED = 4
END_S = 90.0


def zombie(life: Life, *, elsewhere: bool) -> str:
    """Stop the first at a phase, let a second commit, wake the first: it ends as fenced.

    Args:
        life: The application.
        elsewhere: Whether the second has another state directory, as on another host; the whole
            first stands still then, else only its driver.
    """
    first = life.child()
    campaign = life.campaign
    campaign.is_damaged = True
    with life.halted(phases_of(life)) as (point, _):
        found = first.processes() if elsewhere else [psutil.Process(first.pid)]
        stop(found)
    mark = life.epoch
    try:
        if elsewhere:
            campaign.move_state()
        second = life.start()
        second.wait_for("an epoch of the second", lambda: life.epoch > mark)
    finally:
        campaign.alone.append(first)
        go_on(found)
    deadline = time.monotonic() + END_S
    while first.returncode is None:
        if time.monotonic() > deadline:
            msg = f"the fenced instance goes on: {first.events()[-3:]}\n{first.text()}"
            raise ChildEndedError(msg)
        time.sleep(0.02)
    ends = [event.get("code") for event in first.events() if event["event"] == "end"]
    if first.returncode != FENCED:
        msg = f"the fenced instance ended with {first.returncode}, {ends}: {first.text()}"
        raise ChildEndedError(msg)
    first.kill()
    campaign.alone.remove(first)
    require(second.returncode is None, f"the second ended with {second.returncode}")
    where = "elsewhere" if elsewhere else "beside it"
    return f"{first.pid} stood still at {point or 'any time'}, {second.pid} {where}, then {ends}"


SHOCKS = [
    Shock(name="zombie-same-host", strike=partial(zombie, elsewhere=False)),
    Shock(name="zombie-other-host", strike=partial(zombie, elsewhere=True)),
]
