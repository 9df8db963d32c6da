"""When an application frees disk space: soon after much work, in rounds, and never for long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from mustela.clock import ManualClock
from mustela.errors import EnvironmentFault
from mustela.runtime.tidying import Place, Tidying

PLACES = [(1, group) for group in range(5)]


class Application:
    """Tidies two places in each round, which takes a fifth of a second."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tidying = Tidying(self.clock)
        self.rounds: list[tuple[list[Place], bool]] = []

    def work(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))
        self.tidying.worked(seconds)

    def idle(self, seconds: float) -> int:
        """Be idle, and return in how many rounds it tidied."""
        before, until = len(self.rounds), self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            if self.tidying.is_due:
                self.tidying.round(self.tidy)
            else:
                self.clock.advance(100)
        return len(self.rounds) - before

    def tidy(self, places: Sequence[Place], soon: bool) -> Sequence[Place]:
        todo = list(places) or PLACES
        self.clock.advance(200)
        self.rounds.append((todo[:2], soon))
        return todo[2:]


@pytest.fixture
def application() -> Application:
    return Application()


def test_after_much_work_what_is_quickly_done_is_tidied_soon(application: Application) -> None:
    """All places once, in rounds; and what was left out when it has been idle for longer."""
    application.work(20)
    assert application.idle(5) == 3
    assert [place for some, _ in application.rounds for place in some] == PLACES
    assert all(soon for _, soon in application.rounds)
    assert application.idle(20) == 3
    assert not any(soon for _, soon in application.rounds[3:])
    assert application.idle(60) == 0


def test_after_little_work_it_waits(application: Application) -> None:
    """For ten idle seconds; then once."""
    application.work(1)
    assert application.idle(9) == 0
    assert application.idle(60) == 3
    assert application.idle(60) == 0


def test_records_that_come_between_two_rounds_end_it(application: Application) -> None:
    """The next idle time begins with all places: the epoch may have changed any."""
    application.work(60)
    application.idle(1.1)
    assert len(application.rounds) == 1
    application.work(0.1)
    assert not application.tidying.is_under_way
    application.idle(1.1)
    assert application.rounds[1][0] == PLACES[:2]


def test_one_that_fails_is_not_tried_again_at_once(application: Application) -> None:
    """Neither soon nor later in the same idle time; it does after the next epoch."""

    def fail(_places: Sequence[Place], _soon: bool) -> Sequence[Place]:
        died = "a Spark worker died"
        raise EnvironmentFault(died)

    application.work(60)
    for wait in (1_000, 10_000):
        application.clock.advance(wait)
        with pytest.raises(EnvironmentFault):
            application.tidying.round(fail)
        assert not application.tidying.is_due
    application.work(0)
    application.clock.advance(10_000)
    assert application.tidying.is_due


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 9)), max_size=40))
def test_what_is_tidied_soon_takes_a_tenth_of_what_epochs_take(
    turns: list[tuple[float, float]],
) -> None:
    """Whatever comes, but for the places that were begun with the last of it."""
    application, worked = Application(), 0.0
    for work, idle in turns:
        application.work(work)
        application.idle(idle)
        worked += work
        soon = sum(0.2 for _, is_soon in application.rounds if is_soon)
        assert soon <= worked / 10 + 3 * 0.2
