"""What the simulator found: each as the seed, or the few events, that showed it."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.play import play
from tests.simulation.script import Event, Script

FOUND = Path(__file__).with_name("found")
OPTIONS: dict[str, Any] = {
    "lanes": 2,
    "key_groups": 2,
    "max_records": 3,
    "chunk": 5,
    "partitions": 2,
    "refresh_s": 5,
    "commit_timeout_s": 5,
    "idleness_s": 3,
    "reset": "earliest",
    "drift_s": None,
}


def test_a_request_that_fails_while_a_backlog_is_cut_is_borne() -> None:
    """One question about offsets for a time, without an answer, ended the application."""
    rows = tuple((b"k", b"v%d" % number) for number in range(9))
    script = Script(
        seed=1,
        program="two",
        options=OPTIONS,
        events=(
            Event(0, "start", (0, 0, 0)),
            Event(40, "produce", ("side", 0, rows, "plain")),
            *(Event(42 + number, "fail") for number in range(0, 12, 4)),
        ),
    )
    result = play(script)
    assert result.violations == []
    assert result.ends == ["stopped"]


def test_a_question_that_fails_while_an_outcome_is_looked_for_is_borne() -> None:
    """A second failure, right after a commit that failed, ended the application."""
    assert play(script_of("any_11221")).violations == []


def test_rows_that_retention_took_from_a_changelog_stop_the_start() -> None:
    """They were taken for compaction, and windows were restored short."""
    result = play(script_of("absence_1"))
    assert result.violations == []
    assert "CHANGELOG_ROWS_LOST" in result.ends


def test_an_instance_without_anything_to_commit_notices_that_it_was_replaced() -> None:
    """Kafka tells only who commits: it waited for ever, as if it was the one that goes on."""
    events = (
        Event(0, "start", (0, 0, 0)),
        Event(80, "stop", (0,)),
        Event(130, "start", (0, 0, 0)),
        Event(130, "start", (1, 0, 1)),
    )
    result = play(Script(seed=1, program="count", options=OPTIONS, events=events))
    assert result.violations == []
    assert result.ends == ["stopped", "FENCED", "stopped"]


def script_of(name: str) -> Script:
    """Return a script as it was drawn when it found something: seeds are drawn otherwise today."""
    told = literal_eval((FOUND / f"{name}.txt").read_text(encoding="utf-8"))
    return Script(**{**told, "events": tuple(Event(*event) for event in told["events"])})


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, id=f"{kind} {seed}: {what}")
        for kind, seed, what in (
            ("version", 61, "a source leaves the program for one run, and is read again"),
            ("hide", 1, "the same where one answer about topics lacks it"),
            ("held", 1, "an open upstream transaction counts as idleness"),
            ("held", 3375, "one that a transaction holds back comes to the moment of a cut"),
            ("held", 2814, "the same, where another instance reads the rest of a backlog"),
            ("drift", 9637, "a partition too far ahead comes to the moment of a cut"),
            ("gone", 7933, "another release deletes, on the same host, what is being restored"),
            ("claim", 5807, "two instances start without an epochs topic: one of them is fenced"),
            ("lost", 11486, "epochs, changelogs and group are lost: counting begins anew"),
            ("second", 7397, "an instance that has nothing to commit was replaced long ago"),
            ("lists", 36139, "records that are far ahead of the watermark wait in lists of a copy"),
            ("expiry", 20438, "a partition that was added loses a record before anybody looks"),
            ("compact", 12077, "a changelog is compacted while it is read"),
            ("expire", 9928, "a partition that was added, and lost records before the first look"),
            ("hide", 18464, "one answer at the start lacks a source: the watermark passes it"),
            ("skew", 651, "a clock that was ahead for a while holds the watermark up"),
            ("version", 148, "windows of another size under one store's name"),
            ("truncate", 49, "a source log that lost its end and has grown past it again"),
            ("truncate", 124, "the same, with nothing but aborted records where it grew"),
            ("truncate", 82, "a global table's log that lost its end"),
            ("truncate", 136, "a log of which nothing but aborted records was read"),
            ("truncate", 282, "a copy of what a global table's topic lost, read by no epoch"),
            ("truncate", 434, "a log that loses its end while it is read: both are right"),
            (
                "beside",
                834,
                "who was replaced while it stood still finds newer state",
            ),
            ("beside", 884, "three instances: a claim is fenced by two others that make none"),
            ("beside", 1486, "an older instance, on its way out, drops a newer one's pending rows"),
            ("calls", 8702, "a worker that made calls is killed, and no record comes after"),
            ("lost", 73251, "a commit without an answer ends after its epochs topic is gone"),
            ("recreate", 20, "a source topic that was made anew, before anybody looks"),
            ("recreate", 107, "a global table's topic that was made anew between two looks"),
        )
    ],
)
def test_what_went_wrong_once(kind: str, seed: int) -> None:
    """A seed that found a silent wrong result before the gate was there."""
    assert play(script_of(f"{kind}_{seed}")).violations == []
