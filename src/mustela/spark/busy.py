"""What a worker is at: a small file of each worker process, which the driver on its host reads.

A worker writes a few numbers before each batch and step, which takes a microsecond. They are in
shared memory, so they outlive the worker: the driver reads them when it takes too long, and when
the worker has died. Beside them is a file for last words: a signal makes the worker write where in
Python it is, also while no Python code can run, and so does a crash.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from mustela.errors import show_key
from mustela.kernel.core.each import call_each
from mustela.plan.batch import Batch
from mustela.state.locking import hold, is_held

__all__ = [
    "ASK",
    "Activity",
    "BusyNote",
    "Doing",
    "busy_root",
    "read_notes",
    "record_at",
    "row_at",
    "words_of",
    "words_size",
]

ASK: Final = signal.SIGUSR2
"""Asks a worker where in its code it is."""

_NOTE: Final = struct.Struct("=diiiiiiqq")
_MOMENT: Final = struct.Struct("=dii")
_BYTES: Final = mmap.PAGESIZE
_WORDS: Final = ".words"
_ROW: Final = "record: "


class Activity(IntEnum):
    """What a worker does; only `DECODE` and `STEP` are code of the user's."""

    REST = 0
    READ = 1
    DECODE = 2
    STEP = 3


class Doing(NamedTuple):
    """What a worker process is at.

    Attributes:
        since: Seconds of the host's monotonic clock at which it began with this.
        kind: What it does.
        step: Index of the step in its stage, or -1.
        stage: The stage.
        task: The task, which behind the first stage is the lane.
        topic: Index of the topic in the plan, or -1 in a lane.
        partition: The partition.
        first: First offset of the batch.
        last: Last offset of the batch.
    """

    since: float
    kind: int
    step: int
    stage: int
    task: int
    topic: int
    partition: int
    first: int
    last: int

    @property
    def is_users(self) -> bool:
        """Whether code of the user's runs."""
        return self.kind >= Activity.DECODE


class BusyNote:
    """The file that a worker writes.

    Args:
        directory: Where the driver looks for it; None where the driver is on another host.
    """

    def __init__(self, directory: Path | None) -> None:
        self._lock = self._words = -1
        self._map: Any = bytearray(_NOTE.size)
        self._handler: Any = None
        if directory is None:
            return
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / str(os.getpid())
        self._lock = hold(path)
        os.pwrite(self._lock, bytes(_BYTES), 0)  # a hole would be a SIGBUS on a full disk
        self._map = mmap.mmap(self._lock, _BYTES)
        self._words = os.open(
            path.with_suffix(_WORDS), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        faulthandler.enable(self._words)
        with suppress(ValueError):  # a task outside the main thread cannot be asked
            self._handler = signal.signal(ASK, self._say_row)
            faulthandler.register(ASK, self._words, all_threads=True, chain=True)

    def begin(self, stage: int, task: int) -> None:
        """Begin a task."""
        self._write(Activity.READ, stage, task)

    def batch(self, stage: int, task: int, place: tuple[int, int], offsets: Sequence[int]) -> None:
        """Begin with a batch that was read, which is decoded first."""
        self._write(Activity.DECODE, stage, task, *place, offsets[0], offsets[-1])

    def _write(  # noqa: PLR0913 - the columns
        self,
        kind: Activity,
        stage: int,
        task: int,
        topic: int = -1,
        partition: int = -1,
        first: int = -1,
        last: int = -1,
    ) -> None:
        now = time.perf_counter()
        _NOTE.pack_into(self._map, 0, now, kind, -1, stage, task, topic, partition, first, last)

    def step(self, index: int) -> None:
        """Begin with a step of the stage."""
        _MOMENT.pack_into(self._map, 0, time.perf_counter(), Activity.STEP, index)

    def at(self, kind: Activity = Activity.REST) -> None:
        """Begin with something that is no step."""
        _MOMENT.pack_into(self._map, 0, time.perf_counter(), kind, -1)

    def close(self) -> None:
        """Let go of the files."""
        if self._words < 0:
            return
        faulthandler.disable()
        faulthandler.unregister(ASK)
        with suppress(ValueError):
            signal.signal(ASK, self._handler or signal.SIG_DFL)
        self._map.close()
        os.close(self._words)
        os.close(self._lock)
        self._lock = self._words = -1
        self._map = bytearray(_NOTE.size)

    def doing(self) -> Doing:
        """Return what is written."""
        return Doing._make(_NOTE.unpack_from(self._map))

    def _say_row(self, _number: int, frame: FrameType | None) -> None:
        told = row_at(frame)
        if told and self._words >= 0:
            os.write(self._words, f"{_ROW}{told}\n".encode())


def row_at(frame: FrameType | None) -> str:
    """Return which record a function of the user's has, seen from one of the frames it is in."""
    found = record_at(frame)
    if found is None:
        return ""
    batch, row = found
    place = batch.context(row)
    topic = place.topic
    where = "" if topic is None else f"offset {place.offset} of {topic}-{place.partition}, "
    return f"{where}key {show_key(batch.keys[row])}"


def record_at(frame: FrameType | None) -> tuple[Batch, int] | None:
    """Return the batch, and the row in it, that a function of the user's has."""
    while frame is not None and frame.f_code is not call_each.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    row, columns = len(frame.f_locals.get("results", ())), frame.f_locals.get("columns")
    caller: FrameType | None = frame.f_back
    if columns is not None and caller is not None and columns is caller.f_locals.get("rest"):
        row += 1  # the first row was on its own
    # A caller that is compiled has no frame, so the batch is asked of what handles its failures.
    batch: object = getattr(frame.f_locals.get("on_failure"), "batch", None)
    while caller is not None and not isinstance(batch, Batch):
        batch, caller = caller.f_locals.get("batch"), caller.f_back
    if not isinstance(batch, Batch) or row >= len(batch):
        return None
    return batch, row


def busy_root(spool_dir: str) -> Path | None:
    """Return where the workers' files are; None where the driver is on another host."""
    return Path(spool_dir) / "busy" if spool_dir else None


def read_notes(directory: Path) -> dict[int, tuple[Doing, bool]]:
    """Return what each worker process is at, and whether it lives."""
    found: dict[int, tuple[Doing, bool]] = {}
    try:
        paths = [path for path in directory.iterdir() if path.name.isdigit()]
    except OSError:
        return found
    for path in paths:
        with suppress(OSError, struct.error):
            doing = Doing._make(_NOTE.unpack_from(path.read_bytes()))
            found[int(path.name)] = doing, is_held(path)
    return found


def words_of(directory: Path, pid: int, start: int = 0) -> str:
    """Return what a worker said of where it is, from a place in its file on."""
    try:
        with (directory / f"{pid}{_WORDS}").open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def words_size(directory: Path, pid: int) -> int:
    """Return how much a worker has said."""
    try:
        return (directory / f"{pid}{_WORDS}").stat().st_size
    except OSError:
        return 0
