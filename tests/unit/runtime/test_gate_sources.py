"""The gate and source topics: partitions that were added, answers that lack a topic."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.admin import MissingTopicError, TopicDescription
from mustela.runtime.start.recovery import Recovery
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import settings_for
from tests.unit.runtime.test_gate import Runs, counting, place


class Forgetful(FakeAdmin):
    """Some answers lack a topic."""

    lacks = 0

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        found = super().describe(topics)
        if "more" in found and self.lacks:
            self.lacks -= 1
            del found["more"]
        return found


@pytest.mark.parametrize("settled", [0, 1, 2])
def test_a_source_that_an_answer_lacks_is_asked_for_again(tmp_path: Path, settled: int) -> None:
    """Read without it, the watermark would pass its records; if it is gone that is a stop."""
    admin = Forgetful({"lines": 1, "more": 1})
    runs = Runs(tmp_path, admin)
    program = counting("lines", "more")
    runs.run(program)
    world = world_of(admin, *filter(None, [runs.record]), clock=ManualClock())
    recovery = Recovery(settings_for(tmp_path), runs.plan_of(program), world)
    recovery.ensure_topics()
    if settled < 2:
        admin.lacks = 1 + settled
        state = recovery.read_state(lanes=1)
        assert state.sources.next_offsets == {place(): 10, place("more"): 10}
        assert not state.dormant
    else:
        del admin.partitions["more"]
        with pytest.raises(MissingTopicError, match="source topic 'more' does not exist"):
            recovery.read_state(lanes=1)


def test_a_partition_that_was_added_and_lost_records_unread_is_refused(
    tmp_path: Path,
) -> None:
    """It begins with its first record, or at the start somebody has been asked to accept.

    Where a person said which partitions are read from where, the others may begin anywhere.
    """
    runs = Runs(tmp_path, FakeAdmin({"lines": 1}))
    runs.run(counting())
    runs.admin.partitions["lines"] = 2
    runs.admin.ends[place(partition=1)] = 9
    assert runs.start(counting()).sources.next_offsets == {place(): 10, place(partition=1): 0}
    runs.admin.partitions["lines"], runs.admin.first[place(partition=2)] = 3, 4
    error = runs.refused(counting(), "SOURCE_EXPIRED")
    assert error.evidence == {"lines-2": "never read, now begins at 4"}
    assert runs.record is not None
    runs.record = msgspec.structs.replace(runs.record, fingerprint="")
    assert runs.start(counting()).sources.next_offsets[place(partition=2)] == 4
