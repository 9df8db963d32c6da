"""The process that runs a statement: DuckDB, without anything of the application's but rows.

It is forked from a process that began with an empty environment and one socket, has loaded the
libraries, and never sees a statement or a row. It limits what it may use, and only then looks at
its statement. It asks the application for rows while the statement runs.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn, cast

from mustela.sql import wire
from mustela.sql.bounds import bounds_of

__all__ = ["Engine", "Link", "main", "ready_engine", "serve"]

_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_FUNCTIONS: Final = frozenset(
    {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
)
"""Table functions that a statement may use: they make rows out of their arguments alone."""
_WARM: Final = """
    SELECT *, now() FROM warm
    WHERE t > TIMESTAMPTZ '2026-01-01 00:00:00Z' AND d > DATE '2026-01-01' AND m > 1.5
        AND s IN ('a', 'b', 'c') AND b > 'a'::BLOB AND h > TIME '01:00' AND f > 1.5
"""
_EXPLAIN: Final = "EXPLAIN "
_BATCH: Final = 2_048
_FRAME_MAX: Final = 1 << 30
_PATIENCE: Final = 2
"""Seconds of processor time in addition to the deadline, which the application keeps."""


class Refused(Exception):
    """A statement is refused before it runs."""

    def __init__(self, text: str, position: int | None = None, kind: str = "Parser") -> None:
        super().__init__(text)
        self.position = position
        self.kind = kind


class Engine(NamedTuple):
    """The libraries, and a connection."""

    arrow: Any
    duckdb: Any
    connection: Any


class Link:
    """The socket to the application.

    Args:
        end: The socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def read(self, size: int) -> bytes:
        """Return exactly so many bytes.

        Raises:
            EOFError: If the application has gone.
        """
        parts = bytearray()
        while len(parts) < size:
            part = self._end.recv(min(size - len(parts), 1 << 20))
            if not part:
                msg = "the application has gone"
                raise EOFError(msg)
            parts += part
        return bytes(parts)

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next message."""
        return wire.read_frame(self.read, _FRAME_MAX)

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message that has no answer."""
        with self._lock:
            self._end.sendall(wire.written(kind, data))

    def ask(self, kind: bytes, data: bytes) -> bytes:
        """Send a message and return its answer; threads of DuckDB take turns."""
        with self._lock:
            self._end.sendall(wire.written(kind, data))
            answer, found = self.receive()
        if answer != wire.ROWS:
            msg = "the scan has failed"
            raise RuntimeError(msg)
        return found


class Scans:
    """The tables of a statement, whose rows the application gives.

    Args:
        link: The socket to it.
        arrow: pyarrow.
        empty: Whether no table has rows, as when the statement is only explained.
    """

    def __init__(self, link: Link, arrow: Any, *, empty: bool) -> None:
        self._link = link
        self._pa = arrow
        self._ds: Any = import_module("pyarrow.dataset")
        self._empty = empty
        self._count = 0
        self.told: list[dict[str, Any]] = []

    def dataset(self, name: str, schema: Any, usable: frozenset[str]) -> Any:
        """Return a table for DuckDB, which tells its scanner columns and filter."""

        def scanner(_self: Any, columns: Any = None, filter: Any = None, **_more: Any) -> Any:
            return self._scanner(name, schema, usable, columns, filter)

        members: dict[str, Any] = {
            "__init__": _nothing,
            "schema": property(lambda _self: schema),  # pyright: ignore[reportUnknownLambdaType]
            "scanner": scanner,
        }
        return type("StoreDataset", (self._ds.Dataset,), members)()

    def _scanner(
        self, name: str, schema: Any, usable: frozenset[str], columns: Any, condition: Any
    ) -> Any:
        text = "" if condition is None else str(condition)
        wanted = [n for n in schema.names if columns is None or n in columns or _names(text, n)]
        bounds = [] if condition is None else bounds_of(condition, usable)
        self._count += 1
        number = self._count
        told = {"table": name, "columns": wanted, "bounds": bounds, "filter": text}
        self.told.append(told)
        some = self._pa.schema([schema.field(each) for each in wanted])
        rows = iter(()) if self._empty else self._rows(number, told, some)
        names = some.names if columns is None else list(columns)
        shown = self._pa.schema([some.field(each) for each in names])
        # Arrow's own scanner would read ahead, also of what a LIMIT leaves out.
        found = (
            (batch if condition is None else batch.filter(condition)).select(names)
            for batch in rows
        )
        return _Scanner(self._pa.RecordBatchReader.from_batches(shown, found))

    def _rows(self, number: int, told: dict[str, Any], schema: Any) -> Iterator[Any]:
        begin = {"scan": number, **{n: told[n] for n in ("table", "columns", "bounds")}}
        self._link.ask(wire.SCAN, json.dumps(begin).encode())
        name = str(number).encode()
        try:
            while data := self._link.ask(wire.MORE, name):
                yield self._pa.ipc.read_record_batch(self._pa.py_buffer(data), schema)
        finally:
            self._link.send(wire.CLOSED, name)


class _Scanner:
    """What DuckDB calls a scanner.

    Args:
        reader: The rows.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def to_reader(self) -> Any:
        """Return the rows."""
        return self._reader


def _nothing(_self: Any) -> None:
    """Stand for the constructor of the class above, which allows no subclasses of Python's."""


def _names(text: str, column: str) -> bool:
    """Whether a filter may use a column; once too often does no harm."""
    return column in text


def main() -> NoReturn:
    """Load what statements need, and fork a process for each; end with the application."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's; what forks should have no threads
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing stays of those that have ended
    ready = ready_engine
    with contextlib.suppress(Exception):  # then each statement's process meets it, and tells it
        engine = ready_engine()
        ready = lambda: engine  # noqa: E731
    gc.freeze()
    with contextlib.suppress(OSError, EOFError):  # the application has gone
        _fork_for_ever(socket.socket(fileno=0), ready)
    os._exit(0)


def _fork_for_ever(door: socket.socket, ready: Callable[[], Engine]) -> NoReturn:
    """Fork a process for each socket that comes, and answer with its number and a handle of it.

    Raises:
        EOFError: If the application has gone.
    """
    while True:
        said, ends, _, _ = socket.recv_fds(door, 1, 1)
        if not said:
            raise EOFError
        pid = os.fork()
        if not pid:
            os.dup2(ends[0], door.fileno())  # it has not got the way to others like it
            os.close(ends[0])
            serve(Link(door), ready=ready, confine=_confine)
            os._exit(0)
        os.close(ends[0])
        handle = os.pidfd_open(pid)
        socket.send_fds(door, [str(pid).encode()], [handle])
        os.close(handle)


def serve(
    link: Link, *, ready: Callable[[], Engine], confine: Callable[[int, float], None]
) -> None:
    """Run the one statement that the application asks for.

    Args:
        link: The socket to it.
        ready: Returns the libraries, and a connection that no statement has had.
        confine: Called with memory and seconds before the statement is read.
    """
    try:
        engine = ready()
        _, data = link.receive()
        _run(link, json.loads(data), engine, confine)
    except MemoryError:
        link.send(wire.REFUSED, _told("Out of Memory", "it needs too much memory"))
    except RecursionError:
        link.send(wire.REFUSED, _told("Parser", "its parts are nested too deeply"))
    except (EOFError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the application is told
        link.send(wire.FAILED, f"{type(error).__name__}: {error}"[:500].encode())


def ready_engine() -> Engine:
    """Load the libraries, and what they load when they first need it."""
    arrow: Any = import_module("pyarrow")
    duckdb: Any = import_module("duckdb")
    import_module("pyarrow.dataset")
    arrow.set_cpu_count(1)
    arrow.set_io_thread_count(1)
    connection = _connection(duckdb)
    _warm(connection, arrow)
    return Engine(arrow, duckdb, connection)


def _run(
    link: Link, asked: dict[str, Any], engine: Engine, confine: Callable[[int, float], None]
) -> None:
    arrow, duckdb, connection = engine
    connection.execute(f"SET memory_limit = '{int(asked['memory'])}B'")
    tables = [
        (each["name"], _schema(arrow, each["schema"]), frozenset(each["usable"]))
        for each in asked["tables"]
    ]
    confine(asked["memory"], asked["seconds"])
    try:
        statement, explains = _checked(connection, duckdb, asked["sql"])
        scans = Scans(link, arrow, empty=explains)
        for name, schema, usable in tables:
            connection.register(name, scans.dataset(name, schema, usable))
        connection.execute("SET lock_configuration = true")
        if explains:
            plan = _bind(connection, duckdb, statement, len(asked["sql"]) - len(statement))
            link.send(wire.PLAN, json.dumps(_plan(connection, statement, scans, plan)).encode())
        else:
            _bind(connection, duckdb, statement, len(asked["sql"]) - len(statement))
            _answer(link, arrow, connection.sql(statement))
    except Refused as refused:
        link.send(wire.REFUSED, _told(refused.kind, str(refused), refused.position))
        return
    except duckdb.Error as error:
        link.send(wire.REFUSED, _told(*_reason(error)))
        return
    link.send(wire.DONE)


def _connection(duckdb: Any) -> Any:
    connection = duckdb.connect(":memory:", config={"threads": 1, "async_threads": 0})
    for setting in (
        "TimeZone = 'UTC'",
        "temp_directory = ''",
        "errors_as_json = true",
        "python_enable_replacements = false",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "allow_community_extensions = false",
        "enable_external_access = false",
    ):
        connection.execute(f"SET {setting}")
    return connection


def _warm(connection: Any, arrow: Any) -> None:
    """Have loaded what the libraries load when they first need it: later no file can be opened."""
    types = {
        "t": arrow.timestamp("us", tz="UTC"),
        "d": arrow.date32(),
        "m": arrow.decimal128(38, 9),
        "s": arrow.string(),
        "b": arrow.binary(),
        "h": arrow.time64("us"),
        "f": arrow.float64(),
    }
    dataset: Any = import_module("pyarrow.dataset")
    table = arrow.table({name: arrow.nulls(1, each) for name, each in types.items()})
    connection.register("warm", dataset.dataset(table))
    connection.sql(_WARM).to_arrow_reader(1).read_all()
    connection.execute("SELECT json_serialize_sql(?)", [_WARM]).fetchall()
    connection.unregister("warm")
    moment = arrow.scalar(0, types["t"])
    condition = dataset.field("t") >= moment
    bounds_of(condition, frozenset({"t"}))
    for batch in table.to_batches():
        batch.filter(condition)


def _confine(memory: int, seconds: float) -> None:
    """Take from this process what the statement does not need: files above all."""
    size = next(
        int(line.split()[1]) << 10
        for line in open("/proc/self/status", encoding="ascii")  # noqa: SIM115 - ends with us
        if line.startswith("VmSize:")
    )
    cpu = int(seconds) + _PATIENCE
    for what, limit in (
        (resource.RLIMIT_AS, size + 2 * memory + (256 << 20)),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _schema(arrow: Any, data: str) -> Any:
    from base64 import b64decode

    return arrow.ipc.read_schema(arrow.py_buffer(b64decode(data)))


def _checked(connection: Any, duckdb: Any, sql: str) -> tuple[str, bool]:
    """Return the SELECT of a text, and whether it is only to be explained.

    Raises:
        Refused: If it is something else.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        msg = f"there are {len(statements)} statements, and one SELECT is asked for"
        raise Refused(msg)
    text, explains = sql, False
    if statements[0].type == duckdb.StatementType.EXPLAIN:
        first = next(at for at, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.keyword)
        text, explains = sql[first + len("explain") :], True
    found = json.loads(
        connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0][
            0
        ]  # parses it only
    )
    if found["error"]:
        at = found.get("position")
        msg = found["error_message"]
        if found.get("error_type") == "not implemented":
            msg = "it is not a SELECT, and nothing else is run here"
        raise Refused(msg, None if at is None else int(at) + len(sql) - len(text))
    _look(found["statements"])
    return text, explains


def _look(tree: Any) -> None:
    """Refuse what writes, and table functions that read something else than tables."""
    rest: list[Any] = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, list):
            rest += node
        elif isinstance(node, dict):
            node = cast("dict[str, Any]", node)
            kind: Any = node.get("type", "")
            if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _NODES:
                msg = "a part of it is not a SELECT, and nothing else is run here"
                raise Refused(msg, node.get("query_location"))
            if kind == "TABLE_FUNCTION":
                _look_at_function(node)
            rest += node.values()


def _look_at_function(node: dict[str, Any]) -> None:
    function: Any = node.get("function") or {}
    name = str(function.get("function_name", "?")).lower()
    if name not in _FUNCTIONS:
        msg = f"the table function {name} is not allowed here"
        raise Refused(msg, node.get("query_location"))


def _answer(link: Link, arrow: Any, found: Any) -> None:
    reader = found.to_arrow_reader(_BATCH)
    parts = io.BytesIO()
    with arrow.ipc.new_stream(parts, reader.schema) as stream:
        for batch in reader:
            stream.write_batch(batch)
            link.send(wire.RESULT, parts.getvalue())
            parts.seek(0)
            parts.truncate()
    link.send(wire.RESULT, parts.getvalue())


def _bind(connection: Any, duckdb: Any, statement: str, before: int) -> str:
    """Return DuckDB's plan; it says well, and before a row is read, what is wrong.

    Args:
        connection: The connection.
        duckdb: The library.
        statement: The SELECT.
        before: How much of the text is before it.
    """
    try:
        return str(connection.execute(_EXPLAIN + statement).fetchall()[0][1])
    except duckdb.Error as error:
        kind, text, at = _reason(error)
        if at is not None:
            at += before - len(_EXPLAIN)
        raise Refused(text, at, kind) from None


def _plan(connection: Any, statement: str, scans: Scans, plan: str) -> dict[str, Any]:
    """Return the plan, and what it asks of each table: none has rows meanwhile."""
    scans.told.clear()
    connection.sql(statement).to_arrow_reader(_BATCH).read_all()
    return {"plan": plan, "scans": scans.told}


def _reason(error: Any) -> tuple[str, str, int | None]:
    """Return what DuckDB says: what kind of error it is, its text, and its place."""
    text = str(error)
    try:
        found = json.loads(text[text.index("{") :])
    except ValueError:
        kind, _, said = text.partition(": ")
        return kind.removesuffix(" Error"), said or text, None
    at = found.get("position")
    kind, said = found.get("exception_type", ""), found.get("exception_message", text)
    return kind, said, None if at is None else int(at)


def _told(kind: str, text: str, position: int | None = None) -> bytes:
    return json.dumps({"kind": kind, "text": text[:2_000], "position": position}).encode()


if __name__ == "__main__":
    sys.exit(main())
