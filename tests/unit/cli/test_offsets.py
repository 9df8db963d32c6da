"""mustela offsets: what is typed, and what is told before anything is done."""

from __future__ import annotations

import io
import sys

import pytest

from mustela.cli import asking, offsets, repairing
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime.repairs.edits import Edit, SourceView
from mustela.runtime.repairs.repair import Sight

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def view(place: TopicPartition, recorded: int | None, **more: object) -> SourceView:
    facts = {"group": recorded, "earliest": 0, "end": 99, "recorded_id": "1", "broker_id": "1"}
    return SourceView(place=place, recorded=recorded, **{**facts, **more})  # type: ignore[arg-type]


def sight(*views: SourceView) -> Sight:
    return Sight(None, {view.place: view for view in views})


def refused(code: str, make: object, *args: object, **more: object) -> MustelaError:
    with pytest.raises(MustelaError) as caught:
        make(*args, **more)  # type: ignore[operator]
    assert caught.value.code == code
    return caught.value


def test_offsets_are_typed_in_threes() -> None:
    """Topic, partition and offset, as often as there are partitions."""
    assert offsets._triples(["a", "0", "5", "b", "1", "7"]) == {A: 5, B: 7}


@pytest.mark.parametrize("typed", [[], ["a"], ["a", "0"], ["a", "x", "5"], ["a", "0", "-1"]])
def test_anything_else_is_refused(typed: list[str]) -> None:
    """With an example."""
    assert "TOPIC PARTITION OFFSET" in str(refused("CLI_OFFSETS", offsets._triples, typed))


def test_a_goal_is_one_of_three() -> None:
    """Or none at all; a time needs its zone."""

    def goal(earliest: bool = False, latest: bool = False, time: str | None = None):
        return repairing.goal_of(to_earliest=earliest, to_latest=latest, to_time=time)

    assert goal() is None
    assert goal(earliest=True) == repairing.Goal("earliest")
    assert goal(time="1970-01-01T01:00:01+01:00") == repairing.Goal("time", 1_000)
    refused("CLI_OFFSETS", goal, earliest=True, latest=True)
    refused("CLI_OFFSETS", goal, time="yesterday")
    assert "2026-05-04T10:00Z" in str(refused("CLI_OFFSETS", goal, time="2026-05-04T10:00"))


def test_what_is_read_again_or_never_is_told() -> None:
    """State stays, so a person must know that records count twice."""
    told = repairing.told_of(sight(view(A, 10), view(B, 3)), Edit(offsets={A: 4, B: 8}))
    assert told == [
        "a-0: from 10 to 4",
        "b-1: from 3 to 8",
        "state stays: 6 offsets are read again, and their records counted again, or dropped as"
        " late",
        "5 offsets are skipped unread",
    ]


def test_a_group_that_is_set_back_is_told() -> None:
    """It is mirrored with every change."""
    moved = sight(view(A, 10, group=2))
    assert repairing.told_of(moved, Edit()) == ["group of a-0: reset to 10"]
    assert repairing.told_of(sight(view(A, 10)), Edit(offsets={A: 10})) == []


def test_topics_that_were_made_again_are_told() -> None:
    """Old offsets say nothing about them."""
    anew = sight(view(A, 10, broker_id="2"), view(B, 3, end=None, earliest=None))
    told = repairing.told_of(anew, Edit(offsets={A: 0}, dropped=frozenset({B})))
    assert told == ["a-0: from 0", "b-1: no longer exists"]


def test_without_a_terminal_a_yes_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script must say it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    error = refused("NOT_CONFIRMED", asking.confirm, ["a"], what="nothing is changed")
    assert error.fix == "add --yes"


@pytest.mark.parametrize(("typed", "fine"), [("yes\n", True), ("y\n", True), ("\n", False)])
def test_on_a_terminal_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, typed: str, fine: bool
) -> None:
    """Anything but a yes changes nothing."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    if fine:
        asking.confirm(["a"], what="nothing is changed")
    else:
        refused("NOT_CONFIRMED", asking.confirm, ["a"], what="nothing is changed")
