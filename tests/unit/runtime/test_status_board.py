"""The board: what the driver writes, and readers see, without a lock between them."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.errors import EnvironmentFault
from mustela.model import TopicPartition
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.events import AppState
from mustela.runtime.status.board import TRACES_MAX, StatusBoard
from mustela.runtime.status.snapshot import EpochTrace, Histogram, Life, SourcesView, Totals
from mustela.runtime.time.watermark import WatermarkState
from tests.told import state_changed

COMMITTING = (Phase.IN_HAND, Phase.BEGUN, Phase.PRODUCED, Phase.OFFSETS_ADDED, Phase.COMMIT_SENT)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def board(clock: ManualClock) -> StatusBoard:
    return StatusBoard(clock)


@pytest.fixture
def barrier(board: StatusBoard) -> Barrier:
    return Barrier(incarnation=2, last_epoch=6, on_phase=board.phase)


def test_each_step_of_the_protocol_is_told(board: StatusBoard, barrier: Barrier) -> None:
    """Which attempt, which phase, and how it ended."""
    board.begin_turn(barrier)
    assert board.in_flight is not None
    assert board.in_flight.phase == "choosing"
    barrier.start()
    for phase in COMMITTING:
        barrier.move(phase)
        assert board.in_flight is not None
        assert board.in_flight.phase == phase.value
    barrier.committed()
    assert board.in_flight is None
    (trace,) = board.recent
    assert (trace.incarnation, trace.epoch, trace.attempt, trace.outcome) == (2, 7, 0, "committed")


def test_an_attempt_that_is_given_up_is_told_apart_from_the_next(
    board: StatusBoard, barrier: Barrier
) -> None:
    """It has the same epoch and another number."""
    for _ in range(2):
        board.begin_turn(barrier)
        barrier.start()
        barrier.give_up()
    barrier.start()
    barrier.move(Phase.IN_HAND)
    barrier.nothing_to_say()
    told = [(trace.epoch, trace.attempt, trace.outcome) for trace in board.recent]
    assert told == [(7, 0, "given up"), (7, 1, "given up"), (7, 2, "nothing to commit")]
    assert board.totals.epochs == {"given up": 2, "nothing to commit": 1}


def test_a_transaction_that_is_begun_again_shows_it(board: StatusBoard, barrier: Barrier) -> None:
    """Its phases stand there twice."""
    barrier.start()
    barrier.move(Phase.IN_HAND)
    barrier.move(Phase.BEGUN)
    barrier.again()
    barrier.move(Phase.BEGUN)
    assert board.in_flight is not None
    names = [name for name, _ in board.in_flight.marks]
    assert names == ["running", "in-hand", "begun", "in-hand", "begun"]


def test_only_the_last_epochs_are_kept(board: StatusBoard, barrier: Barrier) -> None:
    """Memory does not grow with the age of an application."""
    for _ in range(TRACES_MAX * 2):
        barrier.start()
        barrier.give_up()
        board.on_error(EnvironmentFault("away", fix="-"))
        board.on_event(state_changed(AppState.RUNNING))
    assert len(board.recent) == TRACES_MAX
    assert board.recent[-1].attempt == TRACES_MAX * 2 - 1
    assert len(board.faults) == 20
    assert len(board.life.history) == 50


@pytest.mark.parametrize("kind", [EpochTrace, Histogram, Life, SourcesView, Totals])
def test_snapshots_cannot_be_changed(kind: Any) -> None:
    """So a reader needs no lock."""
    assert dataclasses.fields(kind)
    assert kind.__dataclass_params__.frozen


def test_what_a_reader_holds_stays_as_it_was(board: StatusBoard, barrier: Barrier) -> None:
    """The driver replaces values, and changes none."""
    barrier.start()
    held = board.in_flight, board.recent, board.totals, board.life
    shown = repr(held)
    barrier.give_up()
    barrier.start()
    board.on_event(state_changed(AppState.RUNNING))
    board.on_error(EnvironmentFault("away", fix="-"))
    assert repr(held) == shown


def test_a_reader_in_the_middle_of_a_read_does_not_hold_up_the_driver(
    board: StatusBoard, barrier: Barrier
) -> None:
    """There is no lock to be held."""
    reading, go = threading.Event(), threading.Event()
    seen: list[Any] = []

    def read() -> None:
        recent = board.recent
        reading.set()
        assert go.wait(60)
        seen.extend(recent)

    barrier.start()
    barrier.give_up()
    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(60)
    for _ in range(50):
        barrier.start()
        barrier.give_up()
    go.set()
    reader.join(60)
    assert len(seen) == 1


def test_faults_are_kept_without_secrets(board: StatusBoard) -> None:
    """Texts of errors may hold addresses with passwords."""
    board.on_error(RuntimeError("password=hunter2 http://u:hunter2@h/"))
    assert "hunter2" not in repr(board.faults)
    assert board.totals.faults == {"RuntimeError": 1}


def test_a_lag_is_unknown_until_each_partition_has_an_end() -> None:
    """After a start nobody has asked yet: that is not a lag of nothing."""
    one, other = TopicPartition("lines", 0), TopicPartition("lines", 1)
    view = SourcesView(
        seen_ms=0,
        incarnation=1,
        epoch=3,
        next_offsets={one: 7, other: 2},
        ends={one: 10},
        watermark=WatermarkState(),
    )
    assert view.lag is None
    assert dataclasses.replace(view, ends={one: 10, other: 4}).lag == 5
    assert dataclasses.replace(view, next_offsets={}, ends={}).lag == 0
