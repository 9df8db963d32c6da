"""Make the archive of classes that shortens every start: ``python -m mustela.spark.archive``.

A JVM that finds the classes of a start ready in an archive takes a second less. The archive belongs
to one Java and to the jars of one PySpark; it is kept in the user's cache, takes 70 MB, and is made
by starting Spark once and writing down what it loaded. An application that stops and has found none
has it made by a process of the lowest priority; an image of an application makes it while it is
built. Where there is none, or one that does not fit, a start takes as long as it did.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mustela.errors import EnvironmentFault, MustelaError
from mustela.java import Java, find_java
from mustela.spark.job import Jobs
from mustela.spark.jvm import archive_directory, archive_name, archive_sum, end, find_archive
from mustela.spark.session import open_context

__all__ = ["ArchiveError", "make_archive", "make_aside"]

_KEPT = 3
_CORES = 2
_WRITE_TIMEOUT_S = 120.0
_ROOM_BYTES = 1 << 30
_IF_MISSING = "--if-missing"
_LOWEST_PRIORITY = 19
_MAKERS: list[subprocess.Popen[bytes]] = []
"""What this process has started and need not wait for."""


class ArchiveError(EnvironmentFault):
    """The class archive could not be created; starts work without it."""

    code = "CLASS_ARCHIVE"


def make_archive() -> Path:
    """Start Spark, run a job, and keep the classes that were loaded; return the file.

    Raises:
        ArchiveError: If the JVM wrote nothing.
        JavaNotFoundError: If there is no Java that does.
    """
    java = find_java()
    directory, name = archive_directory(), archive_name(java)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = directory / f"{name}.{os.getpid()}.part"
    try:
        _record(part)
        if not part.exists():
            what = f"{java.executable} wrote no archive of classes"
            raise ArchiveError(what, evidence={"version": java.version})
        # Whoever starts meanwhile sees all of it or nothing.
        target = part.replace(directory / f"{name}-{archive_sum(part)}.jsa")
    finally:
        part.unlink(missing_ok=True)
    known = sorted(directory.glob("*.jsa"), key=lambda file: -file.stat().st_mtime)
    for old in known[_KEPT:]:
        old.unlink(missing_ok=True)
    for note in directory.glob("*.seen"):
        if not note.with_suffix(".jsa").exists():
            note.unlink(missing_ok=True)
    return target


def make_aside(environment: Mapping[str, str] | None = None) -> None:
    """Have the archive made by another process, where there is none; never fails.

    Nothing is made for a Java for which that has failed before, or where the disk is short of room.
    """
    variables = os.environ if environment is None else environment
    _MAKERS[:] = [maker for maker in _MAKERS if maker.poll() is None]
    try:
        java = find_java(variables)
        directory = archive_directory(variables)
        if find_archive(java, variables) is not None or _gave_up(directory, java).exists():
            return
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if shutil.disk_usage(directory).free < _ROOM_BYTES:
            return
        command = [sys.executable, "-m", "mustela.spark.archive", _IF_MISSING]
        _MAKERS.append(_start_maker(command, directory, variables))
    except (OSError, MustelaError):
        return


def _start_maker(
    command: Sequence[str], directory: Path, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        env={**variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )


def _gave_up(directory: Path, java: Java) -> Path:
    return directory / f"{archive_name(java)}.gave-up"


def _make_if_missing() -> None:
    """Make the archive unless it is there, or another process is at it."""
    os.nice(_LOWEST_PRIORITY)
    java, directory = find_java(), archive_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(directory / "lock") as alone:
        if not alone or find_archive(java) is not None:
            return
        try:
            make_archive()
        except Exception:
            _gave_up(directory, java).touch()
            raise


@contextmanager
def _alone(file: Path) -> Generator[bool]:
    """Say whether no other process is inside of this block."""
    with file.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _record(part: Path) -> None:
    context: Any = open_context("classes", {"spark.master": f"local[{_CORES}]"}, record=part)
    Jobs(context).warm_up(_CORES)
    pairs = context.parallelize([(number, b"") for number in range(_CORES)], _CORES)
    pairs.partitionBy(_CORES).collect()
    context.stop()
    gateway = context._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return  # Spark's launcher started it
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(_WRITE_TIMEOUT_S)
    finally:
        end(process)


def main(arguments: Sequence[str]) -> None:
    """Make the archive, and say where it is."""
    if list(arguments) == [_IF_MISSING]:
        _make_if_missing()
    else:
        sys.stdout.write(f"{make_archive()}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
