"""What the running instance knows of its standbys, and whom it hands over to."""

from __future__ import annotations

import msgspec
import pytest

from mustela.clock import ManualClock
from mustela.runtime.lease import (
    Lease,
    LeaseRow,
    StandbyReport,
    TakeOver,
    decode_lease,
    decode_lease_row,
    encode_lease,
)
from mustela.runtime.switching import NoStandbyError, Standbys


def report(name: str = "b", *, ready: bool = True, place: str = "boot:/state") -> StandbyReport:
    """A standby says that it waits."""
    return StandbyReport(
        standby=name,
        host="there",
        pid=8,
        place=place,
        time_ms=1,
        ttl_ms=3_000,
        epoch=4,
        memory_bytes=1 << 20,
        ready=ready,
    )


class Running:
    """A running instance."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.handed_over = 0
        self.said: list[str] = []
        self.standbys = Standbys(self.clock, self._hand_over, self.said.append)

    def _hand_over(self) -> None:
        self.handed_over += 1


@pytest.mark.parametrize("row", [report(), TakeOver(take_over="me", by="b")])
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
    assert running.said[-1] == "hands over to the standby on there (process 8)"
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
    assert raised.value.evidence == {"waiting": "on there (process 8)"}
    running.standbys.hear([report()])
    running.standbys.switch("app")
    assert running.handed_over == 1


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
