"""The broker is killed and comes back, at each phase of the epoch protocol."""

from __future__ import annotations

import time

from tests.faults.life import Life, require
from tests.faults.shocks.shock import Shock, phases_of

__all__ = ["SHOCKS"]

AWAY_S = 1.5


def kill_broker(life: Life) -> str:
    """Kill the broker at a phase; it comes back before or after the phase goes on."""
    life.child()
    rng, broker = life.random, life.broker
    before = broker.mark
    is_back_first = rng.random() < 0.5
    with life.halted(phases_of(life, lanes=rng.random() < 0.2)) as (point, _):
        broker.kill()
        require(not before.alive, f"broker {before.pid} lives on")
        if is_back_first:
            broker.start()
    if not is_back_first:
        time.sleep(rng.random() * AWAY_S)
        broker.start()
    require(broker.pid != before.pid, "the broker is the same process")
    return f"broker {before.pid} ended by SIGKILL at {point or 'any time'}, back as {broker.pid}"


SHOCKS = [Shock(name="kill-broker", strike=kill_broker, weight=2)]
