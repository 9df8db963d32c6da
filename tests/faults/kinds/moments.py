"""Times of records that have event time: they grow, and some lie a little behind."""

from __future__ import annotations

import random

__all__ = ["BEGIN_MS", "BEHIND_MAX_MS", "PATIENT", "moment", "newest_moment"]

BEGIN_MS = 1_767_225_600_000
STEP_MS = 10
BEHIND_MAX_MS = 400
BEHIND = 0.3
PATIENT = {"MUSTELA__IDLENESS": "10m"}
"""No partition is idle, however long something else takes: its records would be late then."""


def moment(rng: random.Random, number: int) -> int:
    """Return the time of a record: behind the newest before it by `BEHIND_MAX_MS` at most."""
    behind = rng.randrange(BEHIND_MAX_MS - STEP_MS) if rng.random() < BEHIND else 0
    return newest_moment(number) - behind


def newest_moment(number: int) -> int:
    """Return the newest time that records up to a number have."""
    return BEGIN_MS + STEP_MS * number
