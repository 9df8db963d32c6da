"""Plans of small topologies: which stages there are and what travels."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.api.errors import BadOptionError
from mustela.dsl.builder import StreamsBuilder
from mustela.dsl.kstream import KStream
from mustela.plan.plan import Plan
from mustela.plan.step import Step
from mustela.planner.assemble import store_set_identity
from mustela.planner.options import PlanOptions
from mustela.planner.planner import RULES, plan
from mustela.serdes.primitives import BytesSerde, IntSerde, StrSerde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec


def newest(_old: Any, new: Any) -> Any:
    return new


@pytest.fixture
def builder() -> StreamsBuilder:
    return StreamsBuilder()


@pytest.fixture
def lines(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("lines", key=str, value=str)


def step(made: Plan, name: str, role: str = "whole") -> tuple[int, Step]:
    (found,) = [
        (stage.index, step)
        for stage in made.stages
        for step in stage.steps
        if (step.name, step.role) == (name, role)
    ]
    return found


def exchanges(made: Plan) -> list[tuple[str, int, str]]:
    return [(e.step, e.target, e.key.name) for stage in made.stages for e in stage.exchanges]


def test_without_state_there_is_one_stage(
    builder: StreamsBuilder, lines: KStream[str, str]
) -> None:
    """A stateless application has no shuffle."""
    lines.map_values(len).filter(lambda _key, length: length).to("out", value=int)
    made = plan(builder.build())
    assert len(made.stages) == 1
    assert exchanges(made) == []
    assert made.stages[0].identity == ""


def test_word_count_has_two_stages(builder: StreamsBuilder, lines: KStream[str, str]) -> None:
    """Counts are combined where the words are, and put together in the lane of each word."""
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
    words.count(name="count", store="counts").to_stream().to("counts")
    made = plan(builder.build())
    assert exchanges(made) == [("count", 1, "str")]
    assert not made.stages[0].exchanges[0].ordered
    assert step(made, "count", "combine")[0] == 0
    assert step(made, "count", "merge") == (
        1,
        Step(name="count", inputs=("count=>1",), node=builder.build()["count"], role="merge"),
    )
    assert made.stores.keys() == {"counts"}


def test_each_record_is_seen_where_each_update_is_emitted(
    builder: StreamsBuilder, lines: KStream[str, str]
) -> None:
    """With ``emit = every`` nothing is combined."""
    lines.group_by_key().count(name="count")
    made = plan(builder.build(), options=PlanOptions(emit="every"))
    assert step(made, "count")[0] == 1
    assert made.stages[0].exchanges[0].ordered


def test_a_fold_in_order_is_not_combined(builder: StreamsBuilder, lines: KStream[str, str]) -> None:
    """``reduce`` and ``aggregate`` see records in order unless the user gives that up."""
    grouped = lines.group_by_key()
    grouped.reduce(newest, name="in-order")
    grouped.reduce(max, associative=True, name="any-order")
    grouped.aggregate(list, lambda _k, v, seen: [*seen, v], name="list")
    grouped.aggregate(int, lambda _k, _v, n: n + 1, merger=lambda _k, a, b: a + b, name="sum")
    made = plan(builder.build())
    combined = {s.name for s in made.stages[0].steps}
    assert combined == {"any-order", "sum"}
    assert exchanges(made) == [("lines", 1, "str"), ("any-order", 1, "str"), ("sum", 1, "str")]


def test_who_reads_the_same_key_shares_an_exchange(
    builder: StreamsBuilder, lines: KStream[str, str]
) -> None:
    """Records travel once for two folds; another serde makes other bytes, so they travel again."""
    lines.group_by_key().reduce(newest, name="a")
    lines.group_by_key().reduce(newest, name="b")
    lines.group_by_key(key=BytesSerde()).reduce(newest, name="c")  # pyright: ignore
    made = plan(builder.build())
    assert exchanges(made) == [("lines", 1, "str"), ("lines", 1, "bytes")]
    assert made.stages[1].inputs == ("lines=>1", "lines=>1/bytes")


def test_a_key_that_is_known_does_not_travel(
    builder: StreamsBuilder, lines: KStream[str, str]
) -> None:
    """What follows a table stays in its stage as long as the key stays."""
    counts = lines.group_by_key().count(name="count").to_stream()
    counts.map_values(str).group_by_key().reduce(newest, name="again").to_stream().to(
        "o", value=str
    )
    counts.merge(counts.filter(max), name="both").group_by_key().reduce(newest, name="merged")
    made = plan(builder.build())
    assert len(made.stages) == 2
    assert [step(made, name)[0] for name in ("again", "both", "merged")] == [1, 1, 1]
    assert made.stages[1].stores == tuple(s for _, (_, s) in sorted(made.stores.items()))


@pytest.mark.parametrize(
    "rekey",
    [
        lambda s: s.select_key(max),
        lambda s: s.map(lambda k, v: (k, v)),
        lambda s: s.flat_map(lambda k, v: [(k, v)]),
    ],
)
def test_a_new_key_travels(builder: StreamsBuilder, lines: KStream[str, str], rekey: Any) -> None:
    """Whatever may have changed the key is followed by an exchange."""
    counts = lines.group_by_key().count(name="count").to_stream()
    rekey(counts).group_by_key(key=str).reduce(newest, name="again")
    assert step(plan(builder.build()), "again")[0] == 2


def test_a_stream_with_a_new_key_travels(builder: StreamsBuilder, lines: KStream[str, str]) -> None:
    """``to_stream(mapper)`` and ``group_by`` change the key too."""
    table = lines.group_by_key().count(name="count")
    table.to_stream(max).group_by_key(key=str).reduce(newest, name="a")
    table.to_stream(name="b0").group_by(max, key=str).reduce(newest, name="b")
    table.to_stream(name="c0").group_by_key(key=StrSerde()).reduce(newest, name="c")
    table.to_stream(name="d0").group_by_key(key=IntSerde()).reduce(newest, name="d")  # pyright: ignore
    made = plan(builder.build())
    assert [step(made, name)[0] for name in "abcd"] == [2, 2, 1, 2]


def test_a_table_is_read_first_and_kept_in_the_lane_of_its_key(builder: StreamsBuilder) -> None:
    """Stage 0 reads the topic; the table is a step behind an exchange by key."""
    builder.table("prices", key=str, value=int, store="prices").to_stream().to("out")
    made = plan(builder.build())
    assert [source.name for source in made.stages[0].sources] == ["prices"]
    assert exchanges(made) == [("prices", 1, "str")]
    assert step(made, "prices")[1].inputs == ("prices=>1",)
    assert not made.stages[0].exchanges[0].keep_null_keys
    assert made.stores["prices"][0] == 1


def test_streams_of_different_stages_meet_in_the_later_one(
    builder: StreamsBuilder, lines: KStream[str, str]
) -> None:
    """The earlier one travels on, by its key; records without a key come along."""
    counts = lines.group_by_key().count(name="count").to_stream().map_values(str)
    counts.merge(lines, name="both").group_by_key(key=str).reduce(newest, name="newest")
    made = plan(builder.build())
    assert step(made, "both")[0] == step(made, "newest")[0] == 1
    (travels,) = [e for e in made.stages[0].exchanges if e.step == "lines"]
    assert (travels.key, travels.keep_null_keys, travels.ordered) == (StrSerde(), True, True)


def test_streams_without_a_common_serde_meet_by_the_serde_that_keeps_types(
    builder: StreamsBuilder, lines: KStream[str, str]
) -> None:
    """Where keys differ in type nothing is known behind the merge, and records travel again."""
    counts = lines.group_by(len_of, key=int).reduce(newest, name="last").to_stream()
    counts.merge(lines, name="both").group_by_key().count(name="count")
    made = plan(builder.build())
    (travels,) = [e for e in made.stages[0].exchanges if e.target == 1 and e.step == "lines"]
    assert travels.key == ValueSerde(sort_keys=True)
    assert step(made, "count", "merge")[0] == 2


def len_of(_key: Any, value: Any) -> int:
    return len(value)


def test_old_values_are_sent_where_they_are_at_hand(builder: StreamsBuilder) -> None:
    """A filter asks up to the next store; without one nobody keeps old values for it."""
    stored = builder.table("stored", key=str, value=int, store="stored")
    plain = builder.table("plain", key=str, value=int)
    for name, table in (("stored", stored), ("plain", plain)):
        table.map_values(abs, name=f"{name}-abs").filter(max, name=f"{name}-filter")
    plain.map_values(abs, name="kept", store="kept").filter(max, name="kept-filter")
    stored.map_values(abs, name="unasked")
    made = plan(builder.build())
    wanted = {s.name for stage in made.stages for s in stage.steps if s.wants_old}
    assert wanted == {"stored", "stored-abs", "stored-filter", "kept", "kept-filter"}


def test_a_rule_that_is_not_there_cannot_be_switched_off(builder: StreamsBuilder) -> None:
    """A slip of the pen is named."""
    with pytest.raises(BadOptionError, match="did you mean 'keep_known_keys'"):
        plan(builder.build(), options=PlanOptions(rules_off=frozenset({"keep_known_key"})))


def test_an_empty_topology_has_an_empty_plan(builder: StreamsBuilder) -> None:
    """Engines decide what that means."""
    made = plan(builder.build())
    assert len(made.stages) == 1
    assert made.topics == ()


def test_the_identity_of_a_store_set_is_its_names_kinds_and_formats() -> None:
    """It is part of a path on disk: the order of stores and their settings do not move it."""
    a, b = StoreSpec(name="a"), StoreSpec(name="b")
    assert store_set_identity([a, b]) == store_set_identity([b, a])
    assert store_set_identity([a]) == store_set_identity([StoreSpec(name="a", logged=False)])
    assert store_set_identity([a]) != store_set_identity([b])
    assert store_set_identity([a]) != store_set_identity([StoreSpec(name="a", format_version=2)])
    assert store_set_identity([a]) != store_set_identity([StoreSpec(name="a", kind="key_value")])


def test_a_table_that_is_read_from_a_topic_has_a_changelog() -> None:
    """tables-keep-their-changelog: no rule takes the source topic for it."""
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    made = plan(builder.build())
    stage, spec = made.stores["prices"]
    assert spec.logged
    assert made.stages[stage].logged == ("prices",)
    assert "reuse_source_topic_as_changelog" not in RULES
