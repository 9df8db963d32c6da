"""The first epoch record of an application that was never started, for rows that come before it."""

from __future__ import annotations

from mustela.runtime.repairs.repair import Repair, Sight
from mustela.runtime.start.recovery import Recovery

__all__ = ["started"]


def started(recovery: Recovery, repair: Repair, sight: Sight) -> Sight:
    """Make the topics and the record that a first start makes before it reads anything.

    The record is committed alone. Whoever is killed before leaves topics without rows, which a
    start or the next attempt finds as it would have made them; whoever is killed after leaves an
    application that was started and has read nothing.

    Args:
        recovery: Finds where the program starts to read; it has been examined.
        repair: Of the same application.
        sight: What was seen of it: no record.

    Returns:
        What is there now.

    Raises:
        RecordMovedError: If the application was started in the meantime.
        MustelaError: If it cannot be started, as a topic that it reads is missing.
    """
    assert sight.record is None, sight.record
    recovery.ensure_topics()
    repair.fence(sight)
    state = recovery.next_claim(lanes=1)
    repair.claim(state)
    recovery.claimed(state)
    return repair.look()
