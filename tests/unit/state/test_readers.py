"""A reader that does not end keeps disk: after so many writes it is named, and ending it helps."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from mustela.state.faults import StateReaderError
from mustela.state.interfaces import Committed, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from tests.unit.state.environments import committed, open_lmdb

pytestmark = pytest.mark.slow

WRITES_MAX = 5


def holds_a_view(root: str, pipe: Connection) -> None:
    """Open a view, and wait with it."""
    environment = open_lmdb(Path(root))
    view = environment.snapshot(committed(Token(1, 1, 0), counts=1))
    pipe.send("reading")
    pipe.recv()
    view.close()


def write(environment: LmdbEnvironment, epochs: range) -> None:
    for epoch in epochs:
        before = Committed() if epoch == 1 else committed(Token(1, epoch - 1, 0), counts=epoch - 1)
        rows = [(b"k", b"%d" % epoch)]
        environment.write_pending(Token(1, epoch, 0), before, {"counts": rows})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def pid(root: Path) -> Iterator[int]:
    """A process that reads what the first epoch wrote, and does not end."""
    environment = open_lmdb(root)
    write(environment, range(1, 2))
    environment.close(clean=False)
    context = multiprocessing.get_context("spawn")
    pipe, other_end = context.Pipe()
    reader = context.Process(target=holds_a_view, args=(str(root), other_end))
    reader.start()
    assert pipe.poll(60)
    assert pipe.recv() == "reading"
    assert reader.pid is not None
    yield reader.pid
    reader.kill()
    reader.join(60)


def test_a_reader_that_does_not_end_is_named_and_ending_it_helps(root: Path, pid: int) -> None:
    """A few writes are nothing; so many are an old process that nobody knows of."""
    environment = open_lmdb(root, reader_writes_max=WRITES_MAX)
    last = 2 + WRITES_MAX
    write(environment, range(2, last))
    with pytest.raises(StateReaderError, match=f"process {pid} reads an old view") as caught:
        write(environment, range(last, last + 2))
    assert caught.value.fields["pid"] == pid
    (reader,) = multiprocessing.active_children()
    reader.kill()
    reader.join(60)
    write(environment, range(last + 1, last + 3))


def test_readers_that_come_and_go_are_no_reason(root: Path) -> None:
    """However many writes there are, each view ends before many more."""
    environment = open_lmdb(root, reader_writes_max=WRITES_MAX)
    for epoch in range(1, 3 * WRITES_MAX):
        write(environment, range(epoch, epoch + 1))
        environment.snapshot(committed(Token(1, epoch, 0), counts=epoch)).close()
