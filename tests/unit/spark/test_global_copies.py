"""A host's copy of a global table."""

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
from mustela.spark.global_tables import GlobalCopy
from mustela.spark.process import Process
from mustela.state.lmdb_environment import LmdbEnvironment
from tests.unit.spark.test_lives import program


def test_a_copy_that_was_cut_short_is_read_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of it may be deleted since, and the topic need not tell of that for ever."""
    builder = StreamsBuilder()
    table = builder.global_table("prices", key=str, value=str, store="prices")
    records = builder.stream("in", key=str, value=str)
    joined = records.join(
        table, lambda _value, row: row, foreign_key_with_key=lambda key, _value: key
    )
    joined.to("out", key=str, value=str)
    planned = plan(builder.build())
    process = Process(0, replace(program(tmp_path, "life"), plan=planned))
    copy = GlobalCopy(process, planned.global_tables[0], GlobalMark("id", (2,)))
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
    assert [key for key, _ in view.range("prices", None, None)] == [b"b", b"c"]
    view.close()
    process.close()
