"""The committed state: what an epoch adds, what a record tells, what tasks are told."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.model import TopicPartition
from mustela.plan.epoch import GroupMark
from mustela.runtime.commit.committed import CommittedState, EpochChange
from mustela.runtime.record.epoch_record import GroupState, decode_epoch_record, encode_epoch_record
from mustela.runtime.record.source_offsets import Cut
from mustela.state.interfaces import Token
from tests.unit.runtime.plans import GROUPS, begun_from, some_state, word_count_plan

PLAN = word_count_plan()
(STAGE,) = (stage for stage in PLAN.stages if stage.stores)


def change_of(state: CommittedState, **more: object) -> EpochChange:
    given = {
        "token": Token(2, state.epoch + 1, 0),
        "time_ms": 9_000,
        "cuts": {TopicPartition("lines", 0): Cut(10, 15, 15)},
        "wrote": {STAGE.index: [1, 3]},
        "changelog_ends": {("counts", 1): 4, ("counts", 3): 9},
        "watermark": state.watermark.copy(),
        **more,
    }
    return EpochChange(**given)  # pyright: ignore[reportArgumentType]


def test_an_epoch_moves_offsets_groups_changelogs_and_number_together() -> None:
    """What it did not touch stays."""
    state = some_state(PLAN)
    after = state.after(change_of(state))
    assert (after.incarnation, after.epoch, after.attempt) == (2, 4, 0)
    assert after.sources.next_offsets == {
        TopicPartition("lines", 0): 15,
        TopicPartition("lines", 1): 20,
    }
    wrote = GroupState(2, 4, 0, 9_000)
    assert after.groups[STAGE.identity] == [None, wrote, None, wrote]
    assert after.changelog_ends["counts"] == [5, 4, 7, 9]
    assert after.mirrored_ms == 77
    assert state.after(change_of(state, mirrored=True)).mirrored_ms == 9_000


def test_the_state_before_an_epoch_stays_as_it_is() -> None:
    """The epoch may yet fail, and then nothing has happened."""
    state = some_state(PLAN)
    before = state.to_record(1)
    state.after(change_of(state))
    assert state.to_record(1) == before


def test_a_new_run_claims_its_incarnation_and_nothing_else() -> None:
    """The last epoch stays the last epoch."""
    state = some_state(PLAN)
    claimed = state.claimed_by(3)
    assert claimed.incarnation == 3
    assert claimed.to_record(5) == _with_incarnation(state, 3)


def _with_incarnation(state: CommittedState, incarnation: int) -> object:
    state.incarnation = incarnation
    return state.to_record(5)


def test_marks_tell_each_key_group_its_last_write_and_its_changelog_ends() -> None:
    """Only stages with stores have any."""
    state = some_state(PLAN).after(change_of(some_state(PLAN)))
    marks = state.marks()
    assert list(marks) == [STAGE.index]
    assert marks[STAGE.index] == (
        GroupMark(None, (5,), 0),
        GroupMark((2, 4, 0), (4,), 9_000),
        GroupMark(None, (7,), 0),
        GroupMark((2, 4, 0), (9,), 9_000),
    )
    committed = marks[STAGE.index][1].committed(("counts",))
    assert committed.token == Token(2, 4, 0)
    assert committed.changelog_ends == {"counts": 4}


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, GROUPS - 1), unique=True),
            st.integers(1, 50),
            st.integers(0, 10**6),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_a_record_tells_the_whole_state(epochs: list[tuple[list[int], int, int, bool]]) -> None:
    """A restart that reads the record goes on from exactly here, over the wire's bytes too."""
    state = some_state(PLAN, epoch=0)
    for groups, size, timestamp, mirrored in epochs:
        place = TopicPartition("lines", 1)
        start = state.sources.next_offsets[place]
        watermark = state.watermark.copy()
        watermark.observe(place, timestamp, 10**6)
        watermark.advance()
        ends = state.changelog_ends["counts"]
        state = state.after(
            change_of(
                state,
                cuts={place: Cut(start, start + size, start + size)},
                wrote={STAGE.index: groups},
                changelog_ends={("counts", group): ends[group] + 2 for group in groups},
                watermark=watermark,
                mirrored=mirrored,
            )
        )
    record = decode_epoch_record(encode_epoch_record(state.to_record(123)))
    again = begun_from(PLAN, record, lanes=5)
    assert again.lanes == 5
    assert again.marks() == state.marks()
    assert again.watermark.value == state.watermark.value
    again.lanes, again.stores = state.lanes, state.stores
    assert again.to_record(123) == state.to_record(123)
    assert again.is_empty == (not epochs)


def test_a_store_that_is_new_in_the_program_begins_empty() -> None:
    """The record does not know it; its key groups were never written."""
    record = some_state(PLAN).to_record(1)
    for known in (record.groups, record.changelog_ends):
        known.clear()
    state = begun_from(PLAN, record)
    assert state.marks()[STAGE.index] == (GroupMark(None, (0,), 0),) * GROUPS


def test_a_store_that_left_the_program_stays_in_the_record() -> None:
    """It may come back, and its changelog is still there."""
    state = some_state(PLAN)
    state.changelog_ends["older"] = [1, 2, 3, 4]
    state.groups["older-stage"] = [None] * GROUPS
    record = state.after(change_of(state)).to_record(1)
    assert record.changelog_ends["older"] == [1, 2, 3, 4]
    assert record.groups["older-stage"] == [None] * GROUPS
