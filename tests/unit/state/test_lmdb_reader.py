"""A process that only reads: what it has compared is not compared again while it stays as it is."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import mustela.state.lmdb_reader as reader_module
from mustela.clock import ManualClock
from mustela.state.faults import StateNotReadyError
from mustela.state.interfaces import Committed, Token
from mustela.state.lmdb_reader import LmdbReaders
from tests.unit.state.environments import committed, make_spec, open_lmdb

SPEC = make_spec()


def at(epoch: int) -> Committed:
    return committed(Token(1, epoch, 0), counts=epoch)


def write_epochs(root: str, pipe: Connection) -> None:
    """Write the pendings of epochs, each of which folds the one before, as they are asked for."""
    environment = open_lmdb(Path(root))
    while True:
        epoch = pipe.recv()
        before = Committed() if epoch == 1 else at(epoch - 1)
        rows = [(b"k", b"%d" % epoch), (b"k%d" % epoch, b"new")]
        environment.write_pending(Token(1, epoch, 0), before, {"counts": rows})
        pipe.send(epoch)


class Writer:
    """Writes epochs in another process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        context = multiprocessing.get_context("fork")  # before anything is open here
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=write_epochs, args=(str(root), theirs))
        self._process.start()

    def write(self, epoch: int) -> None:
        """Write one."""
        self._pipe.send(epoch)
        assert self._pipe.poll(120)
        assert self._pipe.recv() == epoch

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join(120)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    found = Writer(tmp_path / "state")
    yield found
    found.end()


@pytest.fixture
def readers(writer: Writer) -> Iterator[LmdbReaders]:
    found = LmdbReaders(writer.root, boot="boot-1")
    yield found
    found.close()


def value(readers: LmdbReaders, epoch: int, key: bytes = b"k") -> bytes | None:
    view = readers.snapshot(SPEC, at(epoch))
    try:
        return view.get("counts", key)
    finally:
        view.close()


def test_each_epoch_is_seen_as_soon_as_it_is_committed(
    readers: LmdbReaders, writer: Writer
) -> None:
    """Also by a reader that has often read the one before, which can be read until it is gone."""
    for epoch in (1, 2, 3):
        writer.write(epoch)
        assert [value(readers, epoch) for _ in range(3)] == [b"%d" % epoch] * 3
        assert value(readers, epoch, b"k%d" % epoch) == b"new"
        if epoch > 1:
            assert value(readers, epoch - 1, b"k%d" % epoch) is None  # not committed for it
    with pytest.raises(StateNotReadyError):
        value(readers, 1)


def test_what_has_not_moved_is_compared_once(
    readers: LmdbReaders, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand reads of an epoch decode the description of the files once."""
    decoded: list[bytes] = []
    decode = reader_module.decode_meta

    def noted(blob: bytes) -> object:
        decoded.append(blob)
        return decode(blob)

    monkeypatch.setattr(reader_module, "decode_meta", noted)
    writer.write(1)
    assert {value(readers, 1) for _ in range(1_000)} == {b"1"}
    assert len(decoded) == 1
    writer.write(2)
    assert {value(readers, 2) for _ in range(10)} == {b"2"}
    assert len(decoded) == 2


def test_files_are_looked_for_at_each_new_epoch_and_once_a_second(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within it, what was found of an epoch is read without a look at the directory."""
    clock, looks, look = ManualClock(), list[object](), os.stat

    def noted(path: Any, **options: Any) -> object:
        looks.append(path)
        return look(path, **options)

    readers = LmdbReaders(writer.root, boot="boot-1", now=clock.monotonic)
    monkeypatch.setattr(reader_module.os, "stat", noted)
    writer.write(1)
    assert {value(readers, 1) for _ in range(100)} == {b"1"}
    before = len(looks)
    assert value(readers, 1) == b"1"
    assert len(looks) == before
    shutil.rmtree(writer.root)  # as a reset does
    assert value(readers, 1) == b"1"  # the files that are open hold it as ever
    with pytest.raises(StateNotReadyError):
        value(readers, 2)
    clock.advance(1_000)
    with pytest.raises(StateNotReadyError):
        value(readers, 1)
    readers.close()
