"""From nothing to the first epoch, beside other instances that do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import TransactionFenced
from mustela.errors import InvariantError
from mustela.model import TopicPartition
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.ports import World
from mustela.runtime.start.opening import CLAIMS_MAX
from tests.integration.no_engine import NoEngine, Silent
from tests.unit.runtime.fakes import FakeAdmin, FakeSink, world_of
from tests.unit.runtime.plans import GROUPS, settings_for, some_state, word_count_plan

AHEAD = InvariantError("the state of key group 1 is ahead of the last epoch")
LOG = "app-counts-changelog"


class Restoring(NoEngine):
    """An engine that finds on disk what is not committed, as far as it knows."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    def restore(self, *_: object) -> list[object]:
        self._meanwhile()
        raise AHEAD


def starting(directory: Path, world: World, engine: NoEngine) -> Coordinator:
    settings = settings_for(directory)
    given: Any = engine
    return Coordinator(
        settings, word_count_plan(), given, clock=world.clock, listener=Silent(), world=world
    )


def world(**failures: list[Exception]) -> World:
    admin = FakeAdmin({"lines": 2, "counts": 1})
    return world_of(admin, clock=ManualClock(60_000), sink=FakeSink(**failures))


@pytest.mark.parametrize("claims", [3, 4], ids=["nobody took over", "another one took over"])
def test_who_was_replaced_while_it_restored_says_so(tmp_path: Path, claims: int) -> None:
    """On the same host the newer one has gone on with the state that this one finds."""
    state = some_state(word_count_plan())
    admin = FakeAdmin(
        {"lines": 2, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS},
        ids={"lines": "id-1"},
        ends={TopicPartition(topic, n): 99 for topic in ("lines", LOG) for n in range(GROUPS)},
    )
    here = world_of(admin, state.to_record(1), clock=ManualClock(60_000), sink=FakeSink())
    log: Any = here.epochs

    def meanwhile() -> None:
        log.records.extend(state.claimed_by(n).to_record(2) for n in range(3, claims + 1))

    coordinator = starting(tmp_path, here, Restoring(meanwhile))
    with pytest.raises(FencedError if claims > 3 else InvariantError) as raised:
        coordinator.prepare()
    assert (raised.value.__cause__ or raised.value) is AHEAD
    assert (coordinator.barrier.phase is Phase.FENCED) == (claims > 3)


def test_a_claim_is_made_again_as_long_as_nobody_else_makes_one(tmp_path: Path) -> None:
    """Two others have fenced it: one asks how its last commit ended, one dies before it claims."""
    fenced: list[Exception] = [TransactionFenced("fenced") for _ in range(3)]
    coordinator = starting(tmp_path, world(commit=fenced), NoEngine())
    coordinator.prepare()
    assert coordinator.state.incarnation == 1


def test_a_claim_is_not_made_for_ever(tmp_path: Path) -> None:
    """Somebody opens producers of its name all the time, and writes no records."""
    fenced: list[Exception] = [TransactionFenced("fenced") for _ in range(CLAIMS_MAX)]
    coordinator = starting(tmp_path, world(commit=fenced), NoEngine())
    with pytest.raises(FencedError):
        coordinator.prepare()
