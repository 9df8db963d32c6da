"""What the stops of commands and of a running application advise, followed: it helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime import app as application
from mustela.runtime.commit.epochs import ChangelogGoneError, EpochsTopicGoneError, refuse_gone
from mustela.runtime.record.epoch_record import (
    EpochRecordFormatError,
    decode_epoch_record,
    encode_epoch_record,
)
from mustela.runtime.repairs import edits
from mustela.runtime.repairs.dropping import NoSuchStoreError, StoreNotDroppedError, drop_of
from mustela.runtime.repairs.repair import NoEpochRecordError, RecordMovedError
from mustela.runtime.start.recovery import NoStartOffsetError
from tests.unit.runtime.fakes import FakeAdmin, FakeLog
from tests.unit.runtime.plans import some_state, word_count_plan
from tests.unit.runtime.test_gate import Runs, both, counting, dropped
from tests.unit.runtime.test_gate_ways_on import reset
from tests.unit.runtime.test_repair import LINES, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path, FakeAdmin({"lines": 1, "more": 1}))


def fix_of(kind: type[MustelaError], make: Callable[..., Any], *args: Any) -> str:
    """Return the fix of what is refused."""
    with pytest.raises(kind) as caught:
        make(*args)
    return caught.value.fix or ""


def test_offsets_and_places_that_the_error_names_are_taken(bench: Bench) -> None:
    """OffsetNotThereError, UnknownSourceError and SkipNotNextError."""
    bench.admin.first = {LINES[0]: 5}
    views = bench.repair.look().views
    fix = fix_of(edits.OffsetNotThereError, edits.move, views, {LINES[0]: 4})
    assert fix == "choose an offset from 5 to 30"
    for offset in (5, 30):
        assert edits.move(views, {LINES[0]: offset}).offsets
    fix = fix_of(edits.UnknownSourceError, edits.move, views, {LINES[2]: 7})
    assert fix == "its partitions are 0 to 1"
    assert edits.move(views, {LINES[0]: 7, LINES[1]: 7}).offsets
    fix = fix_of(edits.UnknownSourceError, edits.move, views, {TopicPartition("lnies", 0): 7})
    assert fix == "the application reads lines"
    fix = fix_of(edits.UnknownSourceError, edits.move, {}, {TopicPartition("lnies", 0): 7})
    assert fix == "check the topic's name"
    fix = fix_of(edits.SkipNotNextError, edits.skip, views, LINES[0], 9)
    assert fix == "mustela offsets show prints where the application is"
    assert views[LINES[0]].recorded == 10  # what it shows
    assert edits.skip(views, LINES[0], 10).offsets == {LINES[0]: 11}
    # That the application comes to a later one is seen on a real broker, in test_cli_run.
    assert "--set epoch.max_records=1" in fix_of(
        edits.SkipNotNextError, edits.skip, views, LINES[0], 12
    )


def test_a_command_that_lost_a_race_succeeds_when_it_is_run_again(bench: Bench) -> None:
    """RecordMovedError: the instance that wrote has been fenced by the first try."""
    sight = bench.repair.look()
    log = bench.world.epochs
    assert isinstance(log, FakeLog)
    log.records.append(some_state(word_count_plan(), epoch=4).to_record(2))
    assert fix_of(RecordMovedError, bench.repair.fence, sight) == "run the command again"
    again = bench.repair.look()
    bench.repair.fence(again)
    assert bench.repair.change(again, edits.move(again.views, {LINES[1]: 25}))


def test_the_id_of_an_application_that_ran_has_a_record(bench: Bench) -> None:
    """NoEpochRecordError: the other id, or a first start, is what was meant."""
    sight = bench.repair.look()
    del bench.admin.partitions["app-epochs"]
    fix = fix_of(NoEpochRecordError, bench.repair.recorded, bench.repair.look())
    assert fix.startswith("check the application's id; a first start reads from where")
    assert bench.repair.recorded(sight)


def test_a_first_start_begins_where_one_of_the_named_settings_says(runs: Runs) -> None:
    """NoStartOffsetError: each of the three."""
    program = counting()
    with pytest.raises(NoStartOffsetError) as caught:
        runs.start(program, auto_offset_reset="none")
    assert caught.value.fix == (
        "set auto_offset_reset to earliest, latest or by_duration:<duration>"
    )
    for value in ("earliest", "latest", "by_duration:PT1H"):
        runs.start(program, auto_offset_reset=value)
        reset(runs)


def test_a_store_that_cannot_be_dropped_goes_another_way(runs: Runs) -> None:
    """StoreNotDroppedError and UnknownStoreError: each way that they name."""
    program = counting(logged=False)
    runs.run(program)
    fix = fix_of(StoreNotDroppedError, dropped, runs, "counts", program)
    assert fix == "give the store another name, so that it starts empty"
    runs.start(counting(store="fresh", logged=False))
    fix = fix_of(NoSuchStoreError, dropped, runs, "count", counting(logged=False))
    assert "counts" in fix
    reset(runs)
    runs.run(both(logged=False))
    fix = fix_of(StoreNotDroppedError, dropped, runs, "longest", both(logged=False))
    assert fix == "if 'counts' may begin empty too, give 'longest' another name"


def test_a_store_of_an_older_record_is_dropped_after_one_start(runs: Runs) -> None:
    """StoreNotDroppedError: the start gives the record a life."""
    import msgspec

    runs.run(counting())
    assert runs.record is not None
    runs.record = msgspec.structs.replace(runs.record, life="", event_time="")
    plan = runs.plan_of(counting())
    fix = fix_of(StoreNotDroppedError, drop_of, runs.record, "counts", plan, "app")
    assert fix == "start the application once, stop it, and then drop the store"
    runs.start(counting())
    dropped(runs, "counts", counting())
    runs.start(counting())


def test_what_is_left_of_deleted_topics_is_cleared(runs: Runs) -> None:
    """EpochsTopicGoneError and ChangelogGoneError: the next start begins anew."""
    way = "then clear what is left with: mustela reset app"
    assert fix_of(EpochsTopicGoneError, refuse_gone, "app", {"app-epochs"}).endswith(way)
    assert fix_of(ChangelogGoneError, refuse_gone, "app", {"app-x-changelog"}).endswith(way)
    runs.run(counting())
    del runs.admin.partitions["app-counts-changelog"]
    reset(runs)
    assert runs.start(counting()).epoch == 0


def test_a_record_of_another_format_is_read_by_its_version_or_cleared(runs: Runs) -> None:
    """EpochRecordFormatError: this version reads its own; without a record it begins anew."""
    runs.run(counting())
    assert runs.record is not None
    written = encode_epoch_record(runs.record)
    other = written[:3] + bytes([99]) + written[4:]
    fix = fix_of(EpochRecordFormatError, decode_epoch_record, other, "app")
    assert fix == (
        "run the version of Mustela that wrote it, or clear everything with: mustela reset app"
    )
    assert decode_epoch_record(written) == runs.record
    reset(runs)
    assert runs.start(counting()).epoch == 0


def test_an_engine_that_was_installed_is_found() -> None:
    """ENGINE_MISSING: installed with pip, as for these tests, both are known."""
    load = vars(application)["_load_engine"]
    fix = fix_of(MustelaError, load, "none")
    assert fix == "install mustela with pip, so that its engines are registered"
    assert load("spark")
