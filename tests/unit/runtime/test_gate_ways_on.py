"""What the stops of the gate advise, followed: each way on is gone, and the next start goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mustela.aggregates import Count, Max
from mustela.api.upgrades import Upgrade
from mustela.clock import ManualClock
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.repairs import edits
from mustela.runtime.repairs.repair import Repair
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import GROUPS, settings_for
from tests.unit.runtime.test_gate import (
    Program,
    Runs,
    both,
    counting,
    dropped,
    held,
    place,
    table,
    windows,
)

Way = Callable[[Runs], object]


@dataclass(frozen=True)
class Other:
    """Another program to start."""

    program: Program


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What stops a start, and the ways on that its error names.

    Attributes:
        code: The error's code.
        cause: What happened before.
        program: The program that is refused then.
        settings: Its settings.
        ways: By the words of the fix: what is done before the next start of the same program;
            or the program that is started instead, or the settings. None for what is part of
            another way, or cannot be done here.
    """

    code: str
    cause: Way
    program: Program = field(default_factory=counting)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ways: Mapping[str, Way | Other | dict[str, Any] | None]


def bent(**facts: Any) -> Way:
    """Run once, then bend what the broker says."""

    def cause(runs: Runs) -> None:
        runs.run(counting())
        for name, changed in facts.items():
            getattr(runs.admin, name).update(changed)

    return cause


def ran(*programs: Program) -> Way:
    return lambda runs: [runs.run(program) for program in programs]


def reset(runs: Runs) -> None:
    """Do what `mustela reset app` does."""
    for topic in [topic for topic in runs.admin.partitions if topic.startswith("app-")]:
        del runs.admin.partitions[topic]
    for end in [end for end in runs.admin.ends if end.topic.startswith("app-")]:
        del runs.admin.ends[end]
    runs.admin.group.clear()
    runs.record = None


def accepted(edit: Callable[[Any], edits.Edit]) -> Way:
    """Do what `mustela offsets accept app` does; the group mirrors the record after it."""

    def accept(runs: Runs) -> None:
        assert runs.record is not None
        world = world_of(runs.admin, runs.record, clock=ManualClock())
        views = Repair(settings_for(runs.home), world).look().views
        runs.record = edits.edited(runs.record, edit(views), now_ms=1)
        runs.admin.group.update(
            {place(part.topic, part.partition): part.end for part in runs.record.partitions}
        )

    return accept


def drop(store: str, program: Program) -> Way:
    return lambda runs: dropped(runs, store, program)


def made_anew(runs: Runs) -> None:
    runs.run(counting())
    runs.admin.ids["app-counts-changelog"] = "another"


def two(*stores: str) -> Program:
    """Return a program that counts into each of several stores."""

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream("lines", key=str, value=str)
        for store in stores:
            words.group_by_key().count(store=store)

    return build


def ran_and_dropped(runs: Runs) -> None:
    runs.run(counting())
    dropped(runs, "counts", counting())


def without_record(runs: Runs) -> None:
    runs.run(counting())
    runs.record = None
    runs.admin.group.clear()


def beside(runs: Runs) -> None:
    """Let another application have a store whose changelog is named the same."""
    other = Runs(runs.home, runs.admin)
    other.run(counting(store="x"), application_id="app-b")
    assert other.record is not None
    runs.others = {"app-b": [other.record]}


def of_another_format(runs: Runs) -> None:
    runs.run(counting())
    assert runs.record is not None
    runs.record = msgspec.structs.replace(runs.record, state_format=99)


CLEAR = {"clear everything with: mustela reset app": reset}
ANEW = {"start over from what the topics hold: mustela reset app": reset}


def said(**stores: dict[str, Any]) -> Program:
    """Aggregates by name, in a store of their own each."""

    def build(builder: StreamsBuilder) -> None:
        amounts = builder.stream("lines", key=str, value=int).group_by_key()
        for store, fields in stores.items():
            amounts.aggregate(store=store, **fields)

    return build


ORDERS: dict[str, Any] = {"orders": Count()}
LARGEST: dict[str, Any] = {"largest": Max()}
EMPTY = "give it another name, so that it starts empty"
DROP = "drop its rows with: mustela state drop MODULE:APP counts"
DROP_ROWS = "drop its rows with: mustela state drop MODULE:APP rows"

TO_INT = Upgrade(value=float, by=int)
TAKEN = counting(store="words", renamed_from="counts")
LATER = {"so that it starts empty": None}  # where dropping leads
STOPS = [
    Stop(
        code="KEY_GROUPS_CHANGED",
        cause=ran(counting()),
        settings={"key_groups": 8},
        ways={f"set key_groups to {GROUPS}": {"key_groups": GROUPS}, **CLEAR},
    ),
    Stop(
        code="EVENT_TIME_CHANGED",
        cause=ran(counting()),
        settings={"event_time": "stream-time"},
        ways={"set event_time to watermark": {"event_time": "watermark"}, **CLEAR},
    ),
    Stop(
        code="STATE_WITHOUT_RECORD",
        cause=without_record,
        ways={
            "choose another application_id": {"application_id": "other"},
            "if it was being taken over and the seed was interrupted, seed it again": None,
            "clear what is left with: mustela reset app --without-record": reset,
        },
    ),
    Stop(
        code="STATE_FORMAT",
        cause=of_another_format,
        ways={"run the version of Mustela that wrote it": None, **CLEAR},
    ),
    Stop(
        code="OFFSETS_MOVED",
        cause=bent(group={place(): 3}),
        ways={
            "continue from the group's offsets with: mustela offsets accept app": accepted(
                edits.accept_group
            ),
            "set the group back to the record with: mustela offsets accept app --record": accepted(
                lambda _views: edits.Edit()
            ),
            **CLEAR,
        },
    ),
    Stop(
        code="SOURCE_TOPIC_RECREATED",
        cause=bent(ids={"lines": "another"}),
        ways={
            "read the new topic from its start and keep the state with: mustela offsets accept app"
            " --truncated": accepted(edits.accept_broker),
            "start without state: mustela reset app": reset,
        },
    ),
    Stop(
        code="SOURCE_TRUNCATED",
        cause=bent(ends={place(): 6}),
        ways={
            "continue where the log still is what was read, and keep the state, with: mustela "
            "offsets"
            " accept app --truncated": accepted(edits.accept_broker),
            **ANEW,
        },
    ),
    Stop(
        code="SOURCE_EXPIRED",
        cause=bent(ends={place(): 30}, first={place(): 12}),
        ways={
            "raise the topic's retention.ms, and continue at the first record that is left with:"
            " mustela offsets accept app --truncated": accepted(edits.accept_broker),
            **ANEW,
        },
    ),
    Stop(
        code="SOURCE_EXPIRED",
        cause=bent(
            partitions={"lines": 2},
            first={place(partition=1): 12},
            ends={place(partition=1): 12},
        ),
        ways={
            "raise the topic's retention.ms, and continue at the first record that is left with:"
            " mustela offsets accept app --truncated": accepted(edits.accept_broker),
            **ANEW,
        },
    ),
    Stop(
        code="STORE_NAME_TAKEN",
        cause=ran(two("counts", "words")),
        program=TAKEN,
        ways={
            "give the store a name other than 'words'": Other(
                counting(store="tally", renamed_from="counts")
            ),
            **CLEAR,
        },
    ),
    Stop(
        code="CHANGELOG_SHARED",
        cause=beside,
        program=counting(store="b-x"),
        ways={
            "give the store a name other than 'b-x'": Other(counting(store="b.x")),
            "the application an application_id other than 'app'": {"application_id": "shop"},
        },
    ),
    Stop(
        code="STORE_LAYOUT_CHANGED",
        cause=ran(counting()),
        program=windows(60),
        ways={
            "give the changed store another name": Other(windows(60, store="minutes")),
            "change it back": Other(counting()),
            **CLEAR,
        },
    ),
    Stop(
        code="STORE_MEANING_CHANGED",
        cause=ran(windows(60)),
        program=windows(120),
        ways={
            "give the changed store another name": Other(windows(120, store="others")),
            "change it back": Other(windows(60)),
            **CLEAR,
        },
    ),
    Stop(
        code="STORE_MEANING_CHANGED",
        cause=ran(table(float)),
        program=table(int),
        ways={
            "upgrade them: Materialized(version=2, upgrade=Upgrade(value=OldType, by=function)),"
            " or the next number if there already is a version": Other(
                table(int, version=2, upgrade=TO_INT)
            ),
            "change the type back": Other(table(float)),
            "give the store another name": Other(table(int, store="numbers")),
            **CLEAR,
        },
    ),
    Stop(
        code="STORE_MEANING_CHANGED",
        cause=ran(said(totals=ORDERS)),
        program=said(totals={**ORDERS, **LARGEST}),
        ways={
            "leave the aggregates of this store as they were, and put new ones into another "
            'aggregate(..., store="another-name"), which begins empty': Other(
                said(totals=ORDERS, largest=LARGEST)
            ),
            "give the store another name, so that all of them begin empty": Other(
                said(everything={**ORDERS, **LARGEST})
            ),
            **CLEAR,
        },
    ),
    Stop(
        code="STORE_NOT_UPGRADED",
        cause=ran(table(float)),
        program=table(int, version=2),
        ways={
            "say how to read the existing rows, with upgrade={OLD: Upgrade(value=OldType,"
            " by=function)} for each older version": Other(
                table(int, version=2, upgrade={1: TO_INT})
            ),
            DROP_ROWS: drop("rows", table(int, version=2)),
            **CLEAR,
        },
    ),
    Stop(
        code="FORMAT_NOT_HELD",
        cause=ran(table(float)),
        program=table(int, version=2, upgrade=TO_INT),
        settings={"hold_format": True},
        ways={
            "for a new version of rows say the way back,"
            " with upgrade=Upgrade(value=OldType, by=function, back=function)": Other(
                held(table(int, version=2, upgrade=Upgrade(value=float, by=int, back=float)))
            ),
            "set hold_format to false, after which there is no way back": {"hold_format": False},
        },
    ),
    Stop(
        code="STORE_VERSION_FALLEN",
        cause=ran(table(float), table(int, version=2, upgrade=TO_INT)),
        program=table(float),
        ways={
            "run the newer program": Other(table(int, version=2, upgrade=TO_INT)),
            "undo the change with another version, the next number,"
            " whose upgrade restores the old values": Other(
                table(float, version=3, upgrade={1: TO_INT, 2: Upgrade(value=int, by=float)})
            ),
            DROP_ROWS: drop("rows", table(float)),
            **CLEAR,
        },
    ),
    Stop(
        code="STORE_SLEPT",
        cause=ran(counting(), counting(store="renamed")),
        ways={EMPTY: Other(counting(store="fresh")), DROP: drop("counts", counting()), **CLEAR},
    ),
    Stop(
        code="STORE_MOVED_WITHOUT_CHANGELOG",
        cause=ran(counting(logged=False)),
        program=both(logged=False),
        ways={
            "change the program back": Other(counting(logged=False)),
            EMPTY: Other(both(logged=False, store="fresh")),
            **CLEAR,
        },
    ),
    Stop(
        code="CHANGELOG_INCOMPLETE",
        cause=ran(counting(), counting(logged=False)),
        ways={
            "set logged=False again": Other(counting(logged=False)),
            EMPTY: Other(counting(store="fresh")),
            DROP: drop("counts", counting()),
            **CLEAR,
        },
    ),
    Stop(
        code="STORE_DROPPED",
        cause=ran_and_dropped,
        program=counting(logged=False),
        ways={
            "keep its changelog": Other(counting()),
            "give it another name": Other(counting(store="fresh", logged=False)),
            **CLEAR,
        },
    ),
    Stop(
        code="CHANGELOG_RECREATED",
        cause=made_anew,
        ways={
            DROP: drop("counts", counting()),
            **LATER,
            "start over from what the source topics hold: mustela reset app": reset,
        },
    ),
    Stop(
        code="CHANGELOG_TRUNCATED",
        cause=bent(ends={place("app-counts-changelog", 1): 1}),
        ways={
            DROP: drop("counts", counting()),
            **LATER,
            "start over from what the source topics hold: mustela reset app": reset,
        },
    ),
]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.code)
def test_each_way_on_that_a_stop_of_the_gate_names_goes_on(stop: Stop, tmp_path: Path) -> None:
    """Word for word: nothing of the fix is left over, and every way of it leads to a start."""
    left = ""
    for number, (words, way) in enumerate(stop.ways.items()):
        runs = Runs(tmp_path / str(number), FakeAdmin({"lines": 1, "more": 1}))
        stop.cause(runs)
        said = runs.refused(stop.program, stop.code, **stop.settings).fix or ""
        assert words in said
        left = (left or said).replace(words, "")
        if way is None:
            continue
        program, settings = stop.program, dict(stop.settings)
        if isinstance(way, Other):
            program = way.program
        elif isinstance(way, dict):
            settings = way
        else:
            way(runs)
        runs.run(program, **settings)
        runs.admin.group.clear()
        runs.start(program, **settings)
    assert not re.sub(r"[,;]|\bor\b|\s", "", left)
