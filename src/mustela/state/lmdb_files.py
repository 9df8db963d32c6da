"""Opening LMDB files, and translating their errors."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from mustela.errors import EnvironmentFault
from mustela.state.directories import make_private
from mustela.state.faults import (
    StateDamagedError,
    StateDiskFullError,
    StateIOError,
    StateNotReadyError,
    StateReaderError,
    gone,
)
from mustela.state.interfaces import Committed, Condition, EnvironmentSpec
from mustela.state.kinds.indexing import tables_of
from mustela.state.protocol import not_ready
from mustela.state.verify import verify_environments

if TYPE_CHECKING:
    from lmdb import _Database as Database  # pyright: ignore[reportPrivateUsage]

    from mustela.state.packing import Packing

__all__ = [
    "DATA_FILE",
    "LmdbOptions",
    "OpenEnvironment",
    "check_readers",
    "compressed_of",
    "damaged",
    "map_bytes_of",
    "meta_table",
    "open_handle",
    "refuse",
    "reported",
]

DATA_FILE = "data.mdb"
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OPEN_FILES = {errno.EMFILE, errno.ENFILE}
_META_PAGES = 2
_PROBE_BYTES = 1 << 20
_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.NotFoundError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LmdbOptions:
    """How LMDB is used.

    Attributes:
        map_bytes: Limit of one environment's file; the address space is reserved, not the disk.
        reserve_bytes: Opening needs this much free disk: LMDB maps its lock file, and a disk
            without room for it ends the process with a signal.
        lock_timeout_ms: How long to wait for another writer.
        readers_max: How many snapshots may be open in all processes together.
        reader_writes_max: How many writes a snapshot may outlive: the pages that it sees cannot be
            reused, so the file grows with each write. A snapshot exists for an epoch or a query,
            for five minutes at most, and an epoch writes once, or some twenty times if it is large.
        fold_pages: About how many pages one transaction of a fold may change.
        flat_bytes: Up to so many bytes of pages with data, a clean close leaves a file of rows.
        saved_in: For state on tmpfs, the directory on disk that a clean close copies it to and
            that it is read back from.
    """

    map_bytes: int = 16 << 30
    reserve_bytes: int = 8 << 20
    lock_timeout_ms: int = 30_000
    readers_max: int = 254
    reader_writes_max: int = 100_000
    fold_pages: int = 128
    flat_bytes: int = 256 << 10
    saved_in: Path | None = None


@dataclass(slots=True)
class OpenEnvironment:
    """An open environment, with its databases.

    Attributes:
        env: LMDB's.
        meta: The database with the description; see `meta_table`.
        pending: That of the changes that are not folded.
        stores: Those of rows, by table.
        odd: Those of rows with odd keys.
        inode: Of the data file: another one means other files.
        pid: The process that opened it.
        compressed: The stores whose values are to be compressed.
        packings: What is known of stores whose values are compressed; see lmdb_packing.py.
    """

    env: lmdb.Environment
    meta: Database
    pending: Database
    stores: dict[str, Database]
    odd: dict[str, Database]
    inode: int
    pid: int
    compressed: frozenset[str] = frozenset()
    packings: dict[str, Packing] = field(default_factory=dict[str, "Packing"])


def compressed_of(spec: EnvironmentSpec) -> frozenset[str]:
    """Return the stores whose values are to be compressed."""
    return frozenset(one.name for one in spec.stores if one.engine.compression != "none")


def map_bytes_of(spec: EnvironmentSpec, options: LmdbOptions) -> int:
    """Return the limit of an environment's file: the largest that a store of it has."""
    return max(options.map_bytes, *(store.engine.map_size or 0 for store in spec.stores), 0)


def damaged(path: Path, what: str, **facts: object) -> StateDamagedError:
    """Return the error for state that is not what was written."""
    return StateDamagedError(
        f"state is damaged: {what}",
        evidence={"path": path, **facts},
        why="the bytes on disk are not those that were written",
        fix="nothing: it is deleted and restored from the changelogs",
        fields={"path": str(path), **facts},
    )


def refuse(condition: Condition | None, path: Path) -> None:
    """Refuse to write to state that may not be used; see `Meta.judged`.

    Raises:
        StateNotReadyError: If it belongs to another application or life.
        StateDamagedError: If another boot left it open.
    """
    if condition is Condition.DAMAGED:
        raise damaged(path, "another boot left it open")
    if condition is not None:
        raise not_ready(condition, Committed(), str(path))


def reported(path: Path) -> AbstractContextManager[None]:
    """Turn errors of LMDB and of the operating system into errors of this room."""
    return _Reported(path)


class _Reported:
    """Around each read there are two of these, so they are no generators, which take longer."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Turn an error into ours."""
        if isinstance(error, lmdb.Error | OSError):
            raise _error_of(self._path, error) from error


def _error_of(path: Path, error: lmdb.Error | OSError) -> EnvironmentFault:
    if isinstance(error, OSError):
        return _by_number(path, error.errno or 0, error.strerror or str(error))
    if isinstance(error, lmdb.MapFullError | lmdb.DiskError):
        return _disk_full(path, str(error))
    if isinstance(error, _DAMAGE):
        return damaged(path, str(error))
    return _by_number(path, _errno_of(error), str(error))


def _errno_of(error: lmdb.Error) -> int:
    code = getattr(error, "code", 0)
    if code:
        return code
    text = str(error)
    numbers = (*_DISK_FULL, *_OPEN_FILES, errno.EIO)
    return next((number for number in numbers if os.strerror(number) in text), 0)


def _by_number(path: Path, number: int, text: str) -> EnvironmentFault:
    if number == errno.ENOENT:
        return gone(path)
    if number in _DISK_FULL or (number == errno.EIO and _is_full(path)):
        return _disk_full(path, text)
    return StateIOError(
        f"cannot read or write state in {path}: {text}",
        fix="raise the limit of open files: ulimit -n, or LimitNOFILE= of systemd"
        if number in _OPEN_FILES
        else "look at the disk, its mount and its rights",
        fields={"path": str(path), "errno": number},
    )


def _is_full(path: Path) -> bool:
    """Return whether the disk is full: LMDB reports EIO for a partial write to a full disk."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    probe = path / f"probe-{os.getpid()}"
    try:
        if limit != resource.RLIM_INFINITY:
            return (path / DATA_FILE).stat().st_size + _PROBE_BYTES > limit
        with probe.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _PROBE_BYTES)
    except OSError as error:
        return error.errno in _DISK_FULL
    else:
        return False
    finally:
        probe.unlink(missing_ok=True)


def _disk_full(path: Path, text: str) -> StateDiskFullError:
    return StateDiskFullError(
        f"there is no room for state in {path}",
        evidence={"cause": text},
        why="an epoch's changes are written as a whole or not at all; these were not",
        fix="free disk space or raise its limit, then start again; nothing is lost",
        fields={"path": str(path)},
    )


def open_handle(
    root: Path, path: Path, spec: EnvironmentSpec, options: LmdbOptions
) -> OpenEnvironment:
    """Open an environment, creating what is missing; call it with the write lock held.

    Raises:
        StateDamagedError: If the files cannot be an environment.
        StateDiskFullError: If there is too little room to open one.
        StateDirectoryError: If the directory is not private to this user.
    """
    make_private(root, path)
    with reported(path):
        room = os.statvfs(path)
        if room.f_bavail * room.f_frsize < options.reserve_bytes:
            raise _disk_full(path, f"{room.f_bavail * room.f_frsize} bytes are free")
        env = lmdb.open(
            str(path),
            map_size=map_bytes_of(spec, options),
            metasync=False,
            sync=False,
            mode=0o600,
            readahead=False,
            max_readers=options.readers_max,
            max_dbs=2 * len(tables_of(spec.stores)) + 2,
        )
        try:
            _check_length(env, path)
            return _open_databases(env, path, spec)
        except BaseException:
            env.close()
            raise


def check_readers(env: lmdb.Environment, path: Path, writes_max: int) -> int:
    """Remove dead readers, and check whether a live one holds old pages.

    Returns:
        The number of the last write.

    Raises:
        StateReaderError: If one has been reading while there were too many writes.
    """
    env.reader_check()
    last = env.info()["last_txnid"]
    for row in env.readers().splitlines()[1:]:
        pid, _, seen = row.split()
        if seen != "-" and last - int(seen) > writes_max:
            msg = f"process {pid} reads an old view of the state in {path}, and does not end"
            raise StateReaderError(
                msg,
                evidence={"writes since": last - int(seen)},
                why="the pages that it sees cannot be used again, so the file would grow for ever",
                fix=f"end process {pid}, which is stopped or hangs, then start again",
                fields={"path": str(path), "pid": int(pid)},
            )
    return last


def _check_length(env: lmdb.Environment, path: Path) -> None:
    """Check a file that is shorter than its pages claim: touching the rest is a SIGBUS.

    A short file can be sound (its last pages may be free and never written), so a child process,
    which may die, reads all of it.
    """
    last, page = env.info()["last_pgno"], env.stat()["psize"]
    if last < _META_PAGES or (path / DATA_FILE).stat().st_size >= (last + 1) * page:
        return
    if verify_environments([path]):
        raise damaged(path, "the data file has been cut short")


def _open_databases(env: lmdb.Environment, path: Path, spec: EnvironmentSpec) -> OpenEnvironment:
    names = [b"pending"]
    tables = tables_of(spec.stores)
    for table in tables:
        names += [b"store:" + table.encode(), b"odd:" + table.encode()]
    # They are created together: if some are missing, NotFoundError means damage or another layout.
    # The handles of a read transaction would end with it, so this one writes nothing.
    # Only tables of lines may come later, with an index that the program did not have.
    fresh = not env.stat()["entries"]
    needed = len(spec.stores) * 2 + 1
    with env.begin(write=True) as txn:
        found = {
            name: env.open_db(name, txn=txn, create=fresh or at >= needed)
            for at, name in enumerate(names)
        }
        meta = meta_table(env, txn)
    return OpenEnvironment(
        env=env,
        meta=meta,
        pending=found[b"pending"],
        stores={table: found[b"store:" + table.encode()] for table in tables},
        odd={table: found[b"odd:" + table.encode()] for table in tables},
        inode=(path / DATA_FILE).stat().st_ino,
        pid=os.getpid(),
        compressed=compressed_of(spec),
    )


def meta_table(env: lmdb.Environment, txn: lmdb.Transaction[bytes]) -> Database:
    """Return the table with the description: LMDB's own of all tables, which saves a page.

    It has a table of its own in files that were made before; a compaction leaves that out.
    """
    try:
        return env.open_db(b"meta", txn=txn, create=False)
    except (lmdb.NotFoundError, lmdb.IncompatibleError):  # nothing of that name, or a row
        return env.open_db(None, txn=txn)


def closed(path: Path) -> StateNotReadyError:
    """Return the error for a snapshot that is used after its end."""
    msg = "this snapshot is closed"
    return StateNotReadyError(msg, fields={"path": str(path)})
