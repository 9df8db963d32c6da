"""The texts of the errors of a topology that cannot be built."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import pytest

from mustela.dsl.builder import StreamsBuilder
from mustela.errors import UsageError

PROGRAMS = {
    "arity": "lines.map_values(lambda key, line: line)",
    "arity_of_a_pair": "lines.filter(lambda line: line)",
    "not_a_function": 'lines.map_values("upper")',
    "initializer": "lines.group_by_key().aggregate([], lambda key, line, seen: seen + [line])",
    "bad_topic": 'builder.stream("my topic")',
    "bad_store": 'lines.group_by_key().count(store="")',
    "duplicate_name": 'lines.filter(bool_of, name="f"); lines.map(pair, name="f")',
    "same_place": "lines.map_values(lambda v: 1); lines.map_values(lambda v: 2)",
    "duplicate_store": 'g = lines.group_by_key(); g.count(store="s"); g.reduce(max, store="s")',
    "missing_key_serde": 'lines.select_key(pair).to("out")',
    "missing_value_serde": 'lines.map_values(len).to("out")',
    "two_ways": 'builder.stream("lines", key=int, value=str)',
    "stream_and_table": 'builder.table("lines", key=str, value=str)',
    "said_twice": 'lines.to("out", key=str, produced=Produced(key=bytes))',
    "other_options": 'lines.to("out", produced=Consumed(key=str))',
    "reset": 'builder.stream("x", consumed=Consumed(auto_offset_reset="earlyest"))',
    "no_topics": "builder.stream([])",
    "topic_twice": 'builder.stream(["a", "a"])',
    "other_builder": 'lines.merge(StreamsBuilder().stream("lines"))',
    "no_serde": 'builder.stream("x", key=complex)',
    "branch_twice": "lines.split().branch(bool_of).branch(bool_of)",
    "split_without_end": "lines.split().branch(bool_of); builder.build()",
    "split_ended": "s = lines.split(); s.no_default_branch(); s.branch(bool_of)",
    "function_and_consumer": "lines.split().branch(bool_of, function=print, consumer=print)",
    "nothing_to_merge": "lines.merge()",
    "merge_with_a_name": 'lines.merge("lines")',
    "partitions": "lines.repartition(repartitioned=Repartitioned(partitions=-1))",
    "partitioner": 'lines.to("out", partitioner=lambda key: 0)',
    "print_options": 'lines.print("out.txt")',
    "extractor": 'builder.stream("x", consumed=Consumed(timestamp_extractor=lambda r: r.time))',
    "pattern_of_bytes": 'builder.stream(re.compile(b"x"))',
    "pattern_and_topic": 'builder.stream(re.compile("li.*"))',
    "pattern_and_table": 'builder.stream(re.compile("t.*")); builder.table("tab", key=str)',
    "reset_by_no_duration": (
        "reset = AutoOffsetReset.by_duration(None); "
        'builder.stream("x", consumed=Consumed(auto_offset_reset=reset))'
    ),
    "join_of_other_builder": (
        'lines.join(StreamsBuilder().table("t", key=str, value=str), bool_of)'
    ),
    "join_without_windows": "lines.join(lines.filter(bool_of), bool_of)",
    "join_of_other_keys": 'lines.join(builder.table("t", key=int, value=str), bool_of)',
    "join_with_a_number": "lines.join(7, bool_of)",
    "table_join_of_other_builder": (
        'builder.table("t", key=str, value=str).join('
        'StreamsBuilder().table("u", key=str, value=str), bool_of)'
    ),
    "suppress_without_windows": (
        "lines.group_by_key().count(store='s').suppress("
        "Suppressed.until_window_closes(BufferConfig.unbounded()))"
    ),
    "grace_that_is_negative": (
        "lines.group_by_key().windowed_by("
        "TimeWindows(size=timedelta(minutes=1), grace=timedelta(minutes=-1)))"
    ),
    "a_table_written_to_a_topic": "builder.table('rows', key=str, value=str).to('out')",
    "a_global_table_read_as_a_stream": "builder.global_table('towns', key=str).to_stream()",
    "a_stream_suppressed": (
        "lines.suppress(Suppressed.until_time_limit("
        "timedelta(minutes=1), BufferConfig.unbounded()))"
    ),
    "a_table_merged": "lines.merge(builder.table('rows', key=str, value=str))",
    "a_handler_that_is_none": 'lines.filter(bool_of, on_error="ignore")',
    "a_handler_without_context": "lines.filter(bool_of, on_error=lambda error: error)",
    "windows_of_no_size": "TimeWindows(size=timedelta(0), grace=timedelta(0))",
}

HEAD = """\
import re
from datetime import timedelta
from mustela import (
    AutoOffsetReset,
    Consumed,
    Produced,
    Repartitioned,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from mustela.windows import BufferConfig
def bool_of(key, value): return True
def pair(key, value): return key, value
builder = StreamsBuilder()
lines = builder.stream("lines", key=str, value=str)
"""


def run(program: str) -> None:
    """Run a program as if it stood in a file named app.py."""
    text = HEAD + program + "\n"
    linecache.cache["app.py"] = (len(text), None, text.splitlines(keepends=True), "app.py")
    exec(compile(text, "app.py", "exec"), {"__name__": "app"})


def test_the_text_of_each_error(golden: Callable[[str, str], None]) -> None:
    """What happened, the evidence, the user's line, why, and how to mend it."""
    texts: list[str] = []
    for name, program in PROGRAMS.items():
        with pytest.raises(UsageError) as caught:
            run(program)
        texts.append(f"--- {name}\n{caught.value}\n")
        assert caught.value.at is not None, name
        assert caught.value.fix, name
    golden("describe/errors.txt", "\n".join(texts))


def test_the_programs_are_right_but_for_what_they_show() -> None:
    """The head alone builds."""
    run("")
    assert StreamsBuilder().build().nodes == ()
