"""Who goes on when two instances meet is told by the epochs topic, not by who was fenced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import TransactionFenced
from mustela.errors import EnvironmentFault
from mustela.runtime.commit.successor import CLAIM_WAIT_S, FencedError, Successor
from mustela.runtime.record.epoch_record import EpochRecord
from tests.unit.runtime.plans import some_state, word_count_plan

STATE = some_state(word_count_plan())
ERROR = TransactionFenced("fenced")


def record(incarnation: int) -> EpochRecord:
    return replace(STATE, incarnation=incarnation).to_record(1)


def waiting(read: Callable[[ManualClock], Any]) -> tuple[Successor, ManualClock]:
    clock = ManualClock()
    return Successor("app", lambda: read(clock), clock), clock


def test_a_claim_that_comes_a_moment_later_is_waited_for() -> None:
    """The newer instance opens its producer first and commits its claim then."""
    looks, clock = waiting(lambda clock: record(3 if clock.now_ms() > 400 else 2))
    with pytest.raises(FencedError, match="another instance of app took over") as raised:
        looks.refuse_soon(2, ERROR)
    assert raised.value.__cause__ is ERROR
    assert clock.monotonic() < CLAIM_WAIT_S


def test_who_never_claims_does_not_take_over() -> None:
    """It ended between its two steps, or only asked how its own commit ended."""
    looks, clock = waiting(lambda _clock: record(2))
    looks.refuse_soon(2, ERROR)
    assert clock.monotonic() >= CLAIM_WAIT_S


@pytest.mark.parametrize("last", [None, record(1), record(2)])
def test_no_record_and_ones_own_refuse_nothing(last: EpochRecord | None) -> None:
    """Only a higher incarnation is a newer instance."""
    Successor("app", lambda: last, ManualClock()).refuse(2, ERROR)


def test_a_broker_that_does_not_answer_refuses_nothing() -> None:
    """The error at hand is what is known then."""

    def read() -> EpochRecord:
        raise EnvironmentFault("no answer")

    Successor("app", read, ManualClock()).refuse(2, ERROR)
