"""All shocks, by name."""

from __future__ import annotations

from tests.faults.shocks import (
    brokers,
    clocks,
    disks,
    kills,
    machines,
    pauses,
    releases,
    sources,
    topics,
    zombies,
)
from tests.faults.shocks.shock import Shock

__all__ = ["SHOCKS"]

_FAMILIES = (pauses, kills, brokers, zombies, sources, machines, disks, clocks, topics, releases)
SHOCKS: dict[str, Shock] = {shock.name: shock for family in _FAMILIES for shock in family.SHOCKS}
