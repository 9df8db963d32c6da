"""What the running instance knows of its standbys, and whom it hands over to."""

from __future__ import annotations

import msgspec
import pytest

from mustela.clock import ManualClock
from mustela.runtime.lease import (
    Lease,
    LeaseRow,
    StandbyReport,
    SwitchRefused,
    TakeOver,
    decode_lease,
    decode_lease_row,
    encode_lease,
)
from mustela.runtime.switching import (
    CAUGHT_UP_S,
    NoStandbyError,
    Standbys,
    standby_behind,
)


def report(
    name: str = "b", *, ready: bool = True, place: str = "boot:/state", epoch: int = 4
) -> StandbyReport:
    """A standby says that it waits."""
    return StandbyReport(
        standby=name,
        host="there",
        pid=8,
        place=place,
        time_ms=1,
        ttl_ms=3_000,
        epoch=epoch,
        memory_bytes=1 << 20,
        ready=ready,
    )


class Running:
    """A running instance."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.handed_over = 0
        self.committed = 4
        self.said: list[str] = []
        self.answers: list[LeaseRow] = []
        self.standbys = Standbys(
            self.clock,
            lambda: self.committed,
            self._hand_over,
            self.said.append,
            self.answers.append,
        )

    def _hand_over(self) -> None:
        self.handed_over += 1


REFUSED = SwitchRefused(refused="me", committed=7, waiting="b", behind=True)


@pytest.mark.parametrize("row", [report(), TakeOver(take_over="me", by="b"), REFUSED])
def test_other_rows_of_the_lease_topic_are_no_leases(row: LeaseRow) -> None:
    """For a version that knows leases alone, too: it lacks what each of its leases has."""
    data = encode_lease(row)
    assert decode_lease_row(data) == row
    assert decode_lease(data) is None
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=Lease)


def test_who_is_asked_hands_over_to_a_standby_that_is_ready() -> None:
    """It goes on where none is, or where the last report of one is too old."""
    running = Running()
    running.standbys.hear([TakeOver(take_over="me")])
    assert (running.handed_over, len(running.said)) == (0, 1)
    running.standbys.hear([report(ready=False), TakeOver(take_over="me")])
    assert running.handed_over == 0
    running.standbys.hear([report(), TakeOver(take_over="me")])
    assert running.handed_over == 1
    assert running.said[-1] == "hands over to the standby on there (process 8), which has epoch 4"
    assert running.standbys.successor == "b"
    running.clock.advance(3_001)
    running.standbys.hear([TakeOver(take_over="me")])
    assert running.handed_over == 1


def test_a_promotion_is_none_of_the_running_instance_s_business() -> None:
    """It is for one standby, which fences."""
    running = Running()
    running.standbys.hear([report(), TakeOver(take_over="me", by="b")])
    assert running.handed_over == 0


def test_without_a_standby_a_switch_is_refused_and_its_fix_helps() -> None:
    """The error names those that wait and are not ready."""
    running = Running()
    running.standbys.hear([report(ready=False)])
    with pytest.raises(NoStandbyError) as raised:
        running.standbys.switch("app")
    assert raised.value.evidence == {"waiting": "on there (process 8), not ready at epoch 4"}
    running.standbys.hear([report()])
    running.standbys.switch("app")
    assert running.handed_over == 1


def test_a_switch_waits_until_the_standby_has_what_was_committed_when_it_was_asked() -> None:
    """Meanwhile the instance goes on, and commits: what it commits then is not waited for."""
    running = Running()
    running.committed = 7
    running.standbys.hear([report(epoch=4), TakeOver(take_over="me")])
    running.committed = 9
    running.standbys.hear([])
    running.standbys.hear([report(epoch=6)])
    assert running.handed_over == 0
    running.standbys.hear([report(epoch=7)])
    assert running.handed_over == 1
    running.standbys.hear([report(epoch=8)])
    assert running.handed_over == 1


def test_a_standby_that_does_not_catch_up_gets_nothing_unless_forced() -> None:
    """Who asked is told, and what the fix says helps; a later report changes nothing."""
    running = Running()
    running.committed = 7
    running.standbys.hear([report(epoch=4), TakeOver(take_over="me")])
    for _ in range(int(CAUGHT_UP_S)):
        running.clock.advance(1_000)
        assert running.answers == []
        running.standbys.hear([report(epoch=5)])
    (answer,) = running.answers
    assert isinstance(answer, SwitchRefused)
    assert (answer.refused, answer.committed, answer.behind) == ("me", 7, True)
    assert answer.waiting == "on there (process 8), ready at epoch 5"
    running.standbys.hear([report(epoch=7)])
    assert running.handed_over == 0
    error = standby_behind("app", answer)
    assert error.code == "STANDBY_BEHIND"
    assert str(error.fix).endswith("mustela ha switch app --force")
    running.committed = 9
    running.standbys.hear([TakeOver(take_over="me", force=True)])
    assert (running.handed_over, len(running.answers)) == (1, 1)


def test_who_is_named_takes_over_and_nobody_else() -> None:
    """By its whole name or by its host; the others let it try first."""
    running = Running()
    running.standbys.hear([report("a/1/5"), report("b/1/5", epoch=3), report("b/2/5")])
    running.standbys.hear([TakeOver(take_over="me", to="c")])
    assert (running.handed_over, len(running.answers)) == (0, 1)
    running.standbys.hear([TakeOver(take_over="me", to="b")])
    assert (running.handed_over, running.standbys.successor) == (1, "b/2/5")
    others = Running().standbys
    others.hear_of_others([report("a/1/5"), report("b/1/5"), ended("b/2/5")])
    names = ("a/1/5", "b/1/5", "b/2/5")
    assert [others.before(name, ready=True) for name in names] == [1, 1, 0]
    others.hear_of_others([ended("", is_over=False)])
    assert [others.before(name, ready=True) for name in names] == [0, 1, 2]


def test_a_standby_that_begins_anew_is_waited_for() -> None:
    """It was ready when the switch was asked for, and is again before the time is over."""
    running = Running()
    running.standbys.hear([report()])
    running.standbys.hear([report(epoch=3)])
    running.standbys.switch("app")
    running.standbys.hear([report(ready=False, epoch=-1)])
    assert (running.handed_over, running.answers) == (0, [])
    running.standbys.hear([report()])
    assert running.handed_over == 1


def ended(successor: str, *, is_over: bool = True) -> Lease:
    """An instance that has handed over says so, or another one that it lives."""
    return Lease(
        instance="first",
        incarnation=3,
        host="here",
        pid=7,
        started_ms=1,
        time_ms=2,
        ttl_ms=9_000,
        ended=is_over,
        successor=successor,
    )


def test_a_standby_with_the_same_directory_is_known() -> None:
    """The state is closed before it begins."""
    running = Running()
    running.standbys.hear([report()])
    assert running.standbys.share_state("boot:/state")
    assert not running.standbys.share_state("boot:/elsewhere")


def test_the_names_of_standbys_order_those_that_are_ready() -> None:
    """One that is not ready comes after all of them; the order is that of a switch."""
    standbys = Running().standbys
    standbys.hear_of_others([report("c"), report("a", ready=False), report("b")])
    assert [standbys.before(name, ready=True) for name in ("a", "b", "c", "d")] == [0, 0, 1, 2]
    assert standbys.before("a", ready=False) == 2
    assert [row.standby for row in standbys.ready()] == ["b", "c"]
