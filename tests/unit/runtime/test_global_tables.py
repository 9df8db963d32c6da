"""The topics of global tables as the driver follows them: how far they are read, and which logs."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.connectors.kafka.truncation import LogPosition
from mustela.dsl.builder import StreamsBuilder
from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark, global_identity
from mustela.planner.planner import plan
from mustela.runtime.topics.global_tables import GlobalFollower
from tests.unit.runtime.fakes import FakeAdmin

PLACE = TopicPartition("towns", 0)
OTHER = TopicPartition("towns", 1)


class Following:
    """A follower of one table, whose topic has two partitions."""

    def __init__(self) -> None:
        builder = StreamsBuilder()
        towns = builder.global_table("towns", key=str, value=str, store="towns")
        joined = builder.stream("lines", key=str, value=str).join(
            towns,
            lambda line, town: line + town,
            foreign_key_with_key=lambda key, _line: key,
            name="joined",
        )
        joined.to("out", key=str, value=str)
        self.plan = plan(builder.build())
        self.admin = FakeAdmin({"towns": 2})
        self.said: list[str] = []
        self.follower = self.another()
        self.follower.find()

    def another(self) -> GlobalFollower:
        cluster: Any = self.admin
        return GlobalFollower(self.plan, cluster, self.said.append)

    def see(self, end: int, leader: int, other: int = 0) -> GlobalMark:
        """Look at the ends of the partitions; return what is to be read."""
        self.admin.ends, self.admin.leaders = {PLACE: end, OTHER: other}, {PLACE: leader}
        self.follower.see(self.admin.log_ends([PLACE, OTHER]))
        return self.follower.marks["towns"]


@pytest.fixture
def following() -> Following:
    return Following()


def test_the_ends_go_forward_only(following: Following) -> None:
    """An answer that is older than the last one changes nothing."""
    assert following.see(5, 1, other=2).ends == (5, 2)
    mark = following.see(4, 1, other=3)
    assert (mark.ends, mark.leaders) == ((5, 3), (1, -1))


def test_a_topic_that_lost_records_is_read_from_its_start(following: Following) -> None:
    """It ends before what was read, or has grown past it: the copy from before is not used."""
    before = following.see(5, 1)
    following.admin.kept = {PLACE: 3}
    for end in (3, 9):
        after = following.see(end, 2 if end == 3 else 3)
        assert after.ends == (end, 0)
    assert after.losses == 2
    table = following.plan.global_tables[0]
    assert global_identity(table, before) != global_identity(table, after)
    assert len(following.said) == 2
    assert "lost records that were read" in following.said[0]


def test_a_new_leader_that_has_everything_changes_nothing(following: Following) -> None:
    """It is asked once."""
    following.see(5, 1)
    for _ in range(3):
        mark = following.see(5, 2)
    assert (mark.ends, mark.losses, following.said) == ((5, 0), 0, [])
    assert following.admin.compared == [{PLACE: LogPosition(5, 1)}]


def test_a_loss_while_the_application_was_down_is_noticed(following: Following) -> None:
    """The last epoch record says in which leader's time the topic was read."""
    recorded = {"towns": following.see(5, 1)}
    following.follower = following.another()
    following.follower.resume(recorded)
    following.follower.find()
    following.admin.kept = {PLACE: 3}
    assert following.see(7, 2).losses == 1


def test_a_loss_while_an_epoch_read_on_runs_it_again(following: Following) -> None:
    """What its tasks read may be of both logs; where nothing was to be read nobody is asked."""
    following.see(5, 1)
    assert following.follower.is_still_read(following.admin.describe(["towns"]))
    following.admin.leaders = {PLACE: 2}
    assert following.follower.is_still_read(following.admin.describe(["towns"]))
    following.see(8, 2)
    following.admin.leaders, following.admin.kept = {PLACE: 3}, {PLACE: 6}
    assert not following.follower.is_still_read(following.admin.describe(["towns"]))
    assert following.follower.marks["towns"] == GlobalMark("id-towns", (0, 0), losses=1)
