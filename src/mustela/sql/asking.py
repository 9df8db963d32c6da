"""SQL for whoever gives out snapshots: an application, the test driver, a replica, the server."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from mustela.clock import Clock, SystemClock
from mustela.queries.queries import LIFETIME_MAX, Queries, Sent
from mustela.queries.readable import Readable
from mustela.sql.columns import Concealed
from mustela.sql.errors import SqlBusyError, SqlStatementError
from mustela.sql.libraries import check_libraries
from mustela.sql.process import SqlLimits, SqlProcess
from mustela.sql.result import SqlResult
from mustela.sql.tables import tables_of

__all__ = ["AT_ONCE_MAX", "STATEMENT_MAX", "SqlReadable", "ask"]

STATEMENT_MAX: Final = 64 << 10
"""The longest statement, in characters."""
AT_ONCE_MAX: Final = 4
"""How many statements run at once in one process of the application's."""
_ONCE_MORE: Final = timedelta(seconds=1)

_places = threading.BoundedSemaphore(AT_ONCE_MAX)


def ask(
    queries: Queries,
    sql: str,
    *,
    limits: SqlLimits,
    hidden: Concealed | None = None,
    min_epoch: int | bytes | Sent | None = None,
    clock: Clock | None = None,
) -> SqlResult:
    """Return what a statement gives as of the newest committed epoch.

    Args:
        queries: What reads the stores.
        sql: One SELECT, or ``EXPLAIN`` and one SELECT.
        limits: How much it may take.
        hidden: What must not be shown.
        min_epoch: First wait until this epoch is committed.
        clock: Monotonic time.

    Raises:
        SqlStatementError: If it cannot be read, names what is not there, or is not one SELECT.
        SqlLimitError: If it takes more than its limits.
        SqlTimeoutError: If it is not done in time.
        SqlBusyError: If too many run at once.
        SqlLibraryError: If DuckDB or Arrow is not installed.
    """
    check_libraries()
    if len(sql) > STATEMENT_MAX or "\x00" in sql or not _is_text(sql):
        msg = f"a statement is text of at most {STATEMENT_MAX} characters, without NUL"
        raise SqlStatementError(msg, fix="ask with a shorter SELECT")
    lifetime = min(timedelta(seconds=limits.seconds) + _ONCE_MORE, LIFETIME_MAX)
    timeout = timedelta(seconds=limits.seconds)
    with (
        _place(),
        queries.snapshot(lifetime=lifetime, min_epoch=min_epoch, timeout=timeout) as snapshot,
        SqlProcess(
            tables_of(snapshot, hidden), snapshot, limits=limits, clock=clock or SystemClock()
        ) as process,
    ):
        return process.run(sql)


def _is_text(sql: str) -> bool:
    try:
        sql.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _place() -> Generator[None]:
    if not _places.acquire(blocking=False):
        msg = f"{AT_ONCE_MAX} statements run already"
        raise SqlBusyError(msg, fix="ask again when one of them is done")
    try:
        yield
    finally:
        _places.release()


class SqlReadable(Readable):
    """The part of an application, or of the test driver, that reads stores, also by SQL."""

    def sql(
        self,
        statement: str,
        *,
        timeout: timedelta = timedelta(seconds=30),
        rows_max: int = 100_000,
        memory_mb: int = 512,
        min_epoch: int | bytes | Sent | None = None,
    ) -> SqlResult:
        """Return what one SELECT gives: each store is a table, as of one committed epoch.

        The statement runs in a process of its own, with DuckDB: it has rows of the stores, and
        neither files nor network nor anything else of this process. Rows go there as they are
        needed. It needs ``pip install 'mustela[sql]'``.

        Args:
            statement: One SELECT in DuckDB's SQL; with ``EXPLAIN`` before it, its plan.
            timeout: How long it may run, less than five minutes.
            rows_max: The most rows of the result.
            memory_mb: How much memory DuckDB may use, in MiB.
            min_epoch: First wait until this epoch is committed; see `store`.

        Raises:
            SqlStatementError: If it cannot be read, names what is not there, or is not one SELECT.
            SqlLimitError: If its result is larger, or it needs more memory.
            SqlTimeoutError: If it is not done in time.
            SqlValueError: If a value in a store does not fit its column.
            SqlBusyError: If four statements run already.
            SqlLibraryError: If DuckDB or Arrow is not installed.
            StateUnavailableError: If the application is not running.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int, store="prices")
            >>> with TopologyTestDriver(builder) as driver:
            ...     topic = driver.create_input_topic("prices")
            ...     topic.pipe_key_value_list([("pen", 3), ("ink", 12)])
            ...     driver.sql("select count(*), sum(value) from prices where key < 'p'").rows
            [(1, 12)]
        """
        limits = SqlLimits(seconds=timeout.total_seconds(), rows=rows_max, memory=memory_mb << 20)
        return ask(self.queries, statement, limits=limits, min_epoch=min_epoch)
