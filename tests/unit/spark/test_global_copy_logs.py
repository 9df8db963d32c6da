"""A host's copy of a global table knows whose logs it has read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.connectors.kafka.truncation import LogPosition
from mustela.plan.epoch import GlobalMark
from mustela.plan.ranges import RawChunk
from mustela.planner.planner import plan
from mustela.spark import global_tables
from mustela.spark.global_tables import GlobalCopy
from mustela.spark.process import Process
from tests.unit.spark.test_lives import program


class Brokers:
    """A topic of which each record is its key and its value, and what is left of its old logs."""

    def __init__(self, **rows: list[bytes]) -> None:
        self.rows = rows
        self.kept: dict[tuple[str, int], int] = {}
        self.asked: list[dict[Any, LogPosition]] = []

    def kept_ends(self, read: dict[Any, LogPosition]) -> dict[Any, int]:
        self.asked += [read] if read else []
        return {place: end for place, end in self.kept.items() if place in read}

    def chunks(self, _: Any, topic: str, partition: int, *to: int, **__: Any) -> Iterator[RawChunk]:
        start, end = to
        rows: list[bytes | None] = [*self.rows[f"p{partition}"][start:end]]
        yield RawChunk(list(range(start, end)), rows, rows, [1] * len(rows))

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    there = Brokers(p0=[b"a", b"b"], p1=[b"c", b"d"])
    monkeypatch.setattr(global_tables, "read_chunks", there.chunks)
    return there


@pytest.fixture
def process(tmp_path: Path, brokers: Brokers) -> Iterator[Process]:
    builder = StreamsBuilder()
    table = builder.global_table("prices", key=str, value=str, store="prices")
    records = builder.stream("in", key=str, value=str)
    joined = records.join(
        table, lambda _value, row: row, foreign_key_with_key=lambda key, _value: key
    )
    joined.to("out", key=str, value=str)
    made = Process(0, replace(program(tmp_path, "life"), plan=plan(builder.build())))
    admin: Any = brokers
    made._admin = admin
    yield made
    made.close()


def keys(process: Process, mark: GlobalMark) -> list[bytes]:
    """What the copy holds when it has read as far as a mark."""
    view = GlobalCopy(process, process.program.plan.global_tables[0], mark).snapshot(now_ms=1)
    found = [key for key, _ in view.range("prices", None, None)]
    view.close()
    return found


def test_a_copy_that_is_ahead_in_one_partition_is_read_on_in_the_others(process: Process) -> None:
    """Two instances of a host look at the partitions of a topic one after the other."""
    assert keys(process, GlobalMark("id", (2, 1))) == [b"a", b"b", b"c"]
    assert keys(process, GlobalMark("id", (1, 2))) == [b"a", b"b", b"c", b"d"]
    assert keys(process, GlobalMark("id", (1, 1))) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("end", [1, 2, 3], ids=["shorter", "as long", "longer"])
def test_a_copy_of_what_the_topic_lost_is_read_anew(
    process: Process, brokers: Brokers, end: int
) -> None:
    """An epoch that read it and was not committed leaves no record of whose log that was."""
    assert keys(process, GlobalMark("id", (2, 1), leaders=(0, 4))) == [b"a", b"b", b"c"]
    brokers.rows["p0"], brokers.kept = [b"a", b"x", b"y"], {("prices", 0): 1}
    found = keys(process, GlobalMark("id", (end, 2), leaders=(1, 4)))
    assert found == sorted([*brokers.rows["p0"][:end], b"c", b"d"])
    assert brokers.asked == [{("prices", 0): LogPosition(2, 0)}]


def test_a_copy_of_a_topic_with_another_leader_is_compared_once(
    process: Process, brokers: Brokers
) -> None:
    """Where nothing was lost it is read on; an older order asks for nothing."""
    keys(process, GlobalMark("id", (1, 1), leaders=(0, 0)))
    assert keys(process, GlobalMark("id", (2, 1), leaders=(1, 0))) == [b"a", b"b", b"c"]
    assert brokers.asked == [{("prices", 0): LogPosition(1, 0)}]
    keys(process, GlobalMark("id", (2, 1), leaders=(1, 0)))
    keys(process, GlobalMark("id", (1, 1), leaders=(0, 0)))
    keys(process, GlobalMark("id", (2, 2), leaders=(1, 0)))
    assert len(brokers.asked) == 1


def test_a_copy_from_before_leader_epochs_is_believed(
    process: Process, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read again after an upgrade; from then on its leaders are known."""
    with monkeypatch.context() as patch:
        patch.setattr(GlobalCopy, "_note_leaders", lambda *_: None)
        keys(process, GlobalMark("id", (2, 1)))
    brokers.rows["p0"] = [b"x", b"y", b"z"]
    assert keys(process, GlobalMark("id", (3, 1), leaders=(5, 5))) == [b"a", b"b", b"c", b"z"]
    assert brokers.asked == []
    keys(process, GlobalMark("id", (3, 1), leaders=(6, 5)))
    assert brokers.asked == [{("prices", 0): LogPosition(3, 5)}]
