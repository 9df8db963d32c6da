"""A host's copy of a global table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.clock import ManualClock
from mustela.connectors.kafka import reading_time
from mustela.connectors.kafka.reading_time import RestoreTooSlowError
from mustela.plan.epoch import GlobalMark
from mustela.plan.ranges import RawChunk
from mustela.planner.planner import plan
from mustela.spark import global_tables
from mustela.spark.global_tables import GlobalCopy
from mustela.spark.process import Process
from mustela.state.interfaces import Snapshot
from mustela.state.lmdb_environment import LmdbEnvironment
from tests.unit.spark.test_lives import program


def copy_of(directory: Path, longest_ms: int | None = None) -> tuple[Process, GlobalCopy]:
    """Return a copy of a table whose topic has two records."""
    builder = StreamsBuilder()
    table = builder.global_table("prices", key=str, value=str, store="prices")
    records = builder.stream("in", key=str, value=str)
    joined = records.join(
        table, lambda _value, row: row, foreign_key_with_key=lambda key, _value: key
    )
    joined.to("out", key=str, value=str)
    planned = plan(builder.build())
    ages = {} if longest_ms is None else {"prices": longest_ms}
    made = replace(program(directory, "life"), plan=planned, stale_after_ms=ages)
    process = Process(0, made)
    return process, GlobalCopy(process, planned.global_tables[0], GlobalMark("id", (2,)))


def keys_of(view: Snapshot) -> list[bytes]:
    return [key for key, _ in view.range("prices", None, None)]


@pytest.mark.parametrize("seconds", [(31, 0), (31, 31)])
def test_a_copy_that_took_too_long_to_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: tuple[int, int]
) -> None:
    """A row may have been deleted while it was read, and its deletion be gone, too."""
    process, copy = copy_of(tmp_path, longest_ms=30_000)
    clock, left = ManualClock(10**9), [(seconds[0], [b"a", b"b"]), (seconds[1], [b"b", b"c"])]

    def chunks(*_: Any, **__: Any) -> Iterator[RawChunk]:
        taken, keys = left.pop(0)
        yield RawChunk([0, 1], list(keys), list(keys), [1, 1])
        clock.advance(taken * 1000)

    monkeypatch.setattr(global_tables, "read_chunks", chunks)
    monkeypatch.setattr(reading_time, "SystemClock", lambda: clock)
    if seconds[1]:
        with pytest.raises(RestoreTooSlowError, match="prices"):
            copy.snapshot(now_ms=1)
    else:
        view = copy.snapshot(now_ms=1)
        assert keys_of(view) == [b"b", b"c"]
        view.close()
    assert not left
    process.close()


def test_a_copy_that_was_cut_short_is_read_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of it may be deleted since, and the topic need not tell of that for ever."""
    process, copy = copy_of(tmp_path)
    left: list[bytes | None] = [b"a", b"b"]

    def chunks(*_: Any, **__: Any) -> Iterator[RawChunk]:
        yield RawChunk([0, 1], list(left), list(left), [1, 1])

    def killed(environment: LmdbEnvironment, store: str, *rest: Any, **named: Any) -> None:
        if store != "prices":  # it would say how far the topic was read
            raise KeyboardInterrupt
        restore(environment, store, *rest, **named)

    restore = LmdbEnvironment.restore
    monkeypatch.setattr(global_tables, "read_chunks", chunks)
    with monkeypatch.context() as patch:
        patch.setattr(LmdbEnvironment, "restore", killed)
        with pytest.raises(KeyboardInterrupt):
            copy.snapshot(now_ms=1)
    left[:] = [b"b", b"c"]
    view = copy.snapshot(now_ms=2)
    assert keys_of(view) == [b"b", b"c"]
    view.close()
    process.close()
