"""Why an instance ends whose topics are gone: somebody deleted them, or another one took over."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import SourceGone, TransactionFenced
from mustela.errors import EnvironmentFault, InvariantError
from mustela.model import TopicPartition
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.epochs import ChangelogGoneError, EpochReader, EpochsTopicGoneError
from mustela.runtime.commit.outcome import Outcome
from mustela.runtime.commit.successor import FencedError, Successor
from tests.unit.runtime.fakes import FakeLog, FakeSink

PLACE = TopicPartition("lines", 0)


def asked(error: EnvironmentFault, sink: FakeSink, barrier: Barrier) -> None:
    reader = EpochReader(FakeLog(), "app")
    transactions: Any = sink
    outcome = Outcome(transactions, reader, Successor("app", reader.newest, ManualClock()))
    outcome.refuse_if_deposed(error, barrier, PLACE)


@pytest.mark.parametrize("gone", [SourceGone, ChangelogGoneError, EpochsTopicGoneError])
@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.IN_HAND])
def test_who_was_fenced_before_its_topics_went_says_so(
    gone: type[EnvironmentFault], phase: Phase
) -> None:
    """And writes nothing more, not even to its local state."""
    sink, barrier = (
        FakeSink(offsets=[TransactionFenced("fenced")]),
        Barrier(incarnation=3, last_epoch=7),
    )
    barrier.phase = phase
    with pytest.raises(FencedError) as caught:
        asked(gone("gone"), sink, barrier)
    assert caught.value.__cause__ is not None
    assert barrier.phase is Phase.FENCED
    assert sink.committed == []


@pytest.mark.parametrize(
    ("failures", "asks"),
    [
        ({}, True),
        ({"begin": [InvariantError("no producer")]}, True),
        ({"offsets": [EnvironmentFault("no broker")]}, True),
        ({"offsets": [TransactionFenced("fenced")]}, False),
    ],
    ids=["nobody took over", "nothing was claimed", "no broker", "another error"],
)
def test_else_what_is_gone_is_the_reason(failures: dict[str, list[Exception]], asks: bool) -> None:
    """Nothing is asked about an error that has to do with no topic."""
    sink = FakeSink(**failures)
    asked(
        SourceGone("gone") if asks else EnvironmentFault("else"),
        sink,
        Barrier(incarnation=3, last_epoch=7),
    )
    assert bool(sink.calls) == asks
    assert sink.committed == []
