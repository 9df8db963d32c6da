"""Names of steps, stores and topics."""

from __future__ import annotations

import pytest

from mustela.api.errors import (
    BadNameError,
    DuplicateNameError,
    DuplicateStoreError,
    OptionConflictError,
)
from mustela.api.names import NAME_LENGTH_MAX, STORE_NAME_LENGTH_MAX
from mustela.api.options import Consumed, Grouped, Materialized
from mustela.dsl.builder import StreamsBuilder
from mustela.topology.checks import unnamed_stateful_steps


def shout(value: str) -> str:
    return value.upper()


def names(builder: StreamsBuilder) -> list[str]:
    return [node.name for node in builder.build()]


def test_a_default_name_is_the_parents_name_and_the_verb() -> None:
    """A step is called after its place."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    counts = lines.flat_map_values(str.split).group_by(lambda _key, word: word).count()
    counts.to_stream().to("counts", key=str)
    assert names(builder) == [
        "lines",
        "lines.flat_map_values",
        "lines.flat_map_values.group_by",
        "lines.flat_map_values.group_by.count",
        "lines.flat_map_values.group_by.count.to_stream",
        "lines.flat_map_values.group_by.count.to_stream.to.counts",
    ]


def test_a_new_step_renames_nothing_beside_it() -> None:
    """No name comes from a counter."""
    before, after = StreamsBuilder(), StreamsBuilder()
    for builder in (before, after):
        lines = builder.stream("lines", key=str, value=str)
        if builder is after:
            lines.filter(lambda _key, line: line).to("filled")
        lines.map_values(shout).to("loud", value=str)
    assert set(names(before)) < set(names(after))


def test_a_second_sibling_takes_the_name_of_its_function() -> None:
    """Two steps of one verb on one stream are told apart by what they do."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values(len)
    lines.map_values(shout)
    assert names(builder)[1:] == ["lines.map_values", "lines.map_values.shout"]


def test_a_second_sibling_takes_the_name_of_its_store_or_of_the_other_stream() -> None:
    """Whatever is known of a step and stays may tell it apart."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    for store in ("a", "b"):
        lines.group_by_key().count(store=store)
        lines.merge(builder.stream(store, key=str, value=str))
    assert {"lines.count", "lines.merge", "lines.count.b", "lines.merge.b"} < set(names(builder))


def test_two_lambdas_in_the_same_place_need_a_name() -> None:
    """Where the place does not tell two steps apart, the user does."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.map_values(lambda line: line.upper())
    with pytest.raises(DuplicateNameError) as caught:
        lines.map_values(lambda line: line.lower())
    error = caught.value
    assert error.fields["name"] == "lines.map_values"
    assert error.at is not None
    assert error.at.code == "lines.map_values(lambda line: line.lower())"
    assert error.fix is not None
    assert 'map_values(..., name="...")' in error.fix
    lines.map_values(lambda line: line.lower(), name="quiet")


def test_a_given_name_is_used_once() -> None:
    """Two steps never share a name."""
    lines = StreamsBuilder().stream("lines", key=str, value=str)
    lines.map_values(len, name="length")
    with pytest.raises(DuplicateNameError) as caught:
        lines.map_values(shout, name="length")
    assert str(caught.value.evidence["first"]).startswith("test_names.py:")


def test_a_step_is_not_named_like_a_source() -> None:
    """Sources take part in the same rule."""
    builder = StreamsBuilder()
    builder.stream("lines").filter(lambda _key, _value: True, name="words")
    with pytest.raises(DuplicateNameError):
        builder.stream("words")


@pytest.mark.parametrize("name", ["", "a b", "ü", ".", "..", "a/b", "x" * (NAME_LENGTH_MAX + 1)])
def test_names_follow_kafkas_rule(name: str) -> None:
    """Whatever becomes part of a topic's name may become one."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    with pytest.raises(BadNameError):
        builder.stream(name)
    with pytest.raises(BadNameError):
        builder.table(name, key=str, value=str)
    with pytest.raises(BadNameError):
        lines.to(name)
    with pytest.raises(BadNameError):
        lines.map_values(shout, name=name)
    with pytest.raises(BadNameError):
        lines.group_by_key(name=name)
    with pytest.raises(BadNameError):
        lines.group_by_key().count(store=name)


def test_a_long_path_still_gives_a_name() -> None:
    """A chain of any length builds; the end of a long name is kept, its start becomes a hash."""
    stream = StreamsBuilder().stream("lines", key=str, value=str)
    seen = {stream.name}
    for _ in range(60):
        stream = stream.filter(lambda _key, _value: True)
        assert len(stream.name) <= NAME_LENGTH_MAX
        seen.add(stream.name)
    assert len(seen) == 61


def test_a_long_path_gives_a_store_a_name_too() -> None:
    """A store's name leaves room for the rest of its changelog's name."""
    builder = StreamsBuilder()
    stream = builder.stream("lines", key=str, value=str)
    for _ in range(40):
        stream = stream.filter(lambda _key, _value: True)
    stream.group_by_key().count()
    (store,) = builder.build().nodes[-1].stores
    assert len(store.name) <= STORE_NAME_LENGTH_MAX


def test_a_store_is_named_by_store_or_by_name() -> None:
    """Either makes the step fit for production; without both it is reported."""
    builder = StreamsBuilder()
    grouped = builder.stream("lines", key=str, value=str).group_by_key()
    grouped.count(store="by-store")
    grouped.count(name="by-name")
    grouped.reduce(max, materialized=Materialized(store="by-options"))
    unnamed = grouped.aggregate(list, lambda _key, value, seen: [*seen, value])
    topology = builder.build()
    assert [s.name for node in topology for s in node.stores] == [
        "by-store",
        "by-name",
        "by-options",
        unnamed.name,
    ]
    assert [node.name for node in unnamed_stateful_steps(topology)] == [unnamed.name]


def test_a_tables_name_comes_from_its_topic() -> None:
    """A table without a name of its own needs none: its topic does not move."""
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int)
    stored = builder.table("stock", key=str, value=int, store="stock")
    topology = builder.build()
    assert topology["prices"].stores == ()
    assert stored.queryable_store_name == "stock"
    assert unnamed_stateful_steps(topology) == []


def test_two_stores_never_share_a_name() -> None:
    """A store has one changelog."""
    grouped = StreamsBuilder().stream("lines", key=str, value=str).group_by_key()
    grouped.count(store="counts")
    with pytest.raises(DuplicateStoreError) as caught:
        grouped.reduce(max, store="counts")
    assert caught.value.fields["store"] == "counts"


def test_a_grouping_names_what_follows() -> None:
    """``Grouped(name=…)`` and ``name=`` begin the names of the steps behind."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by_key(name="same").count()
    lines.group_by(lambda _key, line: line, grouped=Grouped(key=str, name="by-line")).count()
    assert names(builder)[1:] == ["same.count", "by-line", "by-line.count"]


def test_several_topics_make_one_name() -> None:
    """A source of many topics is called after all of them."""
    assert StreamsBuilder().stream(["eu", "us"]).name == "eu-us"


def test_keyword_and_options_must_agree() -> None:
    """What is said twice is said alike."""
    builder = StreamsBuilder()
    with pytest.raises(OptionConflictError):
        builder.stream("lines", key=str, value=str, name="a", consumed=Consumed(name="b"))
    with pytest.raises(OptionConflictError) as caught:
        builder.stream("lines", key=str, value=str, consumed=Consumed(key=int))
    assert caught.value.fields["option"] == "key"
    assert builder.stream("lines", key=str, value=str, consumed=Consumed(key=str)).name == "lines"
