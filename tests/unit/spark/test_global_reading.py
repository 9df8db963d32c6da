"""Readers of a global table see exactly what a committed epoch had read of its topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.plan.epoch import GlobalMark
from mustela.plan.ranges import RawChunk
from mustela.planner.planner import plan
from mustela.spark import global_tables
from mustela.spark.global_reading import GlobalReading
from mustela.state.faults import StateGoneError, StateNotReadyError
from mustela.state.interfaces import Condition
from tests.unit.spark.test_lives import program

ROWS: list[bytes | None] = [b"a", b"b", b"c", b"d"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What was read of the topic: first offsets and ends."""
    done: list[tuple[int, int]] = []

    def chunks(_: Any, _topic: str, _partition: int, start: int, end: int, **__: Any) -> Any:
        done.append((start, end))
        rows = ROWS[start:end]
        return iter([RawChunk(list(range(start, end)), rows, rows, [1] * len(rows))])

    monkeypatch.setattr(global_tables, "read_chunks", chunks)
    return done


class Tables:
    """The readers' copies of one table, in one process after another."""

    def __init__(self, directory: Path) -> None:
        builder = StreamsBuilder()
        builder.global_table("prices", key=str, value=str, store="prices")
        builder.stream("in", key=str, value=str).to("out", key=str, value=str)
        self.program = replace(program(directory, "life"), plan=plan(builder.build()))
        self.reading = GlobalReading(self.program)

    def view(self, end: int, epoch: int) -> Any:
        (table,) = self.program.plan.global_tables
        return self.reading.open(table, GlobalMark("id", (end,)), epoch)

    def keys(self, end: int, epoch: int) -> list[bytes]:
        view = self.view(end, epoch)
        try:
            return keys_of(view)
        finally:
            view.close()

    def restart(self) -> None:
        self.reading.close()
        self.reading = GlobalReading(self.program)


def keys_of(view: Any) -> list[bytes]:
    return [key for key, _ in view.range("prices", None, None)]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    made = Tables(tmp_path)
    yield made
    made.reading.close()


def test_a_table_is_read_as_far_as_the_epoch_had_read_it(
    tables: Tables, reads: list[tuple[int, int]]
) -> None:
    """A later epoch reads on, a view stays as it is, and an older epoch is told to look anew."""
    first = tables.view(2, epoch=5)
    assert tables.keys(3, epoch=6) == [b"a", b"b", b"c"]
    assert keys_of(first) == [b"a", b"b"]
    first.close()
    assert reads == [(0, 2), (2, 3)]
    with pytest.raises(StateNotReadyError) as found:
        tables.view(2, epoch=5)
    assert found.value.fields["condition"] is Condition.AHEAD
    assert tables.keys(3, epoch=7) == [b"a", b"b", b"c"]
    assert reads == [(0, 2), (2, 3)]


def test_the_next_process_goes_on_where_the_last_one_was(
    tables: Tables, reads: list[tuple[int, int]]
) -> None:
    """One that had read further than what is committed now is read again."""
    assert tables.keys(2, epoch=5) == [b"a", b"b"]
    tables.restart()
    assert tables.keys(3, epoch=6) == [b"a", b"b", b"c"]
    assert reads == [(0, 2), (2, 3)]
    tables.restart()
    assert tables.keys(1, epoch=2) == [b"a"]
    assert reads == [(0, 2), (2, 3), (0, 1)]


def test_a_closed_reading_opens_nothing(tables: Tables, reads: list[tuple[int, int]]) -> None:
    """Whoever still has it would open a file of LMDB that the next one has open, too."""
    closed = tables.reading
    tables.restart()
    assert tables.keys(2, epoch=5) == [b"a", b"b"]
    (table,) = tables.program.plan.global_tables
    with pytest.raises(StateGoneError, match="'prices' was closed"):
        closed.open(table, GlobalMark("id", (2,)), 5)
    assert tables.keys(3, epoch=6) == [b"a", b"b", b"c"]
    assert reads == [(0, 2), (2, 3)]
