"""Where an application is to go on: what a person wants becomes the next epoch record."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime.record.epoch_record import EpochRecord, decode_epoch_record
from mustela.runtime.repairs import dropping, edits
from mustela.runtime.repairs.repair import Repair
from tests.unit.runtime.fakes import FakeAdmin, FakeLog, FakeSink, world_of
from tests.unit.runtime.plans import settings_for, some_state, word_count_plan

LINES = [TopicPartition("lines", n) for n in range(3)]


class Bench:
    """An application of two partitions, read to 10 and 20, on a broker that can be bent."""

    def __init__(self, directory: Any, **more: Any) -> None:
        self.admin = FakeAdmin(
            {"lines": 2, "app-epochs": 1},
            ids={"lines": "id-1"},
            ends={LINES[0]: 30, LINES[1]: 40},
            group={LINES[0]: 10, LINES[1]: 20},
            **more,
        )
        self.sink = FakeSink()
        self.record = some_state(word_count_plan()).to_record(1)
        self.world = world_of(self.admin, self.record, clock=ManualClock(9_000), sink=self.sink)
        self.repair = Repair(settings_for(directory), self.world)

    def change(self, make: Any) -> EpochRecord:
        """Look, edit, fence and commit; return the record that was committed."""
        sight = self.repair.look()
        edit = make(sight.views)
        self.repair.fence(sight)
        self.repair.change(sight, edit)
        ((written,),) = (row["values"] for row in self.sink.committed[-1])
        return decode_epoch_record(written)


@pytest.fixture
def bench(tmp_path: Any) -> Bench:
    return Bench(tmp_path)


def offsets_of(record: EpochRecord) -> list[int]:
    return [part.end for part in record.partitions]


def refused(code: str, make: Any, *args: Any) -> MustelaError:
    with pytest.raises(MustelaError) as caught:
        make(*args)
    assert caught.value.code == code
    return caught.value


def test_offsets_that_are_set_are_in_the_record_and_in_the_group(bench: Bench) -> None:
    """One transaction, of a new incarnation; epoch, state and watermark are as they were."""
    written = bench.change(lambda views: edits.move(views, {LINES[1]: 25}))
    assert offsets_of(written) == [10, 25]
    assert bench.sink.offsets == {LINES[0]: 10, LINES[1]: 25}
    assert bench.sink.calls[:2] == ["reopen", "begin"]
    old = bench.record
    assert (written.incarnation, written.epoch) == (old.incarnation + 1, old.epoch)
    assert (written.attempt, written.groups) == (old.attempt, old.groups)
    assert (written.changelog_ends, written.watermark) == (old.changelog_ends, old.watermark)
    assert written.partitions[0] == old.partitions[0]


def test_an_offset_that_a_person_names_has_a_leader_epoch(bench: Bench) -> None:
    """A log that is cut before the next start, and grows past the offset again, is found by it."""
    bench.admin.leaders = {LINES[0]: 6, LINES[1]: 7}
    moved = bench.change(lambda views: edits.move(views, {LINES[0]: 0, LINES[1]: 25}))
    assert [part.leader_epoch for part in moved.partitions] == [-1, 7]
    skipped = bench.change(lambda views: edits.skip(views, LINES[0], 10))
    assert [part.leader_epoch for part in skipped.partitions] == [6, -1]
    sight = bench.repair.look()
    edit = edits.move(sight.views, {LINES[1]: 25})
    begun = edits.beginning(None, edit, key_groups=4, now_ms=1, life="new")
    assert [part.leader_epoch for part in begun.partitions] == [7]


@pytest.mark.parametrize(("offset", "fits"), [(4, False), (5, True), (30, True), (31, False)])
def test_only_offsets_that_the_broker_holds_are_set(bench: Bench, offset: int, fits: bool) -> None:
    """Any other would stop the next start."""
    bench.admin.first = {LINES[0]: 5}
    views = bench.repair.look().views
    if fits:
        assert edits.move(views, {LINES[0]: offset}).offsets == {LINES[0]: offset}
    else:
        error = refused("OFFSETS_NOT_THERE", edits.move, views, {LINES[0]: offset})
        assert "from 5 to 30" in str(error)


@pytest.mark.parametrize("place", [LINES[2], TopicPartition("lnies", 0)])
def test_a_place_that_does_not_exist_is_refused(bench: Bench, place: TopicPartition) -> None:
    """The error says what there is."""
    error = refused("OFFSETS_UNKNOWN_SOURCE", edits.move, bench.repair.look().views, {place: 0})
    assert error.fix in ("its partitions are 0 to 1", "the application reads lines")


def test_one_record_is_skipped_when_it_is_the_next(bench: Bench) -> None:
    """Exactly that one."""
    assert offsets_of(bench.change(lambda views: edits.skip(views, LINES[0], 10))) == [11, 20]


@pytest.mark.parametrize(("offset", "said"), [(9, "show"), (12, "max_records=1"), (99, "max")])
def test_no_other_record_is_skipped(bench: Bench, offset: int, said: str) -> None:
    """The error says how the application comes to it."""
    views = bench.repair.look().views
    assert said in str(refused("OFFSETS_SKIP_NOT_NEXT", edits.skip, views, LINES[0], offset))


def test_the_groups_offsets_are_accepted(bench: Bench) -> None:
    """Those that a tool moved; the others are as they were."""
    bench.admin.group = {LINES[0]: 3}
    assert offsets_of(bench.change(edits.accept_group)) == [3, 20]
    assert bench.sink.offsets == {LINES[0]: 3, LINES[1]: 20}


def test_logs_that_lost_records_are_accepted(bench: Bench) -> None:
    """One goes on at its end, the other at the first record that is left."""
    bench.admin.ends[LINES[0]] = 7
    bench.admin.first = {LINES[1]: 33}
    troubles = [view.trouble for view in bench.repair.look().views.values()]
    assert troubles == ["the log was truncated", "records were deleted unread"]
    assert offsets_of(bench.change(edits.accept_broker)) == [7, 33]


def test_a_topic_that_was_made_again_is_read_from_its_start(bench: Bench) -> None:
    """All of it: its old offsets, and what was seen of its time, mean other records."""
    bench.admin.ids["lines"] = "id-2"
    bench.admin.partitions["lines"] = 1
    bench.admin.ends = {LINES[0]: 2}
    written = bench.change(edits.accept_broker)
    assert [(p.partition, p.end, p.max_timestamp) for p in written.partitions] == [(0, 0, -1)]
    assert written.topic_ids == {"lines": "id-2"}
    assert bench.sink.offsets == {LINES[0]: 0}


def test_one_offset_of_a_topic_that_was_made_again_takes_the_others_along(bench: Bench) -> None:
    """Else the rest of the old offsets would count in the new topic."""
    bench.admin.ids["lines"] = "id-2"
    written = bench.change(lambda views: edits.move(views, {LINES[1]: 4}))
    assert offsets_of(written) == [0, 4]
    assert written.topic_ids == {"lines": "id-2"}


def test_a_topic_that_is_not_there_keeps_its_offsets(bench: Bench) -> None:
    """It may come back; the group is not told of it, as the broker would refuse it."""
    del bench.admin.partitions["lines"]
    written = bench.change(edits.accept_broker)
    assert offsets_of(written) == [10, 20]
    assert "offsets" not in bench.sink.calls


def test_a_topic_that_was_never_read_can_be_given_a_start(bench: Bench) -> None:
    """Before the release that reads it."""
    bench.admin.partitions["more"] = 1
    place = TopicPartition("more", 0)
    bench.admin.ends[place] = 9
    sight = bench.repair.look(["more"])
    bench.repair.fence(sight)
    written = bench.repair.change(sight, edits.move(sight.views, {place: 6}))
    assert offsets_of(written) == [10, 20, 6]
    assert written.topic_ids == {"lines": "id-1", "more": "id-more"}


def test_the_first_record_of_a_time_is_found(bench: Bench) -> None:
    """Where all records are older, the end."""
    bench.admin.times = {LINES[0]: 12}
    assert bench.repair.offsets_at(LINES[:2], 1_000) == {LINES[0]: 12, LINES[1]: 40}


def test_nothing_is_changed_over_an_epoch_that_was_not_seen(bench: Bench) -> None:
    """An instance that ran is fenced; what it wrote last must not be undone."""
    sight = bench.repair.look()
    log = bench.world.epochs
    assert isinstance(log, FakeLog)
    log.records.append(some_state(word_count_plan(), epoch=4).to_record(2))
    refused("EPOCH_RECORD_MOVED", bench.repair.fence, sight)
    assert bench.sink.calls == ["reopen"]


def test_a_store_is_dropped_and_nothing_else(bench: Bench) -> None:
    """The group's offsets are not touched: whether a tool moved them is another question."""
    sight = bench.repair.look()
    found = dropping.drop_of(bench.record, "counts", word_count_plan(), "app")
    assert (found.topic, found.claimed, found.beside) == ("app-counts-changelog", "counts", ())
    bench.repair.fence(sight)
    bench.repair.drop(sight, found)
    ((written,),) = (row["values"] for row in bench.sink.committed[-1])
    after = decode_epoch_record(written)
    assert not {*after.stores, *after.changelog_ends, *after.layouts}
    assert (after.incarnation, after.epoch) == (bench.record.incarnation + 1, bench.record.epoch)
    assert offsets_of(after) == [10, 20]
    assert not bench.sink.offsets


def test_an_application_that_never_ran_has_nothing_to_change(bench: Bench) -> None:
    """Its id may be mistyped."""
    del bench.admin.partitions["app-epochs"]
    error = refused("NO_EPOCH_RECORD", bench.repair.recorded, bench.repair.look())
    assert "app" in error.what


def test_an_application_can_begin_elsewhere_without_state(bench: Bench) -> None:
    """Nothing of its past is left but the number of its runs, which goes on."""
    sight = bench.repair.look()
    bench.repair.fence(sight)
    del bench.admin.partitions["app-epochs"]
    edit = edits.move(sight.views, {LINES[1]: 25})
    written = bench.repair.begin(sight, edit, key_groups=8)
    assert [spec.name for spec in bench.admin.created] == ["app-epochs"]
    assert offsets_of(written) == [25]
    assert bench.sink.offsets == {LINES[1]: 25}
    assert (written.incarnation, written.epoch, written.key_groups) == (3, 0, 8)
    assert (written.groups, written.changelog_ends, written.watermark) == ({}, {}, -1)
    assert written.topic_ids == {"lines": "id-1"}


def test_offsets_of_a_group_alone_are_a_start_where_no_state_is(bench: Bench) -> None:
    """An application that never ran may begin where its group is, but not over rows of another."""
    del bench.admin.partitions["app-epochs"]
    assert bench.repair.group_alone(bench.repair.look())
    bench.admin.partitions |= {"app-two-epochs": 1, "app-two-counts-changelog": 1}
    bench.admin.ends[TopicPartition("app-two-counts-changelog", 0)] = 3
    assert bench.repair.group_alone(bench.repair.look())
    bench.admin.partitions["app-counts-changelog"] = 1
    assert bench.repair.group_alone(bench.repair.look())
    bench.admin.ends[TopicPartition("app-counts-changelog", 0)] = 3
    refused("STATE_WITHOUT_RECORD", bench.repair.group_alone, bench.repair.look())
    del bench.admin.partitions["app-counts-changelog"]
    bench.admin.group = {}
    assert not bench.repair.group_alone(bench.repair.look())
