"""All kinds of applications, by name."""

from __future__ import annotations

from tests.faults.kinds import (
    chains,
    counting,
    joins,
    outside,
    releases,
    shared,
    tables,
    timers,
    windows,
)
from tests.faults.kinds.kind import Kind

__all__ = ["CHECKED", "KINDS"]

KINDS: dict[str, Kind] = {
    **counting.KINDS,
    **shared.KINDS,
    **outside.KINDS,
    **timers.KINDS,
    **joins.KINDS,
    **tables.KINDS,
    **windows.KINDS,
    **chains.KINDS,
    **releases.KINDS,
}
CHECKED = tuple(name for name, kind in KINDS.items() if kind.model or kind.outcome)
"""Those that the campaign can judge."""
