"""What the errors of a program advise, followed to the letter: it helps."""

from __future__ import annotations

import linecache
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder, Topology, TopologyTestDriver
from tests.following import Followed, caused_by, each_of, namespace

HEAD = """\
MINUTE = timedelta(minutes=1)
WINDOWS = TimeWindows(size=MINUTE, grace=MINUTE)
NEAR = JoinWindows.of_time_difference(MINUTE, grace=MINUTE)
FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())
VERSIONS = Stores.persistent_versioned_key_value_store("versions", MINUTE)
def bool_of(key, value): return True
def pair(key, value): return key, value
def joined(left, right): return f"{left}{right}"
def fold(key, value, folded): return folded + value
def one_more(old): return (old or 0) + 1
def meet(transaction): transaction.store("visits")
def pay(key, value, transaction): transaction.forward(key, value)
def store_of(supplier, kind=int):
    return Stores.key_value_store_builder(supplier, key=str, value=kind)
visits = store_of(Stores.persistent_key_value_store("visits"))
seen = store_of(Stores.persistent_key_value_store("seen"))
towns = store_of(Stores.persistent_key_value_store("towns"), str)
recent = store_of(Stores.lru_map("recent", 10))
class Keep(ContextualProcessor):
    def process(self, record):
        self.context.forward(record)
class Put(ContextualProcessor):
    def init(self, context):
        super().init(context)
        self.rows = context.state_store("towns")
    def process(self, record):
        self.rows.put(record.key, record.value)
class Visit(ContextualProcessor):
    def process(self, record):
        self.context.update("visits", record.value, one_more)
builder = StreamsBuilder()
lines = builder.stream("lines", key=str, value=str)
"""


def run(program: str) -> None:
    """Run a program as if it stood in a file, and its topology with what the program says."""
    names = namespace()

    def drive(
        what: str | Topology = "", *, keys: Any = ("a",), value: Any = "b", **more: Any
    ) -> None:
        topology: Any = names["builder"] if isinstance(what, str) else what
        timestamp, serde = more.pop("timestamp", 1_000), more.pop("as_serde", type(value))
        with TopologyTestDriver(topology, **more) as driver:
            if isinstance(what, str) and what:
                topic = driver.create_input_topic(what, key=str, value=serde)
                for key in keys:
                    topic.pipe_input(key, value, timestamp=timestamp)

    def tick() -> None:
        with TopologyTestDriver(names["builder"], initial_wall_clock=0) as driver:
            driver.advance_wall_clock_time(timedelta(minutes=1))

    names.update(drive=drive, tick=tick)
    text = HEAD + program + "\n"
    linecache.cache["app.py"] = (len(text), None, text.splitlines(keepends=True), "app.py")
    exec(compile(text, "app.py", "exec", dont_inherit=True), names)
    builder: StreamsBuilder = names["builder"]
    with TopologyTestDriver(builder):
        pass


@pytest.mark.parametrize("case", each_of(Path(__file__).parent))
def test_the_fix_of_a_program_that_cannot_run_helps(case: Followed) -> None:
    """Word for word: the wrong program says it, the right one does it, is built and runs."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - told apart by its code
        run(case.wrong)
    error = caused_by(caught.value, case.code)
    assert error is not None, caught.value
    assert error.fix == case.fix
    run(case.right)
