"""What a shock is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.faults.kinds.kind import Kind
from tests.faults.life import Life

__all__ = ["DRIVER_POINTS", "LANES_WRITE", "OWNERS_WRITE", "WRITERS", "Shock", "phases_of"]

WRITERS = "MUSTELA__COMMIT__WRITERS"
LANES_WRITE = {WRITERS: "lanes", "MUSTELA__COMMIT__LANE_ROWS": "1"}
"""Settings with which lanes write each changelog row by themselves."""

DRIVER_POINTS = (
    "before-job",
    "transaction-begun",
    "half-produced",
    "flushed",
    "offsets-added",
    "commit-sent",
    "committed",
)
OWNER_BYTES = "MUSTELA__COMMIT__OWNER_BYTES"
OWNERS_WRITE = {**LANES_WRITE, OWNER_BYTES: "1"}
"""Settings with which, on a cluster, owners of partitions write each sink row, too."""
_INPUT_ONLY = {"before-job", "offsets-added", "in-source"}
_STATE_ONLY = {"in-lane-before-pending", "in-lane-after-pending"}
_WRITERS_ONLY = ("in-lane-writing", "in-lane-written")
_OWNERS_ONLY = ("in-owner-writing", "in-owner-written")
Profile = Mapping[str, str]
"""Settings that a slice runs with."""


def always(_kind: Kind, _profile: Profile) -> bool:
    """Fit everything."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shock:
    """A fault that is made on purpose.

    Attributes:
        name: Stable: the ledger counts by it.
        strike: Makes it, and returns what shows that it happened. It raises `NotHappenedError` when
            it did not.
        weight: How often it comes, beside others: cheap ones come often.
        fits: Tells whether an application with some settings can have it.
        missing: Says why this machine cannot have it; empty when it can.
    """

    name: str
    strike: Callable[[Life], str]
    weight: int = 1
    fits: Callable[[Kind, Profile], bool] = always
    missing: Callable[[], str] = lambda: ""


def phases_of(life: Life, *, lanes: bool = False) -> tuple[str, ...]:
    """Return the phases that an application comes to: the driver's, or those of its workers."""
    facts, loose = life.campaign.facts, life.campaign.guarantee == "at_least_once"
    points = DRIVER_POINTS if not lanes else ("in-source", *sorted(_STATE_ONLY))
    if lanes and facts.has_state and life.campaign.settings.get(WRITERS) == "lanes":
        points += _WRITERS_ONLY
    owned = OWNER_BYTES in life.campaign.settings
    if lanes and owned and not loose:
        points += _OWNERS_ONLY
    never = {"half-produced"} if loose or owned else set[str]()
    never |= set() if facts.inputs else _INPUT_ONLY
    never |= set() if facts.has_state else _STATE_ONLY
    return tuple(point for point in points if point not in never)
