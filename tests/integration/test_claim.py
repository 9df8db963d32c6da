"""The coordinator over a real broker and no engine: its claim, and its quiet times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.clock import SystemClock
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.dsl.builder import StreamsBuilder
from mustela.planner.planner import plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.coordinator import Coordinator, FencedError
from mustela.runtime.engine import EpochJobError
from mustela.runtime.kafka_world import last_epoch
from mustela.runtime.start.opening import CLAIMS_MAX
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeSink, await_end
from tests.integration.no_engine import NoEngine, Silent
from tests.unit.runtime.plans import settings_for

pytestmark = pytest.mark.broker
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]
Disturb = Callable[[], None]


@pytest.fixture
def start(
    broker: DevelopmentBroker, admin: KafkaAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, list[Disturb]], Coordinator]]:
    """Start a coordinator; each disturbance comes between one look at the state and its claim."""
    made: list[Coordinator] = []

    def run(name: str, disturbances: list[Disturb]) -> Coordinator:
        admin.create([TopicSpec(name=f"{name}-lines", partitions=1)])
        builder = StreamsBuilder()
        builder.stream(f"{name}-lines", key=str, value=str).to(f"{name}-out", key=str, value=str)
        settings = settings_for(
            tmp_path,
            application_id=name,
            bootstrap_servers=broker.bootstrap_servers,
            topics={"create": True},
        )
        engine: Any = NoEngine()
        coordinator = Coordinator(
            settings, plan(builder.build()), engine, clock=SystemClock(), listener=Silent()
        )
        made.append(coordinator)
        recovery: Any = coordinator.run.opening.recovery
        read = recovery.read_state

        def read_state(*, lanes: int) -> CommittedState:
            state = read(lanes=lanes)
            if disturbances:
                disturbances.pop(0)()
            return state

        monkeypatch.setattr(recovery, "read_state", read_state)
        coordinator.prepare()
        return coordinator

    yield run
    for coordinator in made:
        coordinator.close()


def test_a_claim_is_made_again_when_no_newer_instance_fenced_it(
    start: Callable[[str, list[Disturb]], Coordinator], make_sink: MakeSink, admin: KafkaAdmin
) -> None:
    """An older instance that opens its producer anew, and then goes, does not end a newer one."""
    coordinator = start("claim-again", [lambda: make_sink("claim-again").close()])
    await_end(admin, "claim-again-epochs", 2)  # the record, and the mark of its commit
    last = last_epoch(coordinator.run.settings, admin)
    assert last is not None
    assert (last.incarnation, coordinator.state.incarnation) == (1, 1)


def test_a_claim_is_not_made_without_end(
    start: Callable[[str, list[Disturb]], Coordinator], make_sink: MakeSink
) -> None:
    """Two that fence each other without end both stop."""

    def fence() -> None:
        make_sink("claim-again-and-again").close()

    with pytest.raises(FencedError):
        start("claim-again-and-again", [fence] * CLAIMS_MAX)


def test_a_claim_is_given_up_for_a_newer_one(
    start: Callable[[str, list[Disturb]], Coordinator],
) -> None:
    """Of two that start at once the one that claims goes on, and the other is told."""
    other: list[Coordinator] = []
    with pytest.raises(FencedError):
        start("claim-both", [lambda: other.append(start("claim-both", []))])
    (winner,) = other
    assert not winner.run_once()
    assert winner.state.incarnation == 1


def test_a_tidying_that_fails_does_not_end_the_application(
    start: Callable[[str, list[Disturb]], Coordinator],
) -> None:
    """What a quiet time could not give back is looked at before it is used again."""
    coordinator = start("tidy-fails", [])
    coordinator.state.epoch = 1
    engine: Any = coordinator.run.engine
    tidying: Any = coordinator._chooser.tidying
    tidied: list[object] = []

    def tidy(order: object, *_places: object, **_how: object) -> None:
        tidied.append(order)
        died = "a Spark worker died"
        raise EpochJobError(died)

    engine.tidy = tidy
    tidying.worked(0.0)
    tidying._worked_at -= 20  # idle for so long
    assert not coordinator.run_once()
    assert not coordinator.run_once()
    assert len(tidied) == 1
    assert coordinator.run.is_suspect
