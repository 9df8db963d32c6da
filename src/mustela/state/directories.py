"""Directories of state: names, permissions, tmpfs, and leftovers."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from mustela.errors import UsageError
from mustela.processes import boot_id, read_process
from mustela.state.faults import StateDirectoryError, StateIOError
from mustela.state.interfaces import EnvironmentSpec, check_name

__all__ = [
    "choose_directory",
    "environment_path",
    "make_private",
    "memory_directory",
    "release_directory",
    "remove_orphans",
    "remove_unclaimed",
]

_SHARED_MEMORY = Path("/dev/shm")
_TMPFS_PREFIX = "mustela-"
_OWNER_FILE = "owner"


def environment_path(state_dir: Path, spec: EnvironmentSpec) -> Path:
    """Return the path of an environment.

    Example:
        >>> spec = EnvironmentSpec(application_id="app", stage="1f", group=3, groups=8, stores=())
        >>> environment_path(Path("/var/lib/x"), spec).as_posix()
        '/var/lib/x/app/1f/00003'
    """
    return state_dir / spec.application_id / spec.stage / f"{spec.group:05d}"


def make_private(root: Path, target: Path) -> None:
    """Create the directories from ``root`` down to ``target``, for this user alone.

    The root belongs to whoever set it up and may be readable by others; everything below must
    be ours. No part may be a symbolic link: a link that someone else can place would send our
    writes and deletions elsewhere.

    Raises:
        StateDirectoryError: If a part is a link, not a directory, another user's, or open to
            others.
        StateIOError: If a part cannot be created.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_link(root)
        here = root
        for part in target.relative_to(root).parts:
            here = here / part
            with contextlib.suppress(FileExistsError):
                here.mkdir(mode=0o700)
            _require_ours(here)
    except FileExistsError:
        _refuse_link(root)
    except OSError as error:
        msg = f"cannot create the state directory {target}: {error.strerror}"
        raise StateIOError(msg, fields={"path": str(target)}) from error


def _refuse_link(path: Path) -> os.stat_result:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _refused(path, "it is a symbolic link", "name the directory itself")
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "it is not a directory", "remove it, or name another state_dir")
    return found


def _require_ours(path: Path) -> None:
    found = _refuse_link(path)
    if found.st_uid != os.geteuid():
        raise _refused(path, f"it belongs to user {found.st_uid}", "name another state_dir")
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise _refused(path, "others may write to it", f"chmod 700 {path}")


def _refused(path: Path, why: str, fix: str) -> StateDirectoryError:
    msg = f"cannot keep state in {path}"
    return StateDirectoryError(msg, why=why, fix=fix, fields={"path": str(path)})


def remove_tree(path: Path) -> None:
    """Delete one of our directories so that a kill cannot leave half of it in place."""
    doomed = path.with_name(f"{path.name}.dead-{os.getpid()}")
    try:
        path.rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def remove_unclaimed(state_dir: Path, application_id: str, claimed: Collection[str]) -> list[Path]:
    """Delete directories that no stage of the application uses; call it before any is open.

    Args:
        state_dir: The directory of state.
        application_id: The application.
        claimed: The stage hashes in use.

    Returns:
        The directories that were deleted.
    """
    home = state_dir / check_name("application", application_id)
    removed: list[Path] = []
    for entry in _entries(home):
        if entry.name not in claimed:
            remove_tree(entry)
            removed.append(entry)
            continue
        for leftover in _entries(entry):
            if ".dead-" in leftover.name:
                shutil.rmtree(leftover, ignore_errors=True)
                removed.append(leftover)
    return removed


def _entries(home: Path) -> Iterator[Path]:
    if home.is_symlink() or not home.is_dir():
        return
    for entry in sorted(home.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            yield entry


def choose_directory(
    state_dir: Path,
    application_id: str,
    *,
    backend: str = "disk",
    needed_bytes: int = 1 << 30,
    say: Callable[[str], None] = lambda _message: None,
    shared_memory: Path = _SHARED_MEMORY,
) -> Path:
    """Return the directory to keep state in.

    With the ``memory`` backend this is a directory on tmpfs, named after the application, when
    there is room for ``needed_bytes``; otherwise the disk, and ``say`` is called. Directories on
    tmpfs whose owner is dead are deleted first; the application's own is used again, so nothing is
    restored after a crash. A clean stop saves the state on disk, in ``state_dir``.

    Raises:
        UsageError: If there is no such backend.
    """
    check_name("application", application_id)
    if backend not in {"disk", "memory"}:
        msg = f"there is no state backend {backend!r}"
        raise UsageError(msg, fix="state.backend is 'disk' or 'memory'")
    mine = memory_directory(application_id, shared_memory=shared_memory)
    remove_orphans(shared_memory, keep=mine if backend == "memory" else None)
    if backend == "disk":
        return state_dir
    try:
        room = os.statvfs(shared_memory)
    except OSError:
        say(f"{shared_memory} does not exist: state is kept on disk in {state_dir}")
        return state_dir
    free = room.f_bavail * room.f_frsize + _size_of(mine)
    if free < needed_bytes:
        say(
            f"{shared_memory} has {free >> 20} MiB free and state may need {needed_bytes >> 20}:"
            f" state is kept on disk in {state_dir}"
        )
        return state_dir
    try:
        owner = _process_name(os.getpid())
    except OSError:
        say(f"this process has no name in /proc: state is kept on disk in {state_dir}")
        return state_dir
    make_private(shared_memory, mine)
    (mine / _OWNER_FILE).write_text(owner)
    return mine


def release_directory(path: Path, *, shared_memory: Path = _SHARED_MEMORY) -> None:
    """Delete a directory that `choose_directory` made on tmpfs; leave any other alone.

    A directory that a newer instance of the application has taken over is left alone.
    """
    ours = path.parent == shared_memory and path.name.startswith(_TMPFS_PREFIX)
    if ours and (_is_mine(path) or not _owner_lives(path)):
        remove_tree(path)


def memory_directory(application_id: str, *, shared_memory: Path = _SHARED_MEMORY) -> Path:
    """Return the directory of an application's state on tmpfs."""
    return shared_memory / f"{_TMPFS_PREFIX}{os.geteuid()}-{application_id}"


def remove_orphans(shared_memory: Path = _SHARED_MEMORY, *, keep: Path | None = None) -> None:
    """Delete this user's state on tmpfs whose owner is dead, except for one directory."""
    for entry in _entries(shared_memory):
        if not entry.name.startswith(f"{_TMPFS_PREFIX}{os.geteuid()}-") or entry == keep:
            continue
        if entry.stat().st_uid == os.geteuid() and not _owner_lives(entry):
            shutil.rmtree(entry, ignore_errors=True)


def _is_mine(directory: Path) -> bool:
    try:
        return _owner_of(directory) == _process_name(os.getpid())
    except OSError:
        return False


def _owner_lives(directory: Path) -> bool:
    """Return whether the owner of a directory still runs, as far as this process can see.

    Containers may share a tmpfs, but see only their own processes: those of other containers are
    assumed to run.
    """
    owner = _owner_of(directory)
    pid, _, rest = owner.partition(":")
    try:
        here = _process_name(os.getpid()).split(":")
        boot, namespace = rest.split(":")[1:] or here[2:]  # older versions did not write these
        if boot and here[2] and boot != here[2]:
            return False
        return namespace != here[3] or rest.split(":")[0] == _start_of(int(pid))
    except (OSError, ValueError):
        return False


def _owner_of(directory: Path) -> str:
    try:
        return (directory / _OWNER_FILE).read_text()
    except OSError:
        return ""


def _process_name(pid: int) -> str:
    """Return the name of a process: pid, start time, boot and namespace."""
    namespace = Path("/proc/self/ns/pid").readlink().name.replace(":", "")
    return f"{pid}:{_start_of(pid)}:{boot_id()}:{namespace}"


def _start_of(pid: int) -> str:
    """Return when a process started, which together with its pid is unique within a boot."""
    stat = read_process(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return str(stat.started)


def _size_of(directory: Path) -> int:
    return sum(
        path.stat().st_blocks * 512
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
