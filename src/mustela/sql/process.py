"""Runs a statement in a process of its own, and gives it the rows that it asks for."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from mustela.clock import Clock
from mustela.errors import MustelaError
from mustela.queries.snapshot import Snapshot
from mustela.sql import wire
from mustela.sql.bounds import Bound
from mustela.sql.errors import (
    SqlEndedError,
    SqlLimitError,
    SqlStatementError,
    SqlTimeoutError,
)
from mustela.sql.fork_server import ForkServer
from mustela.sql.libraries import arrow
from mustela.sql.result import SqlResult
from mustela.sql.tables import StoreTable

__all__ = ["SqlLimits", "SqlProcess"]

_SIZE: Final = "size"
_ROWS: Final = "rows"
_SCANS: Final = "scans"
_MEMORY: Final = "memory"
_FIXES: Final = {"Parser": "ask with one SELECT"}
_WORD: Final = re.compile(r"[\w-]+")
_SCANS_MAX: Final = 200
"""How many scans a statement may have begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """How much a statement may take.

    Attributes:
        seconds: How long it may run.
        rows: The most rows of its result.
        size: The most bytes of its result, in Arrow.
        memory: The bytes of memory that DuckDB may use.
    """

    seconds: float = 30.0
    rows: int = 100_000
    size: int = 64 << 20
    memory: int = 512 << 20


SERVER: Final = ForkServer(kept_s=60.0)
"""What forks the processes of statements."""


class SqlProcess:
    """One statement in a process of its own; use it in a ``with`` block, which ends the process.

    Args:
        tables: The tables, by their names in lower case.
        snapshot: What they show.
        limits: How much the statement may take.
        clock: Monotonic time.
    """

    def __init__(
        self,
        tables: Mapping[str, StoreTable],
        snapshot: Snapshot,
        *,
        limits: SqlLimits,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._snapshot = snapshot
        self._limits = limits
        self._clock = clock
        self._until = clock.monotonic() + limits.seconds
        self._scans: dict[int, Iterator[Any]] = {}
        self._begun = 0
        self._failed: MustelaError | None = None
        try:
            self._child = SERVER.take()
        except OSError as error:
            raise self._ended(str(error)) from error
        self._end = self._child.end

    def __enter__(self) -> SqlProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self._child.stop()
        for scan in self._scans.values():
            cast("Any", scan).close()

    def run(self, sql: str) -> SqlResult:
        """Return what a statement gives.

        Args:
            sql: The statement.

        Raises:
            SqlStatementError: If it cannot be read, or is not one SELECT.
            SqlLimitError: If it takes more than its limits.
            SqlTimeoutError: If it is not done in time.
            SqlValueError: If a value of a store does not fit its column.
        """
        self._send(wire.START, self._begin(sql))
        parts: list[bytes] = []
        size = 0
        while True:
            kind, data = self._receive()
            if kind == wire.DONE:
                return self._result(b"".join(parts))
            if kind == wire.PLAN:
                return self._explained(json.loads(data))
            if kind == wire.RESULT:
                size += len(data)
                if size > self._limits.size:
                    raise self._too_large(_SIZE)
                parts.append(data)
            elif kind == wire.REFUSED:
                raise self._refused(sql, json.loads(data))
            else:
                self._scan(kind, data)

    # -- rows -------------------------------------------------------------------------------------

    def _scan(self, kind: bytes, data: bytes) -> None:
        if kind == wire.SCAN:
            self._open(json.loads(data))
            self._send(wire.ROWS, b"")
        elif kind == wire.CLOSED:
            scan: Any = self._scans.pop(int(data), None)
            if scan is not None:
                scan.close()
        elif kind == wire.MORE:
            try:
                batch = next(self._scans[int(data)], None)
            except MustelaError as error:
                self._failed = error
                raise
            rows = b"" if batch is None else batch.serialize().to_pybytes()
            self._send(wire.ROWS, rows)
        else:
            raise self._ended(data.decode("utf-8", "replace") if kind == wire.FAILED else "")

    def _open(self, asked: dict[str, Any]) -> None:
        self._begun += 1
        if self._begun > _SCANS_MAX:
            raise self._too_large(_SCANS)
        table = self._tables[str(asked["table"]).lower()]
        bounds = [_bound(each) for each in asked["bounds"]]
        names = [str(name) for name in asked["columns"]]
        self._scans[int(asked["scan"])] = table.batches(self._snapshot, names, bounds)

    # -- messages ---------------------------------------------------------------------------------

    def _begin(self, sql: str) -> bytes:
        tables = [
            {
                "name": table.name,
                "schema": b64encode(table.schema().serialize().to_pybytes()).decode(),
                "usable": sorted(table.usable),
            }
            for table in self._tables.values()
        ]
        limits = self._limits
        document = {"sql": sql, "tables": tables, "memory": limits.memory}
        return json.dumps({**document, "seconds": limits.seconds}).encode()

    def _send(self, kind: bytes, data: bytes) -> None:
        self._end.settimeout(self._left())
        try:
            self._end.sendall(wire.written(kind, data))
        except TimeoutError:
            raise self._late() from None
        except OSError:
            raise self._ended() from None

    def _receive(self) -> tuple[bytes, bytes]:
        try:
            return wire.read_frame(self._read, self._limits.size)
        except ValueError:
            raise self._too_large(_SIZE) from None

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._end.settimeout(self._left())
            try:
                part = self._end.recv(min(size - len(parts), 1 << 20))
            except TimeoutError:
                raise self._late() from None
            except OSError:
                part = b""
            if not part:
                raise self._ended()
            parts += part
        return bytes(parts)

    def _left(self) -> float:
        left = self._until - self._clock.monotonic()
        if left <= 0:
            raise self._late()
        return left

    # -- results ----------------------------------------------------------------------------------

    def _result(self, data: bytes) -> SqlResult:
        pa = arrow()
        try:
            table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
            table.validate(full=True)
        except pa.ArrowException as error:
            raise self._ended(type(error).__name__) from None
        if table.num_rows > self._limits.rows:
            raise self._too_large(_ROWS)
        return self._told(table)

    def _explained(self, found: dict[str, Any]) -> SqlResult:
        lines = [*str(found["plan"]).rstrip().split("\n")]
        for scan in found["scans"]:
            table = self._tables[str(scan["table"]).lower()]
            read = table.range([_bound(each) for each in scan["bounds"]]).told()
            rest = " ".join(str(scan["filter"]).split())
            lines += [
                f"table {table.name}: {', '.join(scan['columns'])}",
                f"  read of the store: {' and '.join(read) or 'all rows'}",
                f"  filter after that: {rest or 'none'}",
            ]
        return self._told(arrow().table({"plan": lines}))

    def _told(self, table: Any) -> SqlResult:
        return SqlResult(
            epoch=self._snapshot.epoch,
            columns=tuple(table.schema.names),
            types=tuple(str(field.type) for field in table.schema),
            arrow=table,
        )

    # -- errors -----------------------------------------------------------------------------------

    def _refused(self, sql: str, said: dict[str, Any]) -> MustelaError:
        kind, text = str(said["kind"]), str(said["text"])
        if "Out of Memory" in kind:
            return self._too_large(_MEMORY)
        line, column = _place(sql, said["position"])
        what = text.split("\n")[0]
        evidence: dict[str, object] = {}
        if line:
            evidence["place"] = f"line {line}, column {column}"
        names = ", ".join(table.name for table in self._tables.values()) or "none"
        if kind == "Catalog":
            evidence["tables"] = names
            fix = 'name one of the tables; put a name such as "by-city" into double quotes'
        elif kind == "Binder" and (known := self._columns_in(sql)):
            fix = f"correct the statement; its tables have these columns: {known}"
        else:
            fix = (
                "correct the statement there" if line else _FIXES.get(kind, "correct the statement")
            )
        msg = f"the statement cannot be run: {what}"
        fields = {"line": line, "column": column, "kind": kind}
        return SqlStatementError(msg, evidence=evidence, fix=fix, fields=fields)

    def _columns_in(self, sql: str) -> str:
        """Return the columns of the tables that a statement names."""
        words = set(_WORD.findall(sql.lower()))
        return "; ".join(
            f"{table.name} ({', '.join(column.name for column in table.columns)})"
            for name, table in self._tables.items()
            if name in words
        )

    def _too_large(self, what: str) -> SqlLimitError:
        limits = self._limits
        msg, fix = {
            _MEMORY: (
                f"the statement needs more than {limits.memory >> 20} MiB of memory",
                "group or filter more",
            ),
            _SCANS: (
                f"the statement needs more than {_SCANS_MAX} scans of tables",
                "join fewer tables",
            ),
            _ROWS: (
                f"the result has more than {limits.rows} rows",
                "add LIMIT, or group or filter more",
            ),
            _SIZE: (
                f"the result has more than {limits.size} bytes",
                "add LIMIT, select fewer columns, or group or filter more",
            ),
        }[what]
        return SqlLimitError(msg, fix=fix, fields={"limit": what})

    def _late(self) -> SqlTimeoutError:
        msg = f"the statement was not done within {self._limits.seconds:g} seconds"
        fix = "read fewer rows: EXPLAIN shows what is read of each store"
        return SqlTimeoutError(msg, fix=fix)

    def _ended(self, said: str = "") -> MustelaError:
        if self._clock.monotonic() >= self._until:
            return self._late()
        msg = "the process that runs the statement has ended"
        why = "it used more memory or processor time than it may, or DuckDB has failed"
        evidence = {"said": said} if said else {}
        fix = "group or filter more, so that the statement needs less"
        return SqlEndedError(msg, evidence=evidence, why=why, fix=fix)


def _bound(given: Any) -> Bound:
    column, comparison, value = given
    values = value if comparison == "in" else [value]
    if not all(isinstance(each, str | int) for each in values):
        msg = "a bound is text, or a whole number"
        raise SqlEndedError(msg)
    return str(column), str(comparison), value


def _place(sql: str, position: int | None) -> tuple[int | None, int | None]:
    """Return line and column, from 1 on, of a place that is counted in bytes."""
    data = sql.encode("utf-8", "surrogatepass")
    if position is None or not 0 <= position <= len(data):
        return None, None
    before = data[:position].decode("utf-8", "replace")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
