"""Stores that were renamed: the record, the topics and the state of either name are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.api.options import Materialized
from mustela.api.stores import Stores
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import MustelaError
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.gate.differences import Kind, names_taken
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.record.store_names import with_store_names
from mustela.runtime.topics.application_topics import internal_topics
from mustela.runtime.topics.found_topics import with_found
from tests.unit.runtime.plans import begun_from, settings_for, some_state, word_count_plan

BEFORE = word_count_plan()


def renamed_plan(name: str = "words") -> Plan:
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
    stored = Materialized(store=name, renamed_from="counts")
    words.count(materialized=stored).to_stream().to("counts", key=str, value=int)
    return plan(builder.build())


def started(record: EpochRecord, now: Plan) -> CommittedState:
    return begun_from(now, with_store_names(record, now), lanes=2)


def test_a_renamed_store_goes_on_where_the_old_one_was() -> None:
    """Its rows are those up to the end of the changelog that it has always had."""
    state = started(some_state(BEFORE).to_record(1), renamed_plan())
    assert state.changelog_ends == {"words": [5, 0, 7, 0]}
    assert state.to_record(1).changelog_ends == {"counts": [5, 0, 7, 0]}
    assert state.to_record(1).layouts == some_state(BEFORE).to_record(1).layouts


def test_a_rolled_back_program_finds_its_store_again() -> None:
    """And the next one, too: the record knows the store by its changelog."""
    after = started(some_state(BEFORE).to_record(1), renamed_plan()).to_record(2)
    assert started(after, BEFORE).changelog_ends == {"counts": [5, 0, 7, 0]}
    assert started(after, renamed_plan("tally")).changelog_ends == {"tally": [5, 0, 7, 0]}


def test_the_changelog_keeps_its_name(tmp_path: Path) -> None:
    """No topic is made, and none is left behind."""
    settings, now = settings_for(tmp_path), renamed_plan()
    assert internal_topics(settings, now).keys() == internal_topics(settings, BEFORE).keys()
    assert with_found(now, settings, (), ["app-counts-changelog"]).topics == now.topics


def test_a_name_with_rows_of_its_own_is_refused() -> None:
    """Two stores cannot be one."""
    record = some_state(BEFORE).to_record(1)
    record.changelog_ends["words"] = [1, 0, 0, 0]
    (found,) = names_taken(record, renamed_plan())
    assert (found.kind, found.subject, found.now) == (Kind.STORE_NAME_TAKEN, "words", "counts")
    record.changelog_ends["words"] = [0, 0, 0, 0]
    assert not names_taken(record, renamed_plan())
    assert started(record, renamed_plan()).changelog_ends["words"] == [5, 0, 7, 0]


def test_stores_that_swap_their_names_do_not_find_each_others_rows() -> None:
    """Not in the record, and not on disk: neither has local state of its new name's former rows."""

    def two(**former: str) -> Plan:
        builder = StreamsBuilder()
        for name in "ab":
            stored = Materialized(store=name, renamed_from=former.get(name))
            builder.table(name, key=str, value=str, materialized=stored)
        return plan(builder.build())

    first, swapped = two(), two(a="b", b="a")
    record = some_state(first).to_record(1)
    record.changelog_ends.update({"a": [1, 0, 0, 0], "b": [2, 0, 0, 0]})
    assert not names_taken(record, swapped)
    after = started(record, swapped)
    assert {name: after.changelog_ends[name][0] for name in "ab"} == {"a": 2, "b": 1}
    assert after.to_record(1).changelog_ends == record.changelog_ends
    identities = [
        {stage.identity for stage in of.stages if stage.stores} for of in (first, swapped)
    ]
    assert not identities[0] & identities[1]


def refused(builder: StreamsBuilder) -> MustelaError:
    with pytest.raises(MustelaError) as caught:
        builder.build()
    return caught.value


def test_two_stores_cannot_have_one_changelog() -> None:
    """Neither the old one beside the new one, nor two that claim it."""
    builder = StreamsBuilder()
    builder.table("a", key=str, value=str, store="old")
    builder.table("b", key=str, value=str, materialized=Materialized(store="b", renamed_from="old"))
    assert refused(builder).code == "TOPOLOGY_DUPLICATE_STORE"
    builder = StreamsBuilder()
    for name in "ab":
        stored = Materialized(store=name, renamed_from="old")
        builder.table(name, key=str, value=str, materialized=stored)
    assert refused(builder).fields["renamed_from"] == "old"


def test_what_has_no_changelog_cannot_be_renamed() -> None:
    """There would be nothing to make it anew from."""
    builder = StreamsBuilder()
    stored = Materialized(store="new", renamed_from="old", logged=False)
    builder.table("a", key=str, value=str, materialized=stored)
    assert refused(builder).fields == {"store": "new", "option": "renamed_from"}
    builder = StreamsBuilder()
    whole = Materialized(store="new", renamed_from="old")
    builder.global_table("a", key=str, value=str, materialized=whole)
    assert refused(builder).fields["option"] == "renamed_from"


def test_a_name_that_was_always_the_name_says_nothing() -> None:
    """A store of a processor is renamed by its builder."""
    builder = StreamsBuilder()
    stored = Materialized(store="s", renamed_from="s")
    builder.table("a", key=str, value=str, materialized=stored)
    assert plan(builder.build()).log_names == {"s": "s"}
    supplier = Stores.persistent_key_value_store("new")
    made = Stores.key_value_store_builder(supplier, key=str, value=str)
    assert made.with_former_name("old").spec().log_name == "old"
    assert made.with_former_name("new").spec().renamed_from is None
