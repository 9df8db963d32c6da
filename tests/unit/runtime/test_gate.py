"""The gate: every kind of difference between record, broker and program, and what it leads to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mustela.api.options import Materialized
from mustela.api.upgrades import holding
from mustela.api.windows import TimeWindows
from mustela.clock import ManualClock
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.commit.committed import CommittedState, EpochChange
from mustela.runtime.gate.answers import ANSWERS, Verdict
from mustela.runtime.gate.differences import Kind
from mustela.runtime.gate.gate import Gate
from mustela.runtime.record.epoch_record import (
    EpochRecord,
    decode_epoch_record,
    encode_epoch_record,
)
from mustela.runtime.record.source_offsets import Cut
from mustela.runtime.repairs.dropping import drop_of, without
from mustela.runtime.start.recovery import Recovery
from mustela.state.interfaces import Token
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import GROUPS, settings_for

Program = Callable[[StreamsBuilder], object]


def held(program: Program) -> Program:
    """The program as it is built with `hold_format`."""

    def build(builder: StreamsBuilder) -> None:
        with holding(holds=True):
            program(builder)

    return build


def counting(
    *topics: str,
    store: str = "counts",
    logged: bool = True,
    value: Any = str,
    renamed_from: str | None = None,
) -> Program:
    """Count the words of topics by word."""

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(list(topics or ("lines",)), key=str, value=value)
        grouped = lines.group_by(lambda _key, word: word, key=str)
        kept = Materialized[str, int](store=store, logged=logged, renamed_from=renamed_from)
        grouped.count(materialized=kept)

    return build


@dataclass
class Runs:
    """An application's runs one after another, each with a program of its own."""

    home: Path
    admin: FakeAdmin = field(default_factory=FakeAdmin)
    record: EpochRecord | None = None
    said: list[str] = field(default_factory=list[str])
    code: dict[str, Any] = field(default_factory=dict[str, Any])
    others: dict[str, list[EpochRecord]] = field(default_factory=dict[str, list[EpochRecord]])

    def plan_of(self, program: Program) -> Plan:
        builder = StreamsBuilder()
        program(builder)
        return plan(builder.build())

    def start(self, program: Program, **code: Any) -> CommittedState:
        """Go through the gate, and commit the claim."""
        records = [self.record] if self.record else []
        settings = settings_for(self.home, **{**self.code, **code})
        world = world_of(self.admin, *records, clock=ManualClock(60_000), others=self.others)
        recovery = Recovery(settings, self.plan_of(program), world, self.said.append)
        recovery.ensure_topics()
        state = recovery.read_state(lanes=1)
        state = state.claimed_by(state.incarnation + 1)
        self.keep(state)
        return state

    def keep(self, state: CommittedState) -> None:
        self.record = decode_epoch_record(encode_epoch_record(state.to_record(1)))

    def run(self, program: Program, read: int = 10, **code: Any) -> CommittedState:
        """Start, and commit an epoch that reads from each partition and writes each store."""
        state = self.start(program, **code)
        cuts = {p: Cut(at, at + read, at + read) for p, at in state.sources.next_offsets.items()}
        ends: dict[tuple[str, int], int] = {}
        for name, (_, spec) in state.plan.stores.items():
            if spec.logged:
                end = state.changelog_ends[name][1] + 2
                ends[name, 1] = end
                name = {**self.code, **code}.get("application_id", "app")
                self.admin.ends[TopicPartition(f"{name}-{spec.log_name}-changelog", 1)] = end
        for place, cut in cuts.items():
            self.admin.ends[place] = max(cut.end, self.admin.ends.get(place, 0))
        state = state.after(
            EpochChange(
                token=Token(state.incarnation, state.epoch + 1, 0),
                time_ms=5,
                cuts=cuts,
                wrote={stage.index: [1] for stage in state.plan.stages if stage.stores},
                changelog_ends=ends,
                watermark=state.watermark,
            )
        )
        self.keep(state)
        return state

    def refused(self, program: Program, code: str, **settings: Any) -> MustelaError:
        """Start, and be stopped before anything is written."""
        before = self.record
        with pytest.raises(MustelaError) as raised:
            self.start(program, **settings)
        assert raised.value.code == code
        assert self.record is before
        return raised.value

    def heard(self, text: str) -> bool:
        return any(text in said for said in self.said)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path, FakeAdmin({"lines": 1, "more": 1}))


def place(topic: str = "lines", partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


def test_every_kind_has_an_answer() -> None:
    """A stop has an error of its own code, the reason, and a way on."""
    assert set(ANSWERS) == set(Kind)
    for answer in ANSWERS.values():
        stops = answer.verdict is Verdict.STOP
        assert bool(answer.why) == bool(answer.fix) == stops
        assert (answer.error is not MustelaError) == stops


def test_a_source_that_leaves_for_one_run_goes_on_where_it_was(runs: Runs) -> None:
    """A release that was rolled back reads no record twice, and misses none."""
    runs.run(counting("lines", "more"))
    first = runs.run(counting("lines"))
    assert runs.heard("more is not read: its offsets are kept")
    assert place("more") not in first.sources.next_offsets
    runs.admin.ends[place("more")] = 40
    again = runs.start(counting("lines", "more"), auto_offset_reset="latest")
    assert again.sources.next_offsets == {place(): 20, place("more"): 10}
    assert runs.heard("more is read again, from where it was left")


def test_a_source_that_left_and_was_made_anew_is_refused(runs: Runs) -> None:
    """However many runs ago it left."""
    runs.run(counting("lines", "more"))
    runs.run(counting("lines"))
    runs.run(counting("lines"))
    runs.admin.ids["more"] = "another"
    error = runs.refused(counting("lines", "more"), "SOURCE_TOPIC_RECREATED")
    assert error.evidence == {"more": "id-more, now another"}


def test_a_topic_of_a_pattern_that_one_answer_lacks_is_not_forgotten(
    runs: Runs, tmp_path: Path
) -> None:
    """A broker that does not know it yet, or any more, is not the last word."""

    def found(builder: StreamsBuilder) -> None:
        builder.stream(re.compile("li.*|mo.*"), key=str, value=str, name="found").to("out")

    runs.admin.partitions["out"] = 1
    state = runs.run(found)
    world = world_of(runs.admin, clock=ManualClock())
    recovery = Recovery(settings_for(tmp_path), runs.plan_of(found), world)
    recovery.add_new_partitions(state)
    del runs.admin.partitions["more"]
    recovery.add_new_partitions(state)
    assert place("more") not in state.sources.next_offsets
    runs.keep(state)
    runs.admin.partitions["more"] = 1
    recovery.add_new_partitions(state)
    assert state.sources.next_offsets[place("more")] == 10
    assert runs.start(found).sources.next_offsets[place("more")] == 10


def test_a_topic_of_a_pattern_that_was_gone_may_come_back_as_another(
    runs: Runs, tmp_path: Path
) -> None:
    """Who deletes a topic that nobody named wants what it was to end there."""

    def found(builder: StreamsBuilder) -> None:
        builder.stream(re.compile("li.*|mo.*"), key=str, value=str, name="found").to("out")

    runs.admin.partitions["out"] = 1
    state = runs.run(found)
    said: list[str] = []
    world = world_of(runs.admin, clock=ManualClock())
    recovery = Recovery(settings_for(tmp_path), runs.plan_of(found), world, said.append)
    recovery.add_new_partitions(state)
    del runs.admin.partitions["more"]
    recovery.add_new_partitions(state)
    runs.admin.partitions["more"], runs.admin.ids["more"] = 1, "another"
    recovery.add_new_partitions(state)
    assert state.sources.next_offsets[place("more")] == 0
    assert state.topic_ids["more"] == "another"
    assert "deleted and recreated" in said[0]


def test_a_source_that_ends_before_what_was_read_is_refused(runs: Runs) -> None:
    """What is written to it next would be skipped, up to the old offset."""
    runs.run(counting())
    runs.admin.ends[place()] = 6
    error = runs.refused(counting(), "SOURCE_TRUNCATED")
    assert error.evidence == {"lines-0": "read to 10, now ends at 6"}


def test_a_source_that_lost_records_unread_is_refused(runs: Runs) -> None:
    """Retention was shorter than the application was down."""
    runs.run(counting())
    runs.admin.ends[place()], runs.admin.first[place()] = 30, 12
    error = runs.refused(counting(), "SOURCE_EXPIRED")
    assert error.evidence == {"lines-0": "read to 10, now begins at 12"}
    runs.admin.first[place()] = 10
    runs.start(counting())


def test_offsets_of_a_source_that_left_are_compared_too(runs: Runs) -> None:
    """A tool may move what nobody reads at the moment."""
    runs.run(counting("lines", "more"))
    runs.run(counting("lines"))
    runs.admin.group[place("more")] = 3
    error = runs.refused(counting("lines"), "OFFSETS_MOVED")
    assert error.fields["moved"] == {place("more"): (10, 3)}


def test_a_store_that_was_written_without_changelog_gets_none_later(runs: Runs) -> None:
    """The changelog would hold the second half of the store."""
    runs.run(counting())
    runs.run(counting(logged=False))
    assert runs.heard("'counts' no longer has a changelog")
    error = runs.refused(counting(), "CHANGELOG_INCOMPLETE")
    assert error.fields["store"] == "counts"


def test_a_store_that_was_never_written_may_get_a_changelog(runs: Runs) -> None:
    """There is nothing that it would lack."""
    runs.start(counting(logged=False))
    runs.run(counting())
    runs.start(counting())


def test_a_changelog_that_was_made_anew_is_refused_before_anything_is_written(runs: Runs) -> None:
    """A restore would find a part of the store, or nothing."""
    runs.run(counting())
    runs.admin.ids["app-counts-changelog"] = "another"
    error = runs.refused(counting(), "CHANGELOG_RECREATED")
    assert error.evidence == {"counts": "id-app-counts-changelog, now another"}


def test_a_changelog_that_is_gone_is_refused_before_it_is_made_anew(
    runs: Runs, tmp_path: Path
) -> None:
    """Nothing is created where something was lost."""
    runs.run(counting())
    del runs.admin.partitions["app-counts-changelog"]
    assert runs.record is not None
    world = world_of(runs.admin, runs.record, clock=ManualClock())
    recovery = Recovery(settings_for(tmp_path), runs.plan_of(counting()), world)
    with pytest.raises(MustelaError) as raised:
        recovery.examine()
    assert raised.value.code == "CHANGELOG_RECREATED"
    assert "app-counts-changelog" not in runs.admin.partitions


def test_a_changelog_that_was_cut_is_refused(runs: Runs) -> None:
    """An unclean election took rows that were committed."""
    runs.run(counting())
    runs.admin.ends[place("app-counts-changelog", 1)] = 1
    error = runs.refused(counting(), "CHANGELOG_TRUNCATED")
    assert error.evidence == {"counts": "written to 2, now app-counts-changelog-1 ends at 1"}


def test_a_store_that_nobody_has_any_more_is_named(runs: Runs) -> None:
    """Renamed or removed: its rows do not go without a word."""
    runs.run(counting())
    runs.run(counting(store="renamed"))
    assert runs.heard("no step of the program uses the store 'counts' any more")
    runs.said.clear()
    runs.start(counting(store="renamed"))
    assert not runs.heard("no step")


def test_a_store_that_comes_back_after_its_topics_were_read_on_is_refused(runs: Runs) -> None:
    """What it missed cannot be told from what it has."""
    runs.run(counting())
    runs.run(counting(store="renamed"))
    error = runs.refused(counting(), "STORE_SLEPT")
    assert "records of lines-0 were read in the meantime" in str(error)


def test_a_store_that_missed_nothing_comes_back_with_its_rows(runs: Runs) -> None:
    """A release was rolled back before it read anything."""
    before = runs.run(counting())
    runs.start(counting(store="renamed"))
    after = runs.start(counting())
    assert runs.heard("'counts' is back, and none of its records were read in between")
    (stage,) = (stage for stage in after.plan.stages if stage.stores)
    marks = after.marks()[stage.index]
    assert [mark.changelog_ends for mark in marks] == [(0,), (2,), (0,), (0,)]
    assert [mark.token is None for mark in marks] == [True, False, True, True]
    assert before.changelog_ends["counts"] == after.changelog_ends["counts"]


def ends_of(state: CommittedState) -> list[tuple[int, ...]]:
    """Return how far the changelogs of each key group of the one stage with stores go."""
    (stage,) = (stage for stage in state.plan.stages if stage.stores)
    return [mark.changelog_ends for mark in state.marks()[stage.index]]


def test_a_renamed_store_goes_on_with_its_rows_and_its_changelog(runs: Runs) -> None:
    """It lives at another place then, and is restored there; nothing is unclaimed, none made."""
    first = runs.run(counting())
    state = runs.run(counting(store="words", renamed_from="counts"))
    assert not runs.said
    assert ends_of(state) == [(0,), (4,), (0,), (0,)]
    assert state.stores["words"].changelog_id == first.stores["counts"].changelog_id
    assert set(state.stores) == {"words"}
    assert "app-words-changelog" not in runs.admin.partitions
    assert runs.record is not None
    assert set(runs.record.stores) == set(runs.record.changelog_ends) == {"counts"}


def test_a_renamed_store_that_is_renamed_back_is_found(runs: Runs) -> None:
    """A rollback, and another name after it, go on with the rows of every run between."""
    runs.run(counting())
    runs.run(counting(store="words", renamed_from="counts"))
    assert ends_of(runs.run(counting())) == [(0,), (6,), (0,), (0,)]
    assert ends_of(runs.run(counting(store="tally", renamed_from="counts")))[1] == (8,)
    assert not runs.said


def test_a_renamed_store_is_compared_like_any_other(runs: Runs) -> None:
    """Its meaning, its layout and its changelog are those of the rows that it takes over."""
    runs.run(counting())
    renamed = counting(store="words", renamed_from="counts")
    runs.admin.ids["app-counts-changelog"] = "another"
    assert runs.refused(renamed, "CHANGELOG_RECREATED").fields["store"] == "words"
    del runs.admin.ids["app-counts-changelog"]
    runs.admin.ends[place("app-counts-changelog", 1)] = 1
    runs.refused(renamed, "CHANGELOG_TRUNCATED")

    def windowed(builder: StreamsBuilder) -> None:
        grouped = builder.stream("lines", key=str, value=str).group_by_key()
        windows = TimeWindows(size=timedelta(hours=1), grace=timedelta(0))
        hours = grouped.windowed_by(windows)
        hours.count(materialized=Materialized(store="words", renamed_from="counts"))

    runs.refused(windowed, "STORE_LAYOUT_CHANGED")


def test_a_renaming_that_is_not_said_any_more_leaves_the_old_name_unclaimed(runs: Runs) -> None:
    """The store begins empty then, and cannot take the old rows over again once it has its own."""
    renamed = counting(store="words", renamed_from="counts")
    runs.run(counting())
    runs.run(renamed)
    state = runs.run(counting(store="words"))
    assert runs.heard("no step of the program uses the store 'counts' any more")
    assert ends_of(state)[1] == (2,)
    error = runs.refused(renamed, "STORE_NAME_TAKEN")
    assert error.fields == {"subjects": ["words"], "store": "words", "renamed_from": "counts"}


def test_a_name_of_a_store_without_changelog_is_not_taken_from_it(runs: Runs) -> None:
    """Its rows lie where those of the renamed store would."""
    runs.run(counting(store="words", logged=False))
    runs.refused(counting(store="words", renamed_from="counts"), "STORE_NAME_TAKEN")


def both(store: str = "counts", **more: Any) -> Program:
    """Two stores in one stage."""

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream("lines", key=str, value=str)
        grouped = lines.group_by(lambda _key, word: word, key=str)
        grouped.count(materialized=Materialized(store=store, **more))
        grouped.reduce(lambda a, _b: a, store="longest")

    return build


def test_a_store_that_gets_a_neighbour_keeps_its_rows(runs: Runs) -> None:
    """Local state lives at another place then, and is restored there from the changelog."""
    runs.run(counting())
    state = runs.start(both())
    (stage,) = (stage for stage in state.plan.stages if stage.stores)
    mark = state.marks()[stage.index][1]
    assert mark.changelog_ends == tuple({"counts": 2, "longest": 0}[name] for name in stage.logged)
    assert mark.token == (1, 1, 0)


def dropped(runs: Runs, store: str, program: Program) -> None:
    """Do what `mustela state drop` does."""
    assert runs.record is not None
    found = drop_of(runs.record, store, runs.plan_of(program), "app")
    runs.admin.partitions.pop(found.topic, None)
    for group in range(GROUPS):
        runs.admin.ends.pop(place(found.topic, group), None)
    runs.admin.ids[found.topic] = "another"
    runs.record = without(runs.record, found.store, now_ms=1)


def test_a_store_that_was_dropped_begins_empty(runs: Runs) -> None:
    """Behind each stop that names the command; its new changelog is another topic."""
    runs.run(counting())
    runs.run(counting(store="renamed"))
    runs.refused(counting(), "STORE_SLEPT")
    dropped(runs, "counts", counting())
    runs.said.clear()
    state = runs.run(counting())
    assert runs.said == ["no step of the program uses the store 'renamed' any more: its changelog"
                         " is kept"]  # fmt: skip
    assert ends_of(state)[1] == (2,)
    assert state.stores["counts"].changelog_id == "another"
    dropped(runs, "renamed", counting())
    assert runs.record is not None
    assert set(runs.record.stores) == set(runs.record.changelog_ends) == {"counts"}
    runs.start(counting())


def test_the_neighbours_of_a_dropped_store_keep_their_rows(runs: Runs) -> None:
    """And a changelog that is gone or incomplete stops the application no more."""
    runs.run(both())
    runs.admin.ids["app-counts-changelog"] = "made anew"
    assert "state drop MODULE:APP counts" in str(runs.refused(both(), "CHANGELOG_RECREATED"))
    dropped(runs, "counts", both())
    assert sorted(ends_of(runs.start(both()))[1]) == [0, 2]
    runs.run(counting("more", store="later", logged=False))
    later = counting("more", store="later")
    runs.refused(later, "CHANGELOG_INCOMPLETE")
    dropped(runs, "later", later)
    assert ends_of(runs.start(later))[1] == (0,)


def test_what_only_local_state_has_is_not_dropped(runs: Runs) -> None:
    """The next start would go on with its rows, or lose those of its neighbour."""
    program = counting(logged=False)
    runs.run(program)
    with pytest.raises(MustelaError, match="its rows are in local state"):
        dropped(runs, "counts", program)
    with pytest.raises(MustelaError, match="its stores are counts"):
        dropped(runs, "count", program)


def test_a_store_beside_one_without_changelog_is_not_dropped(runs: Runs) -> None:
    """Local state of both would be made anew."""
    program = both(logged=False)
    runs.run(program)
    with pytest.raises(MustelaError, match="lives together with 'counts'"):
        dropped(runs, "longest", program)


def test_a_store_without_changelog_that_gets_a_neighbour_is_refused(runs: Runs) -> None:
    """Its rows lie where the stage was, and nothing could bring them along."""
    runs.run(counting(logged=False))
    error = runs.refused(both(logged=False), "STORE_MOVED_WITHOUT_CHANGELOG")
    assert error.fields["store"] == "counts"


def windows(seconds: int, grace: int = 0, store: str = "counts") -> Program:
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream("lines", key=str, value=str)
        span = TimeWindows(size=timedelta(seconds=seconds), grace=timedelta(seconds=grace))
        lines.group_by_key().windowed_by(span).count(store=store)

    return build


def table(value: type, store: str = "rows", **kept: Any) -> Program:
    def build(builder: StreamsBuilder) -> None:
        materialized = Materialized[str, Any](store=store, **kept)
        builder.table("lines", key=str, value=value, materialized=materialized)

    return build


@pytest.mark.parametrize(
    ("then", "now", "aspect"),
    [(table(float), table(int), "value"), (windows(60), windows(120), "window")],
)
def test_rows_that_would_mean_something_else_are_refused(
    runs: Runs, then: Program, now: Program, aspect: str
) -> None:
    """4.5 is not 4616752568008179713, and a minute's count is no part of two minutes' count."""
    runs.run(then)
    error = runs.refused(now, "STORE_MEANING_CHANGED")
    assert error.fields["aspect"] == aspect
    runs.start(then)


def test_what_only_widens_goes_on_and_is_said(runs: Runs) -> None:
    """A longer grace finds all rows as they were."""
    runs.run(windows(60))
    runs.start(windows(60, grace=30))
    assert runs.heard("'counts' goes on with a change: grace_ms")


@pytest.mark.parametrize(
    ("setting", "then", "now", "code"),
    [
        ("key_groups", GROUPS, 8, "KEY_GROUPS_CHANGED"),
        ("event_time", "watermark", "stream-time", "EVENT_TIME_CHANGED"),
    ],
)
def test_settings_that_the_state_was_made_by_are_kept(
    runs: Runs, setting: str, then: Any, now: Any, code: str
) -> None:
    """The error says what to set."""
    runs.run(counting(), **{setting: then})
    error = runs.refused(counting(), code, **{setting: now})
    assert f"set {setting} to {then}" in str(error)


def test_a_record_of_an_older_version_gets_a_life(runs: Runs) -> None:
    """By a migration that has a name; local state without a name is this life's from then on."""
    runs.run(counting())
    assert runs.record is not None
    runs.record = msgspec.structs.replace(runs.record, life="", stores={}, event_time="")
    state = runs.start(counting())
    assert runs.heard("migration name-life")
    assert state.life
    assert state.adopts_unnamed
    again = runs.start(counting())
    assert (again.life, again.adopts_unnamed) == (state.life, True)


def test_a_new_application_begins_a_life_of_its_own(runs: Runs) -> None:
    """It adopts nothing that lies around."""
    state = runs.start(counting())
    assert state.life
    assert not state.adopts_unnamed
    assert runs.said == []


def test_a_commit_between_two_questions_is_no_difference(runs: Runs) -> None:
    """A second instance looks before it fences the first, which goes on meanwhile."""
    runs.run(counting())
    assert runs.record is not None
    clock = ManualClock(1_000)
    world = world_of(runs.admin, runs.record, clock=clock)
    groups = iter([{place(): 12}, {place(): 14}, {place(): 10}])
    runs.admin.group_offsets = lambda group: next(groups)  # pyright: ignore[reportAttributeAccessIssue]
    gate = Gate(settings_for(runs.home), world)
    assert gate.look(runs.plan_of(counting())).found == []
    assert clock.now_ms() > 1_000


def test_offsets_that_stay_moved_are_a_difference_at_the_second_look(runs: Runs) -> None:
    """Nobody commits: somebody moved them."""
    runs.run(counting())
    assert runs.record is not None
    runs.admin.group[place()] = 3
    world = world_of(runs.admin, runs.record, clock=ManualClock())
    gate = Gate(settings_for(runs.home), world)
    (found,) = gate.look(runs.plan_of(counting())).found
    assert found.kind is Kind.OFFSETS_MOVED
