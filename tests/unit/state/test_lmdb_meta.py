"""The description of an environment lies in LMDB's own table; old files have one for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.state import lmdb_environment, lmdb_files
from mustela.state.codec import FLAT_FILE
from mustela.state.interfaces import Committed, Condition, Token
from mustela.state.lmdb_compact import live_bytes
from mustela.state.lmdb_files import DATA_FILE, LmdbOptions
from mustela.state.lmdb_reader import LmdbReaders
from mustela.state.verify import verify_environments
from tests.unit.state.environments import committed, fill, make_spec, open_lmdb, rows_of

ROWS = [(b"key-%06d" % number, b"value-%06d" % number) for number in range(20)]


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def old(root, monkeypatch) -> Committed:
    """Files as they were made once, with rows and a pending."""
    with monkeypatch.context() as patch:
        patch.setattr(lmdb_files, "meta_table", lambda env, txn: env.open_db(b"meta", txn=txn))
        environment = open_lmdb(root)
        state = fill(environment, 1_000)
        environment.write_pending(Token(1, 2, 0), state, {"counts": [(b"more", b"row")]})
        environment.close(clean=False)
    return committed(Token(1, 2, 0), counts=1_001)


def names(environment) -> list[bytes]:
    with environment._opened().env.begin() as txn:
        return [bytes(key) for key, row in txn.cursor() if len(row) == 48]


def pages(environment) -> int:
    return environment._opened().env.info()["last_pgno"] + 1


def test_few_rows_take_fourteen_pages_and_one_after_a_stop(root):
    """Two are LMDB's own; each epoch writes rows, pending, the list of free pages, and the table of
    tables with the description."""
    environment = open_lmdb(root)
    state = committed(None)
    for epoch in range(1, 21):
        token = Token(1, epoch, 0)
        environment.write_pending(token, state, {"counts": ROWS})
        state = committed(token, counts=20 * epoch)
    assert pages(environment) <= 14
    environment.fold(state)
    assert live_bytes(environment._opened()) == 2 * 4096
    environment.close(clean=True)
    assert (environment.path / FLAT_FILE).stat().st_size < 4096
    assert not (environment.path / DATA_FILE).exists()
    again = open_lmdb(root)
    assert rows_of(again, state) == ROWS
    again.close(clean=False)


def test_a_write_that_is_interrupted_at_its_end_is_forgotten(root, monkeypatch):
    """Also by the process that remembers what it wrote last."""
    environment = open_lmdb(root)
    state = fill(environment, 10)

    def interrupted(_meta):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lmdb_environment, "encode_meta", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environment.write_pending(Token(7, 2, 0), state, {"counts": [(b"a", b"1")]})
    environment.write_pending(Token(1, 2, 0), state, {"counts": [(b"b", b"2")]})
    assert (b"b", b"2") in rows_of(environment, committed(Token(1, 2, 0), counts=11))
    environment.close(clean=False)


def test_files_of_before_are_read_and_written(root, old):
    """By whoever reads, writes and checks them; a copy of them is as all others are."""
    readers = LmdbReaders(root, boot="boot-1", options=LmdbOptions(map_bytes=1 << 28))
    view = readers.snapshot(make_spec(), old)
    assert view.count("counts") == 1_001
    view.close()
    readers.close()
    environment = open_lmdb(root)
    assert b"meta" in names(environment)
    assert environment.condition(old) is Condition.FOLDABLE
    before = rows_of(environment, old)
    environment.write_pending(Token(1, 3, 0), old, {"counts": [(b"new", b"row")]})
    state = committed(Token(1, 3, 0), counts=1_002)
    assert environment.positions() == {"counts": 1_001}
    environment.close(clean=False)
    assert verify_environments([environment.path]) == []
    environment = open_lmdb(root)
    for epoch in range(4, 12):
        token = Token(1, epoch, 0)
        rows = [(key, b"%d" % epoch + row) for key, row in before]
        environment.write_pending(token, state, {"counts": sorted(rows)})
        state = committed(token, counts=epoch * 1_000)
    now = rows_of(environment, state)
    assert environment.compact()
    assert b"meta" not in names(environment)
    assert rows_of(environment, state) == now == sorted([*rows, (b"new", b"row")])
    environment.fold(state)
    assert environment.positions() == {"counts": 11_000}
    environment.close(clean=True)
    assert verify_environments([environment.path]) == []


def test_damage_of_the_description_is_found(root):
    """It is a row among the names of tables, and checked as it was in a table of its own."""
    environment = open_lmdb(root)
    fill(environment, 10)
    handle = environment._opened()
    with handle.env.begin(write=True) as txn:
        txn.put(b"meta", b"x" * 100, db=handle.meta)
    environment.close(clean=False)
    assert verify_environments([environment.path]) == [environment.path]
