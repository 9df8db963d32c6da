"""The errors of the state room."""

from __future__ import annotations

from mustela.errors import EnvironmentFault, InvariantError, UsageError

__all__ = [
    "FencedStateError",
    "IndexEntryError",
    "IndexTakenError",
    "StateDamagedError",
    "StateDirectoryError",
    "StateDiskFullError",
    "StateGoneError",
    "StateIOError",
    "StateLibraryError",
    "StateLockedError",
    "StateNotReadyError",
    "StateReaderError",
    "StoreError",
]


class FencedStateError(EnvironmentFault):
    """A newer instance of the application has written this state; this one must stop."""

    code = "STATE_FENCED"


class StateDamagedError(EnvironmentFault):
    """Stored bytes are not what was written.

    ``fields`` holds ``path`` and, where they are known, ``store`` and ``key``. The remedy is to
    destroy the environment and restore it from its changelogs.
    """

    code = "STATE_DAMAGED"
    retryable = True


class StateDiskFullError(EnvironmentFault):
    """There is no room for state; nothing was written."""

    code = "STATE_DISK_FULL"


class StateIOError(EnvironmentFault):
    """The operating system refused to read or write state."""

    code = "STATE_IO"


class StateGoneError(EnvironmentFault):
    """State was deleted while the application was running.

    The epoch is run again, on state that is restored from its changelogs.
    """

    code = "STATE_GONE"
    retryable = True


class StateLibraryError(EnvironmentFault):
    """State was written with the help of a library that is not installed here."""

    code = "STATE_LIBRARY"


class StateLockedError(EnvironmentFault):
    """Another process holds the write lock of an environment and does not release it."""

    code = "STATE_LOCKED"
    retryable = True


class StateReaderError(EnvironmentFault):
    """A process holds an old view of state and does not end, so that its pages cannot be reused."""

    code = "STATE_READER"


class StateDirectoryError(UsageError):
    """A state directory cannot be used as it is: a symlink, not ours, or open to others."""

    code = "STATE_DIRECTORY"


class StateNotReadyError(InvariantError):
    """An environment does not hold the requested state."""

    code = "STATE_NOT_READY"


class StoreError(UsageError):
    """A store is described or used wrongly."""

    code = "STORE"


class IndexEntryError(StoreError):
    """An index has no place for a row, because its function fails or gives what has no order."""

    code = "INDEX_ENTRY"


class IndexTakenError(StoreError):
    """A unique index has an entry for another key already."""

    code = "INDEX_TAKEN"


def gone(path: object) -> StateGoneError:
    """Return the error for state that was deleted after the epoch began to use it."""
    return StateGoneError(
        f"the state in {path} was deleted while the application was running",
        why="another program or person deleted it; it is restored from its changelogs",
        fix="keep other programs out of state_dir while the application runs",
        fields={"path": str(path)},
    )
