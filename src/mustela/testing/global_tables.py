"""Global tables of a topology under test, held in memory."""

from __future__ import annotations

from collections.abc import Sequence

from mustela.kernel.core.options import KernelOptions
from mustela.kernel.processors.global_store import GlobalRecords, write_global_store
from mustela.kernel.tables.global_table import global_rows
from mustela.state.interfaces import Committed, EnvironmentSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay, StoreOverlay
from mustela.testing.row import BrokerRow
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalTopics"]


class GlobalTopics:
    """The topics of global tables, and their copies.

    Args:
        tables: The tables.

    Attributes:
        options: Settings for the processors that write stores.
    """

    def __init__(self, tables: Sequence[GlobalTableNode]) -> None:
        self._tables = tuple(tables)
        self._rows: dict[str, list[BrokerRow]] = {table.topic: [] for table in tables}
        self._copies: dict[str, StoreOverlay] = {}
        self._applied: dict[str, int] = {}
        self.options = KernelOptions()

    def __contains__(self, topic: str) -> bool:
        """Return whether a topic is a global table."""
        return topic in self._rows

    def append(self, row: BrokerRow) -> None:
        """Add a record, if it belongs to one of the topics."""
        if row.topic in self._rows:
            self._rows[row.topic].append(row)

    def forget(self, row: BrokerRow) -> None:
        """Remove the newest record of a topic."""
        if row.topic in self._rows:
            taken = self._rows[row.topic].pop()
            assert taken == row, row

    def lose(self) -> None:
        """Drop the copies; they are rebuilt from the topics."""
        self._copies.clear()
        self._applied.clear()

    def views(self, now_ms: int = 0) -> dict[str, StoreOverlay]:
        """Return the copies by store, each with all records of its topic."""
        for table in self._tables:
            self._follow(table, now_ms)
        return dict(self._copies)

    def _follow(self, table: GlobalTableNode, now_ms: int) -> None:
        store, rows = table.store.name, self._rows[table.topic]
        if self._applied.get(store, 0) > len(rows) or store not in self._copies:
            self._copies[store] = _empty(table)
            self._applied[store] = 0
        start = self._applied[store]
        unread = rows[start:]
        if table.supplier is not None:
            if unread:
                records = _records(unread, start)
                write_global_store(
                    table, self._copies[store], records, options=self.options, now_ms=now_ms
                )
            self._applied[store] = len(rows)
            return
        changes = global_rows(
            table,
            [row.key for row in unread],
            [row.value for row in unread],
            [row.timestamp for row in unread],
            [row.headers for row in unread],
        )
        self._copies[store].put_many(changes)
        self._applied[store] = len(rows)


def _records(rows: Sequence[BrokerRow], start: int) -> GlobalRecords:
    return GlobalRecords(
        0,
        range(start, start + len(rows)),
        [row.key for row in rows],
        [row.value for row in rows],
        [row.timestamp for row in rows],
        [row.headers for row in rows],
    )


def _empty(table: GlobalTableNode) -> StoreOverlay:
    spec = EnvironmentSpec(
        application_id="test", stage="global", group=0, groups=1, stores=(table.store,)
    )
    return Overlay(MemoryEnvironment(spec).snapshot(Committed())).store(table.store.name)
