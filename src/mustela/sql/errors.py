"""The errors of SQL."""

from __future__ import annotations

from mustela.errors import DataError, EnvironmentFault, UsageError

__all__ = [
    "SqlBusyError",
    "SqlEndedError",
    "SqlLibraryError",
    "SqlLimitError",
    "SqlStatementError",
    "SqlTimeoutError",
    "SqlValueError",
]


class SqlStatementError(UsageError):
    """A statement cannot be read, names what is not there, or is not one SELECT.

    ``fields`` has the ``line`` and ``column`` where that is, if it is known, both from 1 on.
    """

    code = "SQL_STATEMENT"


class SqlLimitError(UsageError):
    """The result of a statement is too large, or it needs too much memory."""

    code = "SQL_LIMIT"


class SqlLibraryError(UsageError):
    """DuckDB or Arrow is not installed."""

    code = "SQL_LIBRARY"


class SqlValueError(DataError):
    """A value in a store does not fit its column."""

    code = "SQL_VALUE"


class SqlTimeoutError(EnvironmentFault):
    """A statement was not done in time."""

    code = "SQL_TIMEOUT"


class SqlBusyError(EnvironmentFault):
    """As many statements run as may run at once."""

    code = "SQL_BUSY"
    retryable = True


class SqlEndedError(EnvironmentFault):
    """The process that runs a statement has ended, or answers what nobody asked."""

    code = "SQL_ENDED"
