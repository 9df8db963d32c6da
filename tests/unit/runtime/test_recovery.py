"""What a start finds in Kafka: where to go on, and when not to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.admin import MissingTopicError
from mustela.connectors.kafka.truncation import LogPosition
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.record.epoch_record import (
    EpochRecord,
    decode_epoch_record,
    encode_epoch_record,
)
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.topics.found_topics import with_found
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import GROUPS, settings_for, some_state, word_count_plan

PLAN = word_count_plan()
LINES = [TopicPartition("lines", n) for n in range(3)]
READ = {
    LINES[0]: 10,
    LINES[1]: 20,
    TopicPartition("app-counts-changelog", 0): 5,
    TopicPartition("app-counts-changelog", 2): 7,
}
"""What the record tells of: sources were read, and the changelog written, up to here."""


def admin_with(partitions: int = 2, **more: Any) -> FakeAdmin:
    admin = FakeAdmin(
        {"lines": partitions, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS}, **more
    )
    admin.ids.setdefault("lines", "id-1")
    return admin


@pytest.fixture
def start(tmp_path: Path):
    """Start over a broker, with the last epoch record if there is one."""

    def run(admin: FakeAdmin, record: EpochRecord | None = None, **code: Any) -> CommittedState:
        settings = settings_for(tmp_path, **code)
        records = [record] if record else []
        for place, end in READ.items() if record else ():
            admin.ends.setdefault(place, end)
        recovery = Recovery(settings, PLAN, world_of(admin, *records, clock=ManualClock(60_000)))
        recovery.ensure_topics()
        return recovery.read_state(lanes=2)

    return run


def record_of(**changes: Any) -> EpochRecord:
    record = some_state(PLAN).to_record(1)
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return EpochRecord(**{**fields, **changes})


def refused(start: Any, code: str, *args: Any, **more: Any) -> MustelaError:
    with pytest.raises(MustelaError) as caught:
        start(*args, **more)
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 3), ("latest", 9)])
def test_a_first_start_begins_where_the_setting_says(start: Any, reset: str, offset: int) -> None:
    """At the first record that is still there, or behind the last one."""
    admin = admin_with(1, first={LINES[0]: 3}, ends={LINES[0]: 9})
    state = start(admin, auto_offset_reset=reset)
    assert state.sources.next_offsets == {LINES[0]: offset}
    assert state.is_empty
    assert state.topic_ids == {"lines": "id-1"}


RESETS = [("earliest", 3), ("latest", 9), ("by_duration:PT1S", 9)]


@pytest.mark.parametrize(("reset", "led"), RESETS)
def test_a_start_offset_has_a_leader_epoch(start: Any, reset: str, led: int) -> None:
    """It tells the next start that the log was truncated, and has grown past the offset."""
    admin = admin_with(2, first={LINES[0]: 3}, ends={LINES[0]: 9})
    admin.leaders = dict.fromkeys(LINES, 4)
    state = start(admin, auto_offset_reset=reset)
    assert state.sources.position(LINES[0]) == LogPosition(led, 4)
    assert LINES[1] not in state.sources.leaders  # nothing can be lost before offset 0
    record = state.claimed_by(1).to_record(1)
    admin.ends = {LINES[0]: 30, **dict.fromkeys(LINES[1:], 30)}
    admin.leaders, admin.kept = dict.fromkeys(LINES, 5), {LINES[0]: 2}
    admin.group = {}
    error = refused(start, "SOURCE_TRUNCATED", admin, record, auto_offset_reset=reset)
    assert "differs from 2 on" in str(error)


def test_a_log_that_was_cut_between_two_questions_has_no_leader_epoch(start: Any) -> None:
    """That of the later answer is of another log, and would make it look as it should."""
    admin = admin_with(1, first={LINES[0]: 3}, ends={LINES[0]: 2})
    admin.leaders = dict.fromkeys(LINES, 4)
    assert start(admin).sources.position(LINES[0]) == LogPosition(3)


def test_without_a_reset_policy_a_first_start_is_refused(start: Any) -> None:
    """Somebody wanted to be asked."""
    error = refused(start, "NO_START_OFFSET", admin_with(1), auto_offset_reset="none")
    assert "lines-0" in str(error)


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_restart_goes_on_where_the_record_says(start: Any, reset: str) -> None:
    """Whatever the reset policy is."""
    state = start(admin_with(ends={LINES[0]: 99}), record_of(), auto_offset_reset=reset)
    assert state.sources.next_offsets == {LINES[0]: 10, LINES[1]: 20}
    assert (state.incarnation, state.epoch, state.lanes) == (2, 3, 2)
    assert state.watermark.value == 500


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_a_partition_that_is_new_in_a_known_topic_is_read_from_its_start(
    start: Any, reset: str
) -> None:
    """Its records came after the topic was read: none of them may be missed."""
    admin = admin_with(3, ends={LINES[2]: 50})
    state = start(admin, record_of(), auto_offset_reset=reset)
    assert state.sources.next_offsets[LINES[2]] == 0


def test_a_topic_that_is_new_in_the_program_follows_the_reset_policy(start: Any) -> None:
    """It is not known from any epoch."""
    admin = admin_with(ends={LINES[0]: 7, LINES[1]: 8})
    state = start(admin, record_of(partitions=[], topic_ids={}), auto_offset_reset="latest")
    assert state.sources.next_offsets == {LINES[0]: 7, LINES[1]: 8}


def test_a_topic_that_left_the_program_is_read_no_more(start: Any) -> None:
    """Its offsets would hold the lag and the watermark for ever."""
    state = some_state(PLAN)
    state.sources.next_offsets[TopicPartition("gone", 0)] = 5
    assert set(start(admin_with(), state.to_record(1)).sources.next_offsets) == set(LINES[:2])


def test_another_layout_of_a_store_is_refused(start: Any) -> None:
    """Rows that lie in other segments, or of another kind, would be read wrongly or not at all."""
    (name,) = PLAN.stores
    rows = {"changelog_ends": {name: [0, 5]}, "layouts": {name: "list 1, segments of 10 ms"}}
    error = refused(start, "STORE_LAYOUT_CHANGED", admin_with(), record_of(**rows))
    assert error.fields["store"] == name
    assert "segments of 10 ms" in str(error)
    empty = {**rows, "changelog_ends": {name: [0, 0]}}
    assert start(admin_with(), record_of(**empty)).epoch == record_of().epoch


def test_another_number_of_key_groups_is_refused(start: Any) -> None:
    """Every key would be looked for in the wrong place."""
    error = refused(start, "KEY_GROUPS_CHANGED", admin_with(), record_of(key_groups=64))
    assert "key_groups to 64" in str(error)


def test_state_of_another_format_is_refused(start: Any) -> None:
    """An older version goes on with it, or reset clears it."""
    refused(start, "STATE_FORMAT", admin_with(), record_of(state_format=99))


def test_a_source_topic_that_was_made_anew_is_refused(start: Any) -> None:
    """The same offsets mean other records now."""
    admin = admin_with()
    admin.ids["lines"] = "id-2"
    error = refused(start, "SOURCE_TOPIC_RECREATED", admin, record_of())
    assert error.evidence == {"lines": "id-1, now id-2"}


def test_offsets_that_a_tool_moved_are_refused_with_both_numbers(start: Any) -> None:
    """The epoch record is the truth; the two ways out are named."""
    admin = admin_with(group={LINES[0]: 10, LINES[1]: 4})
    error = refused(start, "OFFSETS_MOVED", admin, record_of())
    assert error.evidence == {"lines-1": "epoch record 20, now group 4"}
    assert error.fields["moved"] == {LINES[1]: (20, 4)}


def test_offsets_that_expired_are_no_difference(start: Any) -> None:
    """A group without members loses its offsets after a while; the record does not."""
    assert start(admin_with(group={LINES[0]: 10}), record_of()).sources.next_offsets[LINES[1]] == 20
    assert start(admin_with(group={}), record_of()).sources.next_offsets[LINES[0]] == 10


def test_the_group_of_another_program_is_refused(start: Any) -> None:
    """No epoch was committed, but somebody has read these topics under this name."""
    error = refused(start, "OFFSETS_MOVED", admin_with(group={LINES[0]: 10}))
    assert error.evidence == {"lines-0": "group 10"}
    start(admin_with(group={TopicPartition("elsewhere", 0): 10}))


def test_changelogs_without_an_epoch_record_are_refused(start: Any) -> None:
    """Nobody knows how far they go."""
    admin = admin_with(ends={TopicPartition("app-counts-changelog", 2): 1})
    error = refused(start, "STATE_WITHOUT_RECORD", admin)
    assert "app-counts-changelog" in error.what


def test_an_application_may_be_called_changelog(start: Any) -> None:
    """Its epochs topic is not taken for one."""
    admin = FakeAdmin({"lines": 1, "counts": 1})
    assert start(admin, application_id="changelog-app").is_empty


def test_partitions_that_are_added_while_it_runs_are_read_from_their_start(
    tmp_path: Path,
) -> None:
    """And a topic that vanishes, or is made anew, ends the run."""
    admin = admin_with(2)
    recovery = Recovery(settings_for(tmp_path), PLAN, world_of(admin, clock=ManualClock()))
    state = some_state(PLAN)
    recovery.add_new_partitions(state)
    assert set(state.sources.next_offsets) == set(LINES[:2])
    admin.partitions["lines"] = 3
    admin.ends[LINES[2]] = 6
    recovery.add_new_partitions(state)
    assert state.sources.next_offsets[LINES[2]] == 0
    admin.ids["lines"] = "id-9"
    with pytest.raises(MustelaError, match="recreated"):
        recovery.add_new_partitions(state)
    del admin.partitions["lines"]
    with pytest.raises(MissingTopicError):
        recovery.add_new_partitions(state)


def test_a_partition_that_is_added_while_it_runs_is_not_read_short(tmp_path: Path) -> None:
    """What was deleted of it before the first look at it was never read."""
    admin = admin_with(2)
    recovery = Recovery(settings_for(tmp_path), PLAN, world_of(admin, clock=ManualClock()))
    state = some_state(PLAN)
    recovery.add_new_partitions(state)
    admin.partitions["lines"] = 3
    admin.first[LINES[2]] = 6
    with pytest.raises(MustelaError) as caught:
        recovery.add_new_partitions(state)
    assert caught.value.code == "SOURCE_EXPIRED"
    assert caught.value.evidence == {"lines-2": "never read, now begins at 6"}
    assert LINES[2] not in state.sources.next_offsets


@pytest.mark.parametrize(
    ("topic", "code"),
    [("app-epochs", "EPOCHS_TOPIC_GONE"), ("app-counts-changelog", "CHANGELOG_GONE")],
)
def test_an_internal_topic_that_is_deleted_while_it_runs_is_a_stop_of_its_own(
    tmp_path: Path, topic: str, code: str
) -> None:
    """It is noticed though nothing is to be committed; nobody is told to make it by hand."""
    admin = admin_with(2)
    recovery = Recovery(settings_for(tmp_path), PLAN, world_of(admin, clock=ManualClock()))
    recovery.ensure_topics()
    state = some_state(PLAN)
    recovery.add_new_partitions(state)
    del admin.partitions[topic]
    with pytest.raises(MustelaError) as caught:
        recovery.add_new_partitions(state)
    assert caught.value.code == code
    assert topic in caught.value.what
    assert "create" not in (caught.value.fix or "")
    assert "mustela reset app" in (caught.value.fix or "")


def watched(admin: FakeAdmin, tmp_path: Path, *records: EpochRecord) -> Recovery:
    admin.ids.setdefault("app-epochs", "epochs-1")
    recovery = Recovery(
        settings_for(tmp_path), PLAN, world_of(admin, *records, clock=ManualClock(60_000))
    )
    recovery.ensure_topics()
    return recovery


@pytest.mark.parametrize("left", [[], [2]], ids=["empty", "older record"])
def test_an_epochs_topic_that_is_made_again_while_it_runs_is_a_stop(
    tmp_path: Path, left: list[int]
) -> None:
    """Whether it is looked at because of new partitions or before a commit, whatever is in it."""
    state = some_state(PLAN)
    state.epochs_id = "epochs-1"
    admin = admin_with(2, ids={"app-epochs": "epochs-2"})
    older = [some_state(PLAN, epoch=epoch).to_record(1) for epoch in left]
    recovery = watched(admin, tmp_path, *older)
    for look in (
        lambda: recovery.add_new_partitions(state),
        lambda: recovery.refuse_recreated(state, LINES[:1]),
        lambda: recovery.refuse_recreated(state, []),
    ):
        with pytest.raises(MustelaError) as caught:
            look()
        assert caught.value.code == "EPOCHS_TOPIC_GONE"
        assert "epochs-2" in str(caught.value)
        assert "mustela reset app" in (caught.value.fix or "")


class AskedOf(FakeAdmin):
    """Notes which topics each question is about."""

    def describe(self, topics: Any) -> Any:
        self.questions = [*getattr(self, "questions", []), sorted(topics)]
        return super().describe(topics)


def test_one_question_is_asked_of_sources_and_global_tables_before_a_commit(tmp_path: Path) -> None:
    """A table's topic that was made anew is told, and is no source that was."""
    admin = AskedOf({"lines": 2, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS})
    admin.partitions["names"] = 1
    admin.ids |= {"lines": "id-1", "names": "id-2"}
    state = some_state(PLAN)
    state.topic_ids["names"] = "id-1"
    recovery = watched(admin, tmp_path)
    admin.questions = []
    found = recovery.refuse_recreated(state, LINES[:1], {"names", "gone"})
    assert {topic: there.topic_id for topic, there in found.items()} == {"names": "id-2"}
    assert admin.questions == [["app-epochs", "gone", "lines", "names"]]


class LagsOnce(FakeAdmin):
    """Answers once what was true before."""

    lies: int = 1

    def describe(self, topics: Any) -> Any:
        found = super().describe(topics)
        if "app-epochs" in found and self.lies:
            self.lies -= 1
            found["app-epochs"] = replace(found["app-epochs"], topic_id="epochs-0")
        return found


def test_one_answer_that_lags_is_no_epochs_topic_made_again(tmp_path: Path) -> None:
    """The next one has the id that is known."""
    admin = LagsOnce({"lines": 2, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS})
    admin.ids |= {"lines": "id-1", "app-epochs": "epochs-1"}
    admin.lies = 0
    state = some_state(PLAN)
    state.epochs_id = "epochs-1"
    recovery = watched(admin, tmp_path)
    admin.lies = 1
    recovery.refuse_recreated(state, [])
    assert (admin.lies, state.epochs_id) == (0, "epochs-1")


def test_the_epochs_topic_that_holds_the_last_epoch_is_the_right_one(tmp_path: Path) -> None:
    """Then the known id came from a broker that lagged; a first run learns the id so."""
    for known in ("epochs-0", ""):
        state = some_state(PLAN)
        state.epochs_id = known
        watched(admin_with(2), tmp_path, state.to_record(1)).add_new_partitions(state)
        assert state.epochs_id == "epochs-1"
        assert state.to_record(1).epochs_id == "epochs-1"


def test_a_first_run_learns_the_epochs_topic_with_its_claim(tmp_path: Path) -> None:
    """The next answer corrects one that lagged, before an epoch names it in its record."""
    state = replace(some_state(PLAN), epoch=0)
    admin = LagsOnce({"lines": 2, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS})
    admin.ids |= {"lines": "id-1", "app-epochs": "epochs-1"}
    admin.lies = 0
    recovery = watched(admin, tmp_path)
    recovery.claimed(state)
    assert state.epochs_id == ""  # the claim cannot be read yet
    watched(admin, tmp_path, state.to_record(1)).refuse_recreated(state, [])
    assert state.epochs_id == "epochs-1"
    state.epochs_id = ""
    recovery = watched(admin, tmp_path, state.to_record(1))
    admin.lies = 1
    recovery.claimed(state)
    assert (admin.lies, state.epochs_id) == (0, "epochs-0")
    recovery.refuse_recreated(state, [])
    assert state.epochs_id == "epochs-1"


def test_an_epochs_topic_that_was_made_again_while_it_was_stopped_is_a_stop(start: Any) -> None:
    """What is in it was copied there; a record of an older version names no id."""
    admin = admin_with(ids={"app-epochs": "epochs-2"})
    error = refused(start, "EPOCHS_TOPIC_GONE", admin, record_of(epochs_id="epochs-1"))
    assert "mustela reset app" in (error.fix or "")
    for known in ("epochs-2", ""):
        assert start(admin, record_of(epochs_id=known)).epochs_id == "epochs-2"


def test_reading_may_begin_some_time_ago(start: Any) -> None:
    """With the first record that is not older; behind the last one where all are older."""
    ends = {LINES[0]: 9, LINES[1]: 9}
    admin = admin_with(2, ends=ends, times={LINES[0]: 4})
    state = start(admin, auto_offset_reset="by_duration:10s")
    assert state.sources.next_offsets == {LINES[0]: 4, LINES[1]: 9}
    assert set(admin.asked.values()) == {50_000}


def pattern_plan(pattern: str = "lines-.*") -> Plan:
    builder = StreamsBuilder()
    builder.stream("lines", name="lines")
    builder.stream(re.compile(pattern), name="found").to("copies", name="copies")
    return plan(builder.build())


def test_topics_that_a_pattern_matches_are_found_at_the_start_and_later(tmp_path: Path) -> None:
    """In an order that the epoch record keeps; one that is deleted is read no more."""
    admin = FakeAdmin({"lines": 1, "lines-m": 1, "lines-b": 2, "app-epochs": 1, "copies": 1})
    settings = settings_for(tmp_path)
    recovery = Recovery(settings, pattern_plan(), world_of(admin, clock=ManualClock()))
    recovery.ensure_topics()
    state = recovery.read_state(lanes=2)
    assert state.plan.topics == ("lines", "lines-b", "lines-m")
    assert len(state.sources.next_offsets) == 4
    admin.partitions["lines-a"] = 1
    recovery.add_new_partitions(state)
    assert state.plan.topics == ("lines", "lines-b", "lines-m", "lines-a")
    assert TopicPartition("lines-a", 0) in state.sources.next_offsets
    record = state.to_record(1)
    assert record.found_topics == ["lines-b", "lines-m", "lines-a"]
    assert decode_epoch_record(encode_epoch_record(record)) == record
    del admin.partitions["lines-m"]
    recovery.add_new_partitions(state)
    assert TopicPartition("lines-m", 0) not in state.sources.next_offsets

    admin.partitions["lines-c"] = 1
    again = Recovery(settings, pattern_plan(), world_of(admin, record, clock=ManualClock()))
    again.ensure_topics()
    later = again.read_state(lanes=2)
    assert later.plan.topics == ("lines", "lines-b", "lines-m", "lines-a", "lines-c")


def test_a_pattern_matches_no_internal_topic(tmp_path: Path) -> None:
    """Neither Kafka's own nor the application's, also of a store that it does not have any more."""
    there = ["__consumer_offsets", "app-epochs", "app-lease", "app-old-changelog"]
    others = ["app", "apple", "apple-old-changelog", "other-dead-letters"]
    program = pattern_plan("(?!lines).*")
    for known in ((), ["app-old-changelog"]):  # an older version may have read it
        found = with_found(program, settings_for(tmp_path), known, [*there, *others])
        assert found.topics == ("lines", *others)


def test_a_pattern_matches_topics_of_an_application_with_a_longer_name(tmp_path: Path) -> None:
    """They are those that ``reset`` leaves alone; a changelog that it writes itself is its own."""
    there = ["app-eu-epochs", "app-eu-old-changelog", "app-old-changelog"]
    builder = StreamsBuilder()
    found = builder.stream(re.compile("app-.*"), key=str, value=str, name="found")
    found.group_by_key().count(store="eu-counts").to_stream().to("out", key=str, value=int)
    program = plan(builder.build())
    topics = [*there, "app-eu-counts-changelog"]
    assert with_found(program, settings_for(tmp_path), (), topics).topics == tuple(there[:2])


def test_a_pattern_does_not_match_where_the_applications_own_dead_letters_go(
    tmp_path: Path,
) -> None:
    """One that fails again would be a letter again, for ever."""
    settings = settings_for(tmp_path, dead_letter_topic="letters")
    there = ["app-dead-letters", "letters"]
    assert with_found(pattern_plan(".*letters"), settings, (), there).topics == (
        "lines",
        "app-dead-letters",
    )
