"""Rows that are sorted before they are written, also where they are many."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mustela.state import runs
from mustela.state.runs import in_key_order

keys = st.binary(min_size=0, max_size=2)
rows = st.lists(st.tuples(keys, st.none() | st.binary(max_size=40)), max_size=120)


@pytest.fixture(params=["in memory", "in a file", "in several files"])
def small(request, monkeypatch):
    """Limits that few rows reach."""
    if request.param != "in memory":
        monkeypatch.setattr(runs, "_PART_ROWS", 3)
        monkeypatch.setattr(runs, "_RUN_ROWS", 8)
        monkeypatch.setattr(runs, "_BLOCK_ROWS", 3)
    if request.param == "in several files":
        monkeypatch.setattr(runs, "_RUNS_MAX", 2)
        monkeypatch.setattr(runs, "_RUN_BYTES", 50)
        monkeypatch.setattr(runs, "_BLOCK_BYTES", 40)
    return request.param


def test_each_key_has_its_last_row(small, tmp_path):
    """As if the rows had been applied one by one, whatever the limits; the last batch says so."""

    @given(rows)
    def check(written):
        found: dict[bytes, bytes | None] = {}
        ends = []
        for batch, last in in_key_order(iter(written), tmp_path / "environment"):
            assert batch.keys == sorted(set(batch.keys))
            found.update(zip(batch.keys, batch.values, strict=True))
            ends.append(last)
        assert found == dict(written)
        assert ends == [False] * (len(ends) - 1) + [True]

    check()
    assert not list(tmp_path.iterdir())


def test_rows_that_need_one_file_come_in_one_order(tmp_path, monkeypatch):
    """So that a table is filled from its first page to its last one."""
    monkeypatch.setattr(runs, "_PART_ROWS", 10)
    monkeypatch.setattr(runs, "_RUN_ROWS", 100)
    written = [(b"%05d" % (number * 7_919 % 10_007), b"v") for number in range(10_000)]
    order = [key for batch, _ in in_key_order(written, tmp_path / "e") for key in batch.keys]
    assert order == sorted(order)
    assert len(order) == len(written)
