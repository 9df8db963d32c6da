"""Reading the environments of other processes, without writing anything or taking their locks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import lmdb

from mustela.clock import SystemClock
from mustela.state.codec import (
    FLAT_FILE,
    META_KEY,
    Layer,
    decode_meta,
    digests,
)
from mustela.state.directories import environment_path
from mustela.state.faults import StateNotReadyError
from mustela.state.interfaces import Committed, Condition, EnvironmentSpec, Snapshot
from mustela.state.kinds.indexing import tables_of
from mustela.state.lmdb_files import (
    DATA_FILE,
    LmdbOptions,
    OpenEnvironment,
    damaged,
    map_bytes_of,
    meta_table,
    reported,
)
from mustela.state.lmdb_flat import fill, read_flat
from mustela.state.lmdb_pendings import DecodedPending, has_pending
from mustela.state.lmdb_snapshot import LmdbSnapshot
from mustela.state.memory import MemoryEnvironment
from mustela.state.protocol import Standing, compare, not_ready

__all__ = ["LmdbReaders"]

_LOOK_EVERY_S: Final = 1.0
"""After so long it is looked whether other files have replaced open ones, which then free disk."""


class _Checked(NamedTuple):
    """What was found when the description of files was last compared with a committed state."""

    blob: bytes | None
    spec: EnvironmentSpec
    committed: Committed
    layer: Layer


@dataclass(slots=True)
class _Files:
    """The open files of one environment, and how many views need them."""

    handle: OpenEnvironment
    views: int = 0
    is_old: bool = False
    decoded: DecodedPending = field(default_factory=DecodedPending)
    checked: _Checked | None = None
    looked: float = -inf

    def is_fresh(self, committed: Committed, now: float) -> bool:
        """Whether this state was found here a moment ago: then it need not be looked for again.

        Files that replace these hold the same of it, or something newer.
        """
        known = self.checked
        if known is None or not (known.committed is committed or known.committed == committed):
            return False
        return now - self.looked < _LOOK_EVERY_S


class LmdbReaders:
    """Opens views of environments that other processes write.

    A view is one of LMDB's read transactions: writers do not wait for it, and it does not wait for
    them. Files are opened for reading only, and never created, so that the write lock is not
    needed. A process that does not write state has one of these for a state directory, because LMDB
    must not open a file twice in a process.

    Args:
        state_dir: The directory of state.
        options: How LMDB is used.
        boot: The id of the machine's boot, as the writers know it.
        open_max: How many environments are kept open; of more, those that no view needs are closed,
            oldest first.
        now: The monotonic clock, in seconds.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        boot: str,
        options: LmdbOptions | None = None,
        open_max: int = 1_024,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._boot = boot
        self._options = options or LmdbOptions()
        self._open_max = open_max
        self._now = now or SystemClock().monotonic
        self._lock = threading.RLock()
        self._open: dict[Path, _Files] = {}
        self._inherited: list[dict[Path, _Files]] = []
        self._pid = os.getpid()
        self._is_closed = False
        self._paths: dict[tuple[str, str, int], Path] = {}

    def snapshot(self, spec: EnvironmentSpec, committed: Committed) -> Snapshot:
        """Open a view of the committed state of one environment.

        Raises:
            StateNotReadyError: If the environment does not hold that state, for example because it
                is being restored or has moved on.
            StateDamagedError: If it cannot be read.
        """
        path = self._path(spec)
        files = self._take(path, spec, committed)
        if files is None:
            return MemoryEnvironment(spec).snapshot(committed)  # nothing was ever written
        try:
            with reported(path):
                txn = files.handle.env.begin()
                try:
                    layer = self._layer(txn, files, spec, committed, path)
                except BaseException:
                    txn.abort()
                    raise
        except BaseException:
            self._give_back(files)
            raise
        return LmdbSnapshot(
            txn, files.handle, layer, path, spec, lambda _view: self._give_back(files)
        )

    def close(self) -> None:
        """Close all files; those that a view still needs are closed with it."""
        with self._lock:
            self._is_closed = True
            known, self._open = self._mine(), {}
            for files in known.values():
                _retire(files)

    def _path(self, spec: EnvironmentSpec) -> Path:
        """Return the path of an environment; making one takes longer than a read."""
        place = spec.application_id, spec.stage, spec.group
        found = self._paths.get(place)
        if found is None:
            found = self._paths[place] = environment_path(self._state_dir, spec)
        return found

    def _take(self, path: Path, spec: EnvironmentSpec, committed: Committed) -> _Files | None:
        """Return the open files with one view more; None if there are none, and need not be."""
        with self._lock:
            if self._is_closed:
                msg = "the state is no longer read by this process"
                raise StateNotReadyError(msg, fields={"path": str(path)})
            known = self._mine()
            found = known.pop(path, None)
            now = self._now()
            if found is not None and found.is_fresh(committed, now):
                known[path] = found
                found.views += 1
                return found
            inode = _inode_of(path)
            if found is not None and found.handle.inode != inode:
                _retire(found)  # another process has replaced or deleted the files
                found = None
            if inode < 0:
                if committed.token is None:
                    return None
                raise not_ready(Condition.EMPTY, committed, str(path))
            if found is None:
                self._make_room(known)
                found = self._opened(path, spec, committed)
                if found is None:
                    return None
            known[path] = found
            found.views += 1
            found.looked = now
            return found

    def _opened(self, path: Path, spec: EnvironmentSpec, committed: Committed) -> _Files | None:
        with reported(path):
            handle = _open(path, spec, self._options)
        if handle is not None:
            return _Files(handle)
        if committed.token is None:
            return None
        raise not_ready(Condition.EMPTY, committed, str(path))

    def _give_back(self, files: _Files) -> None:
        with self._lock:
            files.views -= 1
            if files.is_old and not files.views and files.handle.pid == os.getpid():
                files.handle.env.close()

    def _mine(self) -> dict[Path, _Files]:
        """Return the files that this process opened.

        A forked child must not close inherited files: its parent's views would end with them.
        """
        if self._pid != os.getpid():
            self._inherited.append(self._open)
            self._open = {}
            self._pid = os.getpid()
        return self._open

    def _make_room(self, known: dict[Path, _Files]) -> None:
        for path in list(known):
            if len(known) < self._open_max:
                return
            if not known[path].views:
                _retire(known.pop(path))

    def _layer(
        self,
        txn: lmdb.Transaction[bytes],
        files: _Files,
        spec: EnvironmentSpec,
        committed: Committed,
        path: Path,
    ) -> Layer:
        """Return what lies above the base; raise if the committed state is not here."""
        handle, token = files.handle, committed.token
        blob = txn.get(META_KEY, None, handle.meta)
        known = files.checked
        if (
            known is not None
            and known.spec is spec
            and known.blob == blob
            and (known.committed is committed or known.committed == committed)
        ):
            return known.layer  # the base has not moved: the same pending is still above it
        meta = None if blob is None else decode_meta(blob)
        if blob is not None and meta is None:
            raise damaged(path, "its description cannot be read")
        refused = None if meta is None else meta.judged(spec, self._boot)
        pending = has_pending(txn, handle, token)
        standing = Standing() if meta is None else meta.standing
        condition = refused or compare(standing, committed, has_pending=pending, spec=spec)
        wanted = digests(spec)
        if wanted and meta is not None and condition.ready and meta.indexes != wanted:
            condition = Condition.BEHIND  # the lines of an index are still to be made
        if not condition.ready:
            raise not_ready(condition, committed, str(path))
        layer: Layer = {}
        if condition is Condition.FOLDABLE and token is not None:
            layer = files.decoded.layer(txn, handle, token, path)
        files.checked = _Checked(blob, spec, committed, layer)
        return layer


def _retire(files: _Files) -> None:
    files.is_old = True
    if not files.views:
        files.handle.env.close()


def _inode_of(path: Path) -> int:
    """Return the number of the file that holds an environment, -1 if there is none."""
    for name in (DATA_FILE, FLAT_FILE):
        with suppress(FileNotFoundError):
            return os.stat(f"{path}/{name}").st_ino
    return -1


def _open(path: Path, spec: EnvironmentSpec, options: LmdbOptions) -> OpenEnvironment | None:
    """Open an environment for reading; return None if nothing was written to it yet.

    One that lies flat is read from a copy of its rows in LMDB's form, whose name is gone when it
    is open.
    """
    if (path / DATA_FILE).exists():
        return _open_lmdb(path, spec, options)
    inode = (path / FLAT_FILE).stat().st_ino
    with TemporaryDirectory(prefix="mustela-rows-") as place:
        fill(Path(place) / DATA_FILE, read_flat(path))
        handle = _open_lmdb(Path(place), spec, options)
    if handle is not None:
        handle.inode = inode  # of the file that a writer replaces
    return handle


def _open_lmdb(path: Path, spec: EnvironmentSpec, options: LmdbOptions) -> OpenEnvironment | None:
    if not (path / DATA_FILE).stat().st_size:
        return None
    env = lmdb.open(
        str(path),
        map_size=map_bytes_of(spec, options),
        readonly=True,
        create=False,
        readahead=False,
        max_readers=options.readers_max,
        max_dbs=2 * len(tables := tables_of(spec.stores)) + 2,
    )
    try:
        if not env.stat()["entries"]:
            env.close()
            return None
        stores = [(table, table.encode()) for table in tables]
        with env.begin() as txn:
            meta = meta_table(env, txn)
        return OpenEnvironment(
            env=env,
            meta=meta,
            pending=env.open_db(b"pending", create=False),
            stores={name: env.open_db(b"store:" + data, create=False) for name, data in stores},
            odd={name: env.open_db(b"odd:" + data, create=False) for name, data in stores},
            inode=(path / DATA_FILE).stat().st_ino,
            pid=os.getpid(),
        )
    except BaseException:
        env.close()
        raise
