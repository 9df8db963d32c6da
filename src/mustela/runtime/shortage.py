"""Errors of a host that has run out of something: disk space, or open files."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from typing import Final

from mustela.errors import EnvironmentFault

__all__ = ["DiskFullError", "OpenFilesError", "shortage_of", "shortage_told"]

_LONGEST: Final = 300


class DiskFullError(EnvironmentFault):
    """A disk that Mustela or Spark writes to has no room left."""

    code = "DISK_FULL"


class OpenFilesError(EnvironmentFault):
    """The process, or the host, may not open more files."""

    code = "OPEN_FILES"


_NO_JVM: Final = "JAVA_GATEWAY_EXITED"
_FILES_OF_A_JVM: Final = 1024
"""Below this limit Spark's JVM cannot even open all of its jars, and ends without saying why."""
_DISK: Final = (errno.ENOSPC, errno.EDQUOT)
_FILES: Final = (errno.EMFILE, errno.ENFILE)


def shortage_of(error: BaseException) -> EnvironmentFault | None:
    """Return the error for what the host lacks, if that is why an exception was raised.

    Example:
        >>> shortage_of(OSError(24, "Too many open files")).code
        'OPEN_FILES'
        >>> shortage_of(OSError(2, "No such file or directory")) is None
        True
    """
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in (*_DISK, *_FILES):
            return _fault(each.errno, str(each))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < _FILES_OF_A_JVM and any(_NO_JVM in str(each) for each in _chain(error)):
        said = f"Spark's JVM did not start, with a limit of {limit} open files"
        return _fault(errno.EMFILE, said)
    return None


def shortage_told(text: str) -> EnvironmentFault | None:
    r"""Return the error for what the host lacks, if the output of another process shows it.

    Example:
        >>> told = shortage_told("Job aborted\nIOException: No space left on device")
        >>> told.code, told.evidence
        ('DISK_FULL', {'said': 'IOException: No space left on device'})
    """
    for number in (*_DISK, *_FILES):
        words = os.strerror(number)
        for line in text.splitlines():
            if words in line:
                return _fault(number, line.strip()[:_LONGEST])
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _fault(number: int, said: str) -> EnvironmentFault:
    if number in _DISK:
        return DiskFullError(
            "a disk is full",
            evidence={"said": said},
            why="epochs pass through state_dir, the directory for temporary files (TMPDIR) and "
            "Spark's spark.local.dir; nothing of the epoch is committed",
            fix="make room, or move the directory to a larger disk, and start the application "
            "again: it continues after its last committed epoch",
        )
    return OpenFilesError(
        "too many files are open",
        evidence={"said": said},
        why="connections, state and Spark's files all count towards the limit on open files; "
        "nothing of the epoch is committed",
        fix="raise the limit (ulimit -n, LimitNOFILE= of systemd) and start the application "
        "again: it continues after its last committed epoch",
    )
