"""What the operators mean, written as records in and records out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import JoinWindows, StreamsBuilder
from tests.conformance.conftest import RunTopology
from tests.conformance.script import at

EVERY = {"settings": {"emit": "every"}}


def test_a_word_count_counts_words(run_topology: RunTopology) -> None:
    """The first program of every newcomer."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
    words.count(store="counts").to_stream().to("counts")
    records = [at(n).send("lines", "p", line) for n, line in enumerate(["a b", "b a b", "c"])]
    out = run_topology(builder.build(), records)
    last = {r.key: (r.value, r.timestamp) for r in out.of("counts")}
    assert last == {"a": (2, 1), "b": (3, 1), "c": (1, 2)}


def test_null_keys_and_values_are_skipped_by_aggregations(run_topology: RunTopology) -> None:
    """And counted; elsewhere they are ordinary."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.to("copy")
    stream.group_by_key().count(store="counts").to_stream().to("counts")
    records = [
        at(1).send("in", "a", "x"),
        at(2).send("in", None, "x"),
        at(3).send("in", "a", None),
        at(4).send("in", "a", "y"),
    ]
    out = run_topology(builder.build(), records)
    assert out["counts"] == [("a", 1), ("a", 2)]
    assert out["copy"] == [("a", "x"), (None, "x"), ("a", None), ("a", "y")]


def test_a_null_key_made_by_group_by_is_dropped(run_topology: RunTopology) -> None:
    """It has no lane to go to."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    grouped = stream.group_by(lambda _key, value: value or None, key=str)
    grouped.count(store="counts").to_stream().to("counts")
    records = [at(n).send("in", "k", value) for n, value in enumerate(["a", "", "a"])]
    assert run_topology(builder.build(), records)["counts"] == [("a", 1), ("a", 2)]


def test_results_take_the_latest_time_of_their_records(run_topology: RunTopology) -> None:
    """Stateless steps keep the record's; a table's time never goes back."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.filter(lambda _k, v: v > 0).to("copy")
    stream.group_by_key().reduce(lambda _x, y: y, store="last").to_stream().to("last")
    records = [at(t).send("in", "a", v) for t, v in [(5, 1), (10, 2), (3, 3)]]
    out = run_topology(builder.build(), records)
    assert [r.timestamp for r in out.of("copy")] == [5, 10, 3]
    assert [(r.value, r.timestamp) for r in out.of("last")] == [(1, 5), (2, 10), (3, 10)]


def test_a_deleted_aggregate_begins_anew(run_topology: RunTopology) -> None:
    """With the initializer, and with the next record's own time."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()

    def add(_key: str, value: int, total: int) -> Any:
        return None if value == 0 else total + value

    table = grouped.aggregate(lambda: 100, add, value=int, store="sums")
    table.to_stream().to("sums", key=str, value=int)
    records = [at(t).send("in", "a", v) for t, v in [(9, 1), (5, 0), (3, 2)]]
    out = run_topology(builder.build(), records)
    assert [(r.value, r.timestamp) for r in out.of("sums")] == [(101, 9), (None, 9), (102, 3)]


def test_headers_follow_their_record(run_topology: RunTopology) -> None:
    """Through stateless steps, and to the update of a table that the record made."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(str.upper).to("out", value=str)
    stream.group_by_key().count(store="counts").to_stream().to("counts")
    trace = (("trace", b"7"),)
    records = [at(1).send("in", "a", "x", trace), at(2).send("in", "a", "x")]
    out = run_topology(builder.build(), records)
    assert [r.headers for r in out.of("out")] == [trace, ()]
    assert [r.headers for r in out.of("counts")] == [trace, ()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [("a", 3)]), (EVERY, [("a", 1), ("a", 2), ("a", 3)])],
    ids=["barrier", "every"],
)
def test_a_table_tells_one_change_per_epoch_or_each(
    run_topology: RunTopology, options: Any, expected: Any
) -> None:
    """As Kafka Streams does with its cache on, and with it off."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.group_by_key().count(store="counts").to_stream().to("counts")
    records = [at(n).send("in", "a", "x") for n in range(3)]
    assert run_topology(builder.build(), records, epochs=[3], **options)["counts"] == expected


def test_a_filter_behind_an_aggregate_deletes_only_what_it_showed(
    run_topology: RunTopology,
) -> None:
    """Its old values are known, so nothing is said of rows that never held."""
    builder = StreamsBuilder()
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    counts.filter(lambda _k, n: n % 2 == 0).to_stream().to("even", key=str, value=int)
    records = [at(n).send("in", "a", "x") for n in range(4)]
    assert run_topology(builder.build(), records)["even"] == [("a", 2), ("a", None), ("a", 4)]


def test_a_second_grouping_counts_the_changes_of_the_first(run_topology: RunTopology) -> None:
    """Re-keying a table's stream needs one more stage, and nothing is lost between."""
    builder = StreamsBuilder()
    first = builder.stream("in", key=str, value=str).group_by_key().count(store="first")
    by_size = first.to_stream().group_by(lambda _key, count: count, key=int)
    by_size.count(store="second").to_stream().to("out")
    records = [at(n).send("in", key, "x") for n, key in enumerate("aabab")]
    out = run_topology(builder.build(), records)
    assert out["out"] == [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2)]


def test_merged_streams_meet_in_one_table(run_topology: RunTopology) -> None:
    """In the order of their times where they share an epoch."""
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str)
    right = builder.stream("right", key=str, value=str)
    table = left.merge(right).group_by_key().reduce(lambda x, y: x + y, store="joined")
    table.to_stream().to("out")
    records = [
        at(4).send("right", "k", "d"),
        at(1).send("left", "k", "a"),
        at(3).send("left", "k", "c"),
        at(2).send("right", "k", "x"),
    ]
    got = run_topology(builder.build(), records, epochs=[4])["out"]
    # Within a partition the order is that of arrival: "x" waits behind "d".
    assert got == [("k", "acdx")]


def test_streams_of_different_stages_can_be_merged(run_topology: RunTopology) -> None:
    """Records without a key travel along, though a key decides where records meet."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    counts = stream.group_by_key().count(store="counts").to_stream()
    stream.merge(counts).to("out")
    records = [at(n).send("in", key, 10) for n, key in enumerate(["a", None, "a"])]
    out = run_topology(builder.build(), records)["out"]
    assert [row for row in out if row[1] == 10] == [("a", 10), (None, 10), ("a", 10)]
    assert [row for row in out if row[1] != 10] == [("a", 1), ("a", 2)]


def test_a_table_topic_is_read_in_order_of_arrival(run_topology: RunTopology) -> None:
    """An older record replaces a newer row; a null value deletes it."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, store="table")
    table.map_values(lambda v: v * 10, value=int).to_stream().to("out")
    records = [at(t).send("in", "a", v) for t, v in [(10, 1), (5, 2), (11, None), (12, 3)]]
    assert run_topology(builder.build(), records)["out"] == [
        ("a", 10),
        ("a", 20),
        ("a", None),
        ("a", 30),
    ]


def test_topics_may_be_chosen_by_a_function(run_topology: RunTopology) -> None:
    """Beside those that are named."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.to(lambda _k, v, _context: f"to-{v}", key=str, value=str)
    stream.filter(lambda _k, v: v == "a").to("to-a")
    records = [at(n).send("in", "k", v) for n, v in enumerate("aba")]
    assert run_topology(builder.build(), records)["to-a"] == [("k", "a")] * 4


def test_a_transformer_sees_deletions(run_topology: RunTopology) -> None:
    """What it makes of one is a row, which a table grouped anew behind it takes out again."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=str)
    states = table.transform_values(lambda k, v: f"{k} gone" if v is None else v, value=str)
    states.to_stream().to("out")
    by_length = states.group_by(lambda key, state: (len(state), key), key=int, value=str)
    by_length.count(store="lengths").to_stream().to("lengths")
    records = [at(n).send("in", "a", value) for n, value in enumerate(["x", None, "y"])]
    out = run_topology(builder.build(), records, **EVERY)
    assert out["out"] == [("a", "x"), ("a", "a gone"), ("a", "y")]
    assert out["lengths"] == [(1, 1), (1, 0), (6, 1), (6, 0), (1, 1)]


def test_a_record_goes_first_through_the_join_that_was_written_first(
    run_topology: RunTopology,
) -> None:
    """It comes to a join by two ways: as part of the pairs of another one, and as itself."""
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=int, value=str) for topic in ("left", "right"))
    near = JoinWindows.of_time_difference(timedelta(seconds=10), grace=timedelta(0))
    pairs = left.join(right, "{}-{}".format, windows=near, value=str, name="pairs")
    threes = pairs.join(right, "{}-{}".format, windows=near, value=str, name="threes")
    threes.to("out", key=int, value=str)
    sent = [("left", "A"), ("right", "a"), ("left", "B"), ("right", "b"), ("left", "C")]
    records = [at(n).send(topic, 0, value) for n, (topic, value) in enumerate(sent)]
    out = run_topology(
        builder.build(), records, settings={"event_time": "stream-time", "emit": "every"}
    )
    assert [(r.after_input, r.value, r.timestamp) for r in out.of("out")] == [
        (1, "A-a-a", 1),
        (2, "B-a-a", 2),
        *[(3, f"{value}-b-a", 3) for value in "AB"],
        *[(3, f"{pair}-b", 3) for pair in ("A-a", "B-a", "A-b", "B-b")],
        *[(4, f"C-{pair}", 4) for pair in ("a-a", "a-b", "b-a", "b-b")],
    ]


def test_a_record_is_followed_by_what_came_of_it_as_the_program_says(
    run_topology: RunTopology,
) -> None:
    """A count that is written before the merge is told before the record that it counts."""
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    counts = words.group_by_key().count(store="counts").to_stream().map_values(str, name="told")
    words.merge(counts).to("out", key=str, value=str)
    records = [at(n).send("in", "k", word) for n, word in enumerate(["a", "b"])]
    out = run_topology(builder.build(), records, **EVERY)
    assert out["out"] == [("k", "1"), ("k", "a"), ("k", "2"), ("k", "b")]
