"""The record that kills its worker is found, named, and left out alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from mustela.errors import EnvironmentFault, MustelaError
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.plan.ranges import LeftOut, SourceRange
from mustela.runtime.engine import EpochJobError, EpochOutput
from mustela.runtime.hunt import Hunt, RecordKilledWorkerError
from mustela.spark.frames import FrameColumns
from mustela.state.interfaces import Token

Place = tuple[int, int, int]
TOPICS = ("in", "more")


def order_of(ranges: Sequence[tuple[int, int, int, int]]) -> EpochOrder:
    tasks = tuple((SourceRange(*part),) for part in ranges)
    return EpochOrder(token=Token(1, 1, 0), ranges=tasks, marks={}, now_ms=0)


def death() -> EpochJobError:
    error = EpochJobError(
        "a Spark worker died", evidence={"last words": "ouch"}, fields={"step": "risky"}
    )
    error.suspect = True
    return error


class World:
    """Epochs whose worker dies of some records.

    Args:
        deadly: Says whether the records of an epoch kill.
    """

    def __init__(self, deadly: Any) -> None:
        self.deadly = deadly
        self.runs: list[set[Place]] = []
        self.letters: list[FrameColumns] = []

    def probe(self, order: EpochOrder) -> EpochOutput | MustelaError:
        left_out = {
            (span.topic_index, span.partition, offset): span
            for span in reversed(order.left_out)
            for offset in range(span.first, span.last + 1)
        }
        places = {
            (part.topic_index, part.partition, offset)
            for ranges in order.ranges
            for part in ranges
            for offset in range(part.start, part.end)
        }
        self.runs.append(places - left_out.keys())
        if self.deadly(self.runs[-1]):
            return death()
        self.letters = [
            FrameColumns("", [str(place).encode()], [b"value"], [1], [span.headers])
            for place, span in left_out.items()
            if span.headers is not None
        ]
        return EpochOutput(reports=[], rows=(), changelogs=(), dead_letters=self.letters, size=0)


def hunt_of(handler: Literal["fail", "continue", "dead_letter"]) -> tuple[Hunt, list[str]]:
    said: list[str] = []
    hunt = Hunt(handler, lambda: TOPICS, said.append)
    assert not hunt.is_on(death())
    assert hunt.is_on(death())
    return hunt, said


RANGES = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(
    lambda sizes: [(n % 2, n // 2, 10 * n, 10 * n + size) for n, size in enumerate(sizes)]
)


@given(ranges=RANGES, data=st.data())
def test_every_deadly_record_is_left_out_and_no_other(
    ranges: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    """One after the other, whatever the ranges are."""
    places = [(t, p, offset) for t, p, start, end in ranges for offset in range(start, end)]
    bad = set(data.draw(st.lists(st.sampled_from(places), max_size=3))) if places else set()
    world, order = World(lambda records: bool(records & bad)), order_of(ranges)
    hunt, said = hunt_of("dead_letter")
    for _ in bad:
        assert hunt.find(order, world.probe)
        hunt.is_on(death())
        hunt.is_on(death())
    spans = hunt.left_out
    assert {(span.topic_index, span.partition, span.first) for span in spans} == bad
    assert all(span.first == span.last for span in spans)
    assert sum(text.startswith("skipping offset") for text in said) == len(bad)
    for span in spans:
        facts = dict(span.headers or ())
        assert facts["mustela.error.offset"] == str(span.first).encode()
        assert facts["mustela.error.step"] == b"risky"


def test_the_error_names_the_record_and_the_last_words() -> None:
    """With ``fail`` nothing is left out."""
    hunt, _ = hunt_of("fail")
    world = World(lambda records: (1, 3, 7) in records)
    with pytest.raises(RecordKilledWorkerError) as caught:
        hunt.find(order_of([(0, 0, 0, 100), (1, 3, 0, 50)]), world.probe)
    assert caught.value.fields == {
        "step": "risky",
        "topic": "more",
        "partition": 3,
        "offset": 7,
        "key": b"(1, 3, 7)",
    }
    assert caught.value.evidence["last words"] == "ouch"
    assert hunt.left_out == ()
    assert len(world.runs) <= 11


@pytest.mark.parametrize(
    "deadly",
    [
        lambda records: len(records) > 30,  # memory: no record is to blame
        lambda records: len(records) > 99,  # the same, and it is the last one
        lambda _records: True,  # a timer
    ],
)
def test_no_record_is_blamed_for_what_it_does_not_do_alone(deadly: Any) -> None:
    """Then smaller epochs may tell more."""
    hunt, _ = hunt_of("continue")
    assert not hunt.find(order_of([(0, 0, 0, 100)]), World(deadly).probe)
    assert hunt.left_out == ()


@pytest.mark.parametrize("last", [40, 99])
def test_a_record_that_kills_with_what_came_before_it_is_blamed(last: int) -> None:
    """A reducer is not called for the first value of a key."""
    hunt, _ = hunt_of("continue")
    world = World(lambda records: {(0, 0, 3), (0, 0, last)} <= records)
    assert hunt.find(order_of([(0, 0, 0, 100)]), world.probe)
    assert [span[:4] for span in hunt.left_out] == [(0, 0, last, last)]


@pytest.mark.parametrize("unlucky", range(1, 13))
def test_deaths_by_chance_blame_nobody(unlucky: int) -> None:
    """However many came before the search, and one within it."""
    hunt, _ = hunt_of("continue")
    world = World(lambda _records: len(world.runs) == unlucky)
    assert not hunt.find(order_of([(0, 0, 0, 100)]), world.probe)
    assert hunt.left_out == ()


def test_an_epoch_without_records_has_none_to_blame() -> None:
    """A timer kills its worker."""
    hunt, said = hunt_of("continue")
    assert not hunt.find(order_of([]), World(lambda _: True).probe)
    assert said == []


def test_one_death_in_a_row_is_no_reason_to_look() -> None:
    """A commit or another error begins the count anew; behind a commit nothing is left out."""
    hunt = Hunt("continue", lambda: TOPICS, lambda _text: None)
    assert not hunt.is_on(death())
    hunt.committed({})
    assert not hunt.is_on(death())
    assert not hunt.is_on(EnvironmentFault("x"))
    assert not hunt.is_on(death())
    assert hunt.is_on(death())
    assert hunt.find(order_of([(0, 0, 0, 9)]), World(lambda r: (0, 0, 4) in r).probe)
    assert hunt.left_out == (LeftOut(0, 0, 4, 4, None, "failed_records:risky"),)
    hunt.committed({TopicPartition("in", 0): 4})
    assert len(hunt.left_out) == 1
    hunt.committed({TopicPartition("in", 0): 5})
    assert hunt.left_out == ()
