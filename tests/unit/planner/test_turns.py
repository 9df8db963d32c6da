"""In which order one record comes to the inputs of a step."""

from __future__ import annotations

from datetime import timedelta

from mustela import JoinWindows, KStream, StreamsBuilder
from mustela.planner.turns import turns

NEAR = JoinWindows.of_time_difference(timedelta(seconds=1), grace=timedelta(0))


def stream() -> tuple[StreamsBuilder, KStream[str, str]]:
    builder = StreamsBuilder()
    return builder, builder.stream("in", key=str, value=str)


def test_what_was_written_first_is_gone_through_first() -> None:
    """The result of the first join comes to the second before the record itself does."""
    builder, words = stream()
    other = builder.stream("other", key=str, value=str)
    pairs = other.join(words, str.__add__, windows=NEAR, value=str, name="pairs")
    pairs.join(words, str.__add__, windows=NEAR, value=str, name="threes")
    assert turns(builder.build().nodes) == {"threes": (0, 1)}


def test_the_place_in_the_program_counts_and_not_the_input() -> None:
    """Whichever of the two is merged with the other."""
    builder, words = stream()
    loud = words.map_values(str.upper, name="loud")
    long = words.filter(lambda _key, word: len(word) > 3, name="long")
    long.merge(loud, name="both")
    assert turns(builder.build().nodes) == {"both": (1, 0)}


def test_what_travels_to_another_lane_comes_last() -> None:
    """As what goes through a repartition topic."""
    builder, words = stream()
    keyed = words.select_key(lambda _key, word: word, name="keyed")
    counted = keyed.group_by_key(key=str, value=str).count(store="counts").to_stream()
    far = words.repartition(name="far")
    counted.merge(far, words, name="all")
    assert turns(builder.build().nodes) == {"all": (1, 2, 0)}


def test_rows_of_one_step_keep_their_order() -> None:
    """Nothing has to be told where two ways lead from a step that is no source."""
    builder, words = stream()
    counts = words.group_by_key().count(store="counts").to_stream(name="changes")
    counts.merge(counts.filter(lambda _key, count: count > 1, name="more"), name="both")
    words.merge(builder.stream("other", key=str, value=str), name="strangers")
    assert turns(builder.build().nodes) == {}
