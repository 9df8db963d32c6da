"""A large pending is folded in several transactions, and nobody sees it half done."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from mustela.state import lmdb_environment
from mustela.state.faults import StateNotReadyError
from mustela.state.index import Index
from mustela.state.interfaces import Committed, Condition, StoreSpec, Token
from mustela.state.lmdb_compact import live_bytes
from mustela.state.lmdb_files import DATA_FILE, LmdbOptions
from mustela.state.lmdb_folding import Part, apply_part, parts_of
from mustela.state.lmdb_reader import LmdbReaders
from tests.unit.state.environments import committed, make_spec, open_lmdb, rows_of

PAGES = 16


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "state"


class Group:
    """A key group that gets rows in no order, with a dict as the truth."""

    def __init__(self, root: Path, **options) -> None:
        self.environment = open_lmdb(root, **options)
        self.state = committed(None)
        self.model: dict[bytes, bytes] = {}
        self._draw = random.Random(7)
        self._count = 0

    def epoch(self, rows: int) -> dict[bytes, bytes]:
        number = 1 if self.state.token is None else self.state.token.epoch + 1
        fresh = {self.key(): self._draw.randbytes(100) for _ in range(rows)}
        token = Token(1, number, 0)
        self.environment.write_pending(token, self.state, {"counts": sorted(fresh.items())})
        self._count += rows
        self.state = committed(token, counts=self._count)
        self.model.update(fresh)
        return fresh

    def key(self) -> bytes:
        return b"%08d" % self._draw.randrange(10**8)


def cut(monkeypatch, environment, *, after: int) -> list[list[Part]]:
    """End a process when it has committed some parts of a fold; return the parts of this one."""
    parts: list[list[Part]] = []

    def dying(txn, handle, part, path):
        if len(parts) == after:
            os._exit(9)
        parts.append(part)
        apply_part(txn, handle, part, path)

    monkeypatch.setattr(lmdb_environment, "apply_part", dying)
    return parts


def seen_from_outside(readers: LmdbReaders, state: Committed) -> list[tuple[bytes, bytes]]:
    """Return the rows that a process sees which does not write; none if it is refused."""
    try:
        view = readers.snapshot(make_spec(), state)
    except StateNotReadyError:
        return []
    rows = list(view.range("counts", None, None))
    view.close()
    return rows


def test_a_file_stays_near_the_size_of_its_data(root):
    """Every epoch changes nearly all pages; in one transaction each, three generations stay."""
    sizes = {}
    for pages in (16, 1 << 20):
        group = Group(root / str(pages), fold_pages=pages)
        for _ in range(12):
            group.epoch(600)
        group.environment.fold(group.state)
        path = group.environment.path / DATA_FILE
        sizes[pages] = path.stat().st_size / live_bytes(group.environment._opened())
        assert rows_of(group.environment, group.state) == sorted(group.model.items())
        group.environment.close(clean=False)
    assert sizes[16] < 1.7 < 2.3 < sizes[1 << 20]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_process_that_dies_in_a_fold_leaves_the_committed_state(root, monkeypatch, after):
    """Its pending is there, over a base that has a part of it; who asks for the epoch before is
    refused, because the base is no epoch's state."""
    group = Group(root, fold_pages=PAGES)
    group.epoch(2_000)
    group.environment.fold(group.state)
    gone = sorted(group.model)[::2]
    token = Token(1, 2, 0)
    group.environment.write_pending(token, group.state, {"counts": [(key, None) for key in gone]})
    before, group.state = group.state, committed(token, counts=3_000)
    group.environment.close(clean=False)
    child = os.fork()
    if child == 0:
        cut(monkeypatch, group.environment, after=after)
        group.environment.fold(group.state)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    kept = sorted((key, row) for key, row in group.model.items() if key not in set(gone))
    readers = LmdbReaders(root, boot="boot-1", options=LmdbOptions(map_bytes=1 << 28))
    assert seen_from_outside(readers, group.state) == kept
    assert seen_from_outside(readers, before) == ([] if after else sorted(group.model.items()))
    readers.close()
    again = open_lmdb(root, fold_pages=PAGES)
    assert again.condition(group.state) is Condition.FOLDABLE
    assert again.condition(before) is (Condition.AHEAD if after else Condition.CURRENT)
    assert rows_of(again, group.state) == kept
    again.fold(group.state)
    assert again.condition(group.state) is Condition.CURRENT
    assert again.positions() == {"counts": 3_000}
    assert rows_of(again, group.state) == kept
    again.close(clean=False)


def test_a_copy_that_was_left_in_a_fold_catches_up(root, monkeypatch):
    """Another host went on: the base has rows of a later epoch than it says, and rows are applied
    again."""
    group = Group(root, fold_pages=PAGES)
    first = sorted(group.epoch(300).items())
    second = sorted(group.epoch(300).items())
    child = os.fork()
    if child == 0:
        cut(monkeypatch, group.environment, after=1)
        group.environment.fold(group.state)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    group.environment.close(clean=False)
    third = [(key, None) for key, _ in second[:200]]
    later = committed(Token(2, 3, 0), counts=800)
    again = open_lmdb(root, fold_pages=PAGES)
    assert again.condition(later) is Condition.BEHIND
    assert again.positions() == {"counts": 300}
    again.restore("counts", [*second, *third], 800, start=300)
    again.finish_restore(later)
    assert again.condition(later) is Condition.CURRENT
    assert rows_of(again, later) == sorted((dict(first) | dict(second[200:])).items())
    again.close(clean=False)


def test_rows_and_their_lines_stay_together(root):
    """A restore takes the lines in an index for those of the base's rows, so they are folded so."""
    stores = (StoreSpec(name="counts", indexes=(("first", Index(len)),)),)
    plain = Group(root / "plain", spec=make_spec(stores=(StoreSpec(name="counts"),)), fold_pages=8)
    indexed = Group(root / "indexed", spec=make_spec(stores=stores), fold_pages=8)
    assert plain.environment._fold_pages == 8
    assert indexed.environment._fold_pages > 10**9
    for group in (plain, indexed):
        group.environment.close(clean=False)


def test_parts_are_in_order_and_complete(root):
    """By pages that they change: many small rows to a part, few large ones."""
    group = Group(root)
    group.epoch(2_000)
    group.environment.fold(group.state)
    handle = group.environment._opened()
    small = dict.fromkeys(sorted(group.model)[:300], b"row")
    large = dict.fromkeys(sorted(group.model)[:30], b"row" * 4000)
    with handle.env.begin() as txn:
        parts = parts_of(txn, handle, {"counts": dict(small), "totals": dict(large)}, 400_000, 32)
        assert parts_of(txn, handle, {}, 10, 32) == [[]]
        assert len(parts_of(txn, handle, {"counts": dict(small)}, 3_000, 128)) == 1
        assert parts_of(txn, handle, {"gone": dict(small)}, 400_000, 32) == [[]]
    told = {table: [] for table in ("counts", "totals")}
    for part in parts:
        for one in part:
            told[one.table] += zip(one.keys, one.values, strict=True)
    assert told == {"counts": list(small.items()), "totals": list(large.items())}
    assert 5 <= len(parts) <= 12
    group.environment.close(clean=False)


def test_a_fold_that_another_process_finished_is_not_gone_on_with(root, monkeypatch):
    """The lock is free between two parts; what is left of the fold is void then."""
    group = Group(root, fold_pages=PAGES)
    group.epoch(2_000)
    parts: list[list[Part]] = []

    def helped(txn, handle, part, path):
        parts.append(part)
        apply_part(txn, handle, part, path)

    def helping(environment, *arguments):
        if len(parts) == 2:
            monkeypatch.undo()
            environment.fold(group.state)
        return writing(environment, *arguments)

    writing = lmdb_environment.LmdbEnvironment._writing
    monkeypatch.setattr(lmdb_environment, "apply_part", helped)
    monkeypatch.setattr(lmdb_environment.LmdbEnvironment, "_writing", helping)
    group.epoch(5)
    assert len(parts) == 2
    assert rows_of(group.environment, group.state) == sorted(group.model.items())
    group.environment.fold(group.state)
    assert rows_of(group.environment, group.state) == sorted(group.model.items())
    group.environment.close(clean=False)
