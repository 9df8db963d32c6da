"""From nothing to the first epoch, beside other instances that do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import TransactionFenced
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import InvariantError
from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark
from mustela.planner.planner import plan
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.ports import World
from mustela.runtime.start.opening import CLAIMS_MAX, check_before_start
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


class Rehearsing(NoEngine):
    """An engine that keeps what it is given."""

    def __init__(self) -> None:
        self.rehearsed: list[tuple[Any, Any]] = []
        self.loaded: list[Any] = []

    def rehearse(self, program: Any, order: Any) -> None:
        self.rehearsed.append((program, order))

    def load(self, program: Any) -> None:
        self.loaded.append(program)


def test_what_was_rehearsed_is_what_runs_unless_something_else_was_committed(
    tmp_path: Path,
) -> None:
    """The workers have it under its name; a rehearsal asks for no record, and for copies too."""
    builder = StreamsBuilder()
    towns = builder.global_table("towns", key=str, value=str)
    lines: Any = builder.stream("lines", key=str, value=str)
    lines.join(towns, lambda key, _: key, lambda line, _: line).to("counts", value=str)
    made = plan(builder.build())
    admin = FakeAdmin(
        {"lines": 2, "counts": 1, "towns": 2, "app-epochs": 1},
        ids={"lines": "id-1", "towns": "t"},
        ends={TopicPartition("lines", n): 99 for n in range(2)},
    )
    state = some_state(made)
    here = world_of(admin, state.to_record(1), clock=ManualClock(60_000), sink=FakeSink())
    engine: Any = Rehearsing()
    settings, quiet = settings_for(tmp_path), Silent()
    coordinator = Coordinator(
        settings,
        made,
        engine,
        clock=here.clock,
        listener=quiet,
        world=here,
        checked=check_before_start(settings, made, here, quiet),
    )
    opening = coordinator.run.opening
    for life in ("another", state.life, state.life):
        record = msgspec.structs.replace(state.to_record(1), life=life)
        opening.rehearse(record, settings.state_dir)
    orders = [order for _, order in engine.rehearsed]
    assert [order.ranges for order in orders] == [((),)] * 3
    assert orders[0].global_marks == {"towns": GlobalMark("t", (0, 0))}
    coordinator.prepare()
    names = [program.identity for program, _ in engine.rehearsed]
    assert names[0] != names[1] == names[2] == engine.loaded[0].identity
