"""A large pending is stored in pieces of two pages, and read as one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mustela.state.codec import encode_pending, token_key
from mustela.state.faults import StateDamagedError
from mustela.state.interfaces import Committed, Condition, Token
from mustela.state.lmdb_compact import live_bytes
from mustela.state.lmdb_files import DATA_FILE
from mustela.state.lmdb_pendings import put_pending
from mustela.state.verify import verify_environments
from tests.unit.state.environments import committed, open_lmdb, rows_of

TOKEN = Token(1, 1, 0)
ROWS = [(b"key-%06d" % number, b"value-%06d" % number * 20) for number in range(1_000)]


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "state"


def keys_of(environment) -> list[bytes]:
    handle = environment._opened()
    with handle.env.begin() as txn:
        return [bytes(key) for key, _ in txn.cursor(handle.pending)]


def written(root: Path, rows=ROWS) -> Committed:
    """Write a pending in one process, which ends."""
    environment = open_lmdb(root)
    environment.write_pending(TOKEN, committed(None), {"counts": rows})
    environment.close(clean=False)
    return committed(TOKEN, counts=len(rows))


def test_pieces_are_put_together(root):
    """And not with those of the attempts before and after it."""
    state = written(root)
    environment = open_lmdb(root)
    handle = environment._opened()
    with handle.env.begin(write=True) as txn:
        for token in (Token(1, 0, 9), Token(1, 1, 1)):
            put_pending(txn, handle, token, encode_pending({"counts": [(b"k", b"v" * 9_000)]}))
    assert len(keys_of(environment)) > 20
    assert environment.condition(state) is Condition.FOLDABLE
    assert rows_of(environment, state) == ROWS
    environment.fold(state)
    assert keys_of(environment) == []
    assert rows_of(environment, state) == ROWS
    environment.close(clean=False)
    assert verify_environments([environment.path]) == []


def test_a_small_one_is_one_row(root):
    """As they were all stored once."""
    state = written(root, ROWS[:5])
    environment = open_lmdb(root)
    assert keys_of(environment) == [token_key(TOKEN)]
    assert rows_of(environment, state) == ROWS[:5]
    environment.close(clean=False)


def test_a_large_one_of_before_is_read(root):
    """It was one row, whatever its size."""
    state = written(root, ROWS[:5])
    environment = open_lmdb(root)
    handle = environment._opened()
    with handle.env.begin(write=True) as txn:
        txn.put(token_key(TOKEN), encode_pending({"counts": ROWS}), db=handle.pending)
    assert rows_of(environment, state) == ROWS
    environment.close(clean=False)
    assert verify_environments([environment.path]) == []


@pytest.mark.parametrize("piece", [1, -1])
def test_a_piece_that_is_missing_is_damage(root, piece):
    """Nothing is read, and a check of the files says so."""
    state = written(root)
    environment = open_lmdb(root)
    handle = environment._opened()
    with handle.env.begin(write=True) as txn:
        txn.delete(keys_of_txn(txn, handle)[piece], db=handle.pending)
    with pytest.raises(StateDamagedError, match="a pending fails its check"):
        environment.snapshot(state)
    environment.close(clean=False)
    assert verify_environments([environment.path]) == [environment.path]


def keys_of_txn(txn, handle) -> list[bytes]:
    return [bytes(key) for key, _ in txn.cursor(handle.pending)]


def test_a_file_does_not_grow_for_room_side_by_side(root):
    """Free pages are rarely next to each other; a pending lies on any of them."""
    environment = open_lmdb(root, fold_pages=16)
    draw, state = random.Random(3), committed(None)
    keys = [b"%08d" % draw.randrange(10**8) for _ in range(6_000)]
    for epoch in range(1, 31):
        part = keys[(epoch - 1) * 600 : epoch * 600] or draw.sample(keys, 600)
        token = Token(1, epoch, 0)
        rows = sorted((key, draw.randbytes(100)) for key in part)
        environment.write_pending(token, state, {"counts": rows})
        state = committed(token, counts=epoch)
    environment.fold(state)
    size = (environment.path / DATA_FILE).stat().st_size
    assert size < 1.6 * live_bytes(environment._opened())
    environment.close(clean=False)


def test_what_another_process_has_taken_over_is_forgotten(root):
    """It is as large as all that the epoch wrote; what is still wanted is read again."""
    environment = open_lmdb(root)
    environment.write_pending(TOKEN, committed(None), {"counts": ROWS})
    known = environment._decoded
    environment.forget_but(TOKEN)
    assert known._known is not None
    environment.forget_but(Token(1, 2, 0))
    assert known._known is None
    assert rows_of(environment, committed(TOKEN, counts=len(ROWS))) == ROWS
    environment.forget_but(None)
    assert known._known is None
    environment.close(clean=False)
