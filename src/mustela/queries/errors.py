"""The errors of queries."""

from __future__ import annotations

from mustela.errors import EnvironmentFault, UsageError

__all__ = [
    "EpochNotReachedError",
    "QueryError",
    "SnapshotExpiredError",
    "SnapshotLimitError",
    "StateElsewhereError",
    "StateUnavailableError",
    "UnknownStoreError",
]


class QueryError(UsageError):
    """A store is read in a way that it, or a closed snapshot, does not allow."""

    code = "QUERY"


class UnknownStoreError(UsageError):
    """There is no store of that name."""

    code = "QUERY_STORE_UNKNOWN"


class StateElsewhereError(UsageError):
    """The state is on other hosts, so that this process cannot read it."""

    code = "QUERY_STATE_ELSEWHERE"


class StateUnavailableError(EnvironmentFault):
    """There is no committed state to read now: the application does not run, or restores it."""

    code = "QUERY_STATE_UNAVAILABLE"
    retryable = True


class EpochNotReachedError(EnvironmentFault):
    """What a reader waits for was not committed in time."""

    code = "QUERY_EPOCH_NOT_REACHED"
    retryable = True


class SnapshotExpiredError(EnvironmentFault):
    """A snapshot was used after its deadline."""

    code = "SNAPSHOT_EXPIRED"
    retryable = True


class SnapshotLimitError(EnvironmentFault):
    """Too many snapshots are open at once."""

    code = "SNAPSHOT_LIMIT"
    retryable = True
