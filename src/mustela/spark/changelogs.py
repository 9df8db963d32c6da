"""What a host's copy of a changelog may be believed by, told by the log and not by clocks.

Changelogs carry the time at which the broker took each record. So the log itself says where the
records begin that are young enough for every deletion among them to be still there: a copy that has
read up to there has missed none, however wrong the clocks were when it was written.
"""

from __future__ import annotations

from mustela.clock import SystemClock
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.spark.process import Process
from mustela.state.interfaces import Committed, Environment

__all__ = ["has_every_deletion"]


def has_every_deletion(process: Process, environment: Environment, committed: Committed) -> bool:
    """Whether the changelogs still hold every deletion that a copy has not read yet.

    A store that has read nothing has no row that could be deleted. Of two clocks the later one
    counts: the copy seems older by it, and to read anew is never wrong.

    Args:
        process: The process's things.
        environment: The copy.
        committed: The committed state, which it is behind.
    """
    program, spec = process.program, environment.spec
    positions = environment.positions()
    now = max(SystemClock().now_ms(), committed.time_ms)
    reached: dict[tuple[str, int], int] = {}
    times: dict[tuple[str, int], int] = {}
    for store in spec.stores:
        topic = changelog_topic(program.application_id, store.name)
        position = positions.get(store.name, 0)
        age = program.stale_after_ms.get(topic) if store.logged else None
        if age is not None and 0 < position < committed.changelog_ends.get(store.name, 0):
            place = TopicPartition(topic, spec.group)
            reached[place], times[place] = position, now - age
    if not times:
        return True
    young = process.admin.offsets_for_times(times)
    return all(first is not None and first <= reached[place] for place, first in young.items())
