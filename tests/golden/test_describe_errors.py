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
}

HEAD = """\
from mustela.dsl.builder import StreamsBuilder
from mustela.dsl.options import Consumed, Produced
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
