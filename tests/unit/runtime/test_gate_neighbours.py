"""The gate: a changelog whose name two applications make, of other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import KafkaRetryable
from mustela.errors import InvariantError, MustelaError
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.topics.neighbours import Neighbour, neighbours_of, sharing
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import settings_for
from tests.unit.runtime.test_gate import Runs, counting

LOG = "app-b-x-changelog"
MINE, OTHERS = counting(store="b-x"), counting(store="x")
SMALL, LARGE = {"application_id": "app"}, {"application_id": "app-b"}


@pytest.fixture
def both(tmp_path: Path) -> tuple[Runs, Runs]:
    """Two applications on one cluster: ``app``, and ``app-b``."""
    admin = FakeAdmin({"lines": 1})
    return Runs(tmp_path, admin, code=SMALL), Runs(tmp_path, admin, code=LARGE)


def knows(one: Runs, other: Runs) -> None:
    """Let an application find the record of the other one."""
    if other.record is not None:
        one.others = {other.code["application_id"]: [other.record]}


@pytest.mark.parametrize("is_smaller", [True, False])
@pytest.mark.parametrize("has_run", [True, False])
def test_a_changelog_that_another_application_writes_is_refused(
    both: tuple[Runs, Runs], is_smaller: bool, has_run: bool
) -> None:
    """Whichever began first, before it wrote a row and after, on a first start or a later one."""
    mine, other = both if is_smaller else both[::-1]
    program, theirs = (MINE, OTHERS) if is_smaller else (OTHERS, MINE)
    mine.run(counting(store="first"))
    other.run(theirs) if has_run else other.start(theirs)
    mine.admin.group.clear()
    knows(mine, other)
    for _ in range(2):
        error = mine.refused(program, "CHANGELOG_SHARED")
        assert error.fields["topic"] == LOG
        assert error.fields["application"] == other.code["application_id"]
        mine.record = None
    knows(other, mine)
    other.run(theirs)  # it goes on


def test_two_that_begin_at_the_same_time_look_again_when_they_have_claimed(
    both: tuple[Runs, Runs], tmp_path: Path
) -> None:
    """The gate of each was before the claim of the other."""
    mine, other = both
    other.start(OTHERS)
    others: dict[str, list[EpochRecord]] = {}
    world = world_of(mine.admin, clock=ManualClock(60_000), others=others)
    recovery = Recovery(settings_for(tmp_path), mine.plan_of(MINE), world)
    recovery.ensure_topics()
    state = recovery.read_state(lanes=1)
    assert other.record is not None
    others["app-b"] = [other.record]
    with pytest.raises(MustelaError) as raised:
        recovery.claimed(state)
    assert raised.value.code == "CHANGELOG_SHARED"


def test_a_name_alone_is_no_stop(both: tuple[Runs, Runs]) -> None:
    """The other application has no such store, or none with a changelog, or it was of another."""
    mine, other = both
    other.run(counting(store="y"))
    knows(mine, other)
    mine.start(MINE)
    mine.record = other.record = None
    other.admin.group.clear()
    other.run(counting(store="x", logged=False))
    knows(mine, other)
    mine.start(MINE)
    mine.record = other.record = None
    other.admin.group.clear()
    other.start(OTHERS)
    knows(mine, other)
    mine.admin.ids[LOG] = "made again"
    mine.start(MINE)


def test_without_a_changelog_of_its_own_a_store_shares_none(both: tuple[Runs, Runs]) -> None:
    """Rows in the other application's topic are no state of this one's without a record."""
    mine, other = both
    other.run(OTHERS)
    knows(mine, other)
    mine.admin.group.clear()
    mine.start(counting(store="b-x", logged=False))


def test_a_record_that_cannot_be_read_may_name_the_store() -> None:
    """A later version may have written it; that no broker answers says nothing."""
    (one,) = neighbours_of("app", [LOG])
    ids = {"app-b-epochs": "e", LOG: "l"}

    def damaged(_name: str) -> Any:
        what = "damaged"
        raise InvariantError(what, fix="none")

    def unheard(_name: str) -> Any:
        what = "nobody answers"
        raise KafkaRetryable(what, fix="wait")

    assert sharing([one], damaged, ids) == {LOG: one}
    with pytest.raises(KafkaRetryable):
        sharing([one], unheard, ids)
    assert sharing([one], damaged, {LOG: "l"}) == {}


def test_a_record_of_an_older_version_names_its_changelogs(both: tuple[Runs, Runs]) -> None:
    """Without saying what the stores are."""
    _, other = both
    other.run(OTHERS)
    assert other.record is not None
    old = msgspec.structs.replace(other.record, stores={})
    one = Neighbour("app-b", "x", LOG)
    assert sharing([one], lambda _: old, {one.epochs: "e", LOG: "l"}) == {LOG: one}
