"""Another release of the program for a while, which lacks a source; then the first one again."""

from __future__ import annotations

import time

from tests.faults.kinds.kind import Kind
from tests.faults.kinds.releases import KINDS, RELEASE
from tests.faults.life import Life, require
from tests.faults.shocks.shock import Profile, Shock
from tests.faults.watch import ends_of
from tests.patience import PATIENCE_S

__all__ = ["SHOCKS"]


def back_and_forth(life: Life) -> str:
    """Stop or kill, run the other release, stop or kill, run the first one again."""
    campaign = life.campaign
    place = f"{campaign.prefix}.more", 0
    life.child()
    ways = [_end(life)]
    life.environment[RELEASE] = "without"
    try:
        life.start()
        life.settle(life.epoch)
        last = campaign.watcher.seen.records[-1]
        require(place[0] in last.dormant, f"{last.dormant} rest")
        left_at = ends_of(last).get(place, 0)
        ways.append(_end(life))
    finally:
        del life.environment[RELEASE]
    life.start()
    deadline = time.monotonic() + PATIENCE_S
    while ends_of(campaign.watcher.seen.records[-1]).get(place, 0) <= left_at:
        require(time.monotonic() < deadline, f"{place} stays at {left_at}")
        life.settle(life.epoch)
    return f"{place[0]} rested at {left_at}, releases ended by {' and '.join(ways)}"


def _end(life: Life) -> str:
    child = life.campaign.child
    assert child is not None
    if life.random.random() < 0.5:
        life.kill_app()
        return "SIGKILL"
    code = child.stop()
    life.campaign.child = None
    require(code == 0, f"it stopped with {code}")
    return "SIGTERM"


def _has_releases(kind: Kind, _profile: Profile) -> bool:
    return kind is KINDS["releases"]


SHOCKS = [Shock(name="release", strike=back_and_forth, weight=8, fits=_has_releases)]
