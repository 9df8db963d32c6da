"""Rows of stores for data frames: many readers, in other processes, see one epoch.

A frame is a snapshot with a name and a deadline. Who plans a data frame asks for one; who reads a
part of it names the frame, a store and key groups, and is given Arrow batches, a page at a time.
"""

from __future__ import annotations

import secrets
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, cast

import msgspec

from mustela.admin.data.asked import Asked, DataRefusal
from mustela.admin.data.encodings import ARROW
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.service import EPOCH_HEADER, Limits, Reply, refusal_of, refused
from mustela.errors import MustelaError
from mustela.queries.errors import QueryError, SnapshotExpiredError
from mustela.queries.queries import LIFETIME_MAX, Queries
from mustela.queries.snapshot import Snapshot
from mustela.sql.columns import TABLE_KINDS
from mustela.sql.libraries import arrow
from mustela.sql.tables import StoreTable

__all__ = ["FRAMES_MAX", "FrameService"]

FRAMES_MAX: Final = 32
"""So many frames live at the same time: each of them keeps disk pages from being used again."""
READERS_MAX: Final = 256
"""So many parts of a frame are read at the same time; of more, the one asked longest ago ends."""
IDLE_S: Final = 10.0
"""A frame that nobody holds, and that nobody has asked for so long, makes room for another."""
MORE_HEADER: Final = "mustela-more"
_OPERATORS: Final = ("==", ">=", ">", "<=", "<", "in")


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    """Which frame is asked for.

    Attributes:
        epoch: The epoch that it must show; None for the newest.
        seconds: How long it lives.
        held: Whether it does not make room for others.
    """

    epoch: int | None = None
    seconds: float = 120.0
    held: bool = False


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """Which rows are asked for.

    Attributes:
        reader: Distinguishes those who read the same part.
        page: The number of the page, from 0 on.
        groups: The key groups; None for all.
        columns: The columns; None for all.
        bounds: What the wanted rows have in common: column, comparison, value.
    """

    reader: str
    page: int = 0
    groups: list[int] | None = None
    columns: list[str] | None = None
    bounds: list[tuple[str, str, Any]] = []


@dataclass(slots=True)
class _Reader:
    """A part that is being read."""

    batches: Iterator[Any]
    schema: Any
    page: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class _Frame:
    name: str
    shown: Snapshot
    used: float
    held: bool
    readers: dict[tuple[str, str], _Reader] = field(default_factory=dict[tuple[str, str], _Reader])


class FrameService:
    """Answers ``/frames``.

    Args:
        queries: What reads the stores.
        hidden: What must not be shown.
        limits: How much one page may take.
        now: Monotonic time, in seconds.
    """

    def __init__(
        self, queries: Queries, *, hidden: Hidden, limits: Limits, now: Callable[[], float]
    ) -> None:
        self._queries = queries
        self._hidden = hidden
        self._limits = limits
        self._now = now
        self._lock = threading.Lock()
        self._frames: dict[str, _Frame] = {}

    def answer(self, asked: Asked) -> Reply:
        """Return the answer to a request; whatever is wrong with it is an answer too."""
        try:
            asked.only()
            return self._answer(asked)
        except DataRefusal as refusal:
            return refused(refusal)
        except SnapshotExpiredError:
            return refused(_gone())
        except MustelaError as error:
            return refused(refusal_of(error))

    def shown(self, name: str) -> Snapshot:
        """Return what a frame shows, for answers of other addresses.

        Raises:
            DataRefusal: If it has ended.
        """
        return self._frame(name).shown

    def _answer(self, asked: Asked) -> Reply:
        path = asked.path[1:]
        if asked.method != "POST":
            raise DataRefusal(405, "QUERY_METHOD", "this method is not known here", "use POST")
        if not path:
            return self._open(_body(asked, _Wish))
        frame = self._frame(path[0])
        if len(path) == 1:
            self._end(frame)
            return _reply(frame, {"ended": True})
        if len(path) == 2:
            return _reply(frame, self._described(frame, path[1]))
        if len(path) == 3 and path[2] == "rows":
            return self._rows(frame, path[1], _body(asked, _Part))
        raise DataRefusal(404, "QUERY_PATH", "there is no such address")

    # -- frames -----------------------------------------------------------------------------------

    def _open(self, wish: _Wish) -> Reply:
        most = LIFETIME_MAX.total_seconds()
        if not 0 < wish.seconds <= most:
            what = f"a frame cannot live for {wish.seconds:g} seconds"
            raise DataRefusal(400, "QUERY_PARAMETER", what, f"let it live {most:g} at most")
        with self._lock:
            self._sweep()
            known = [each for each in self._frames.values() if each.shown.epoch == wish.epoch]
            if known and not wish.held:
                found = max(known, key=lambda each: (each.held, each.shown.deadline))
                found.used = self._now()
                return _reply(found, {"frame": found.name})
            self._make_room()
        shown = self._queries.snapshot(lifetime=timedelta(seconds=wish.seconds))
        if wish.epoch is not None and shown.epoch != wish.epoch:
            shown.close()
            what = f"epoch {wish.epoch} is not there: the newest is {shown.epoch}"
            fix = "hold an epoch for as long as several reads need it"
            raise DataRefusal(410, "QUERY_EPOCH_GONE", what, fix, {"epoch": shown.epoch})
        made = _Frame(secrets.token_urlsafe(16), shown, self._now(), wish.held)
        with self._lock:
            self._frames[made.name] = made
        return _reply(made, {"frame": made.name})

    def _sweep(self) -> None:
        for frame in list(self._frames.values()):
            if frame.shown.closed:
                del self._frames[frame.name]

    def _make_room(self) -> None:
        if len(self._frames) < FRAMES_MAX:
            return
        free = [each for each in self._frames.values() if not each.held]
        oldest = min(free, key=lambda each: each.used, default=None)
        if oldest is None or self._now() - oldest.used < IDLE_S:
            what = f"{FRAMES_MAX} data frames are being read"
            raise DataRefusal(503, "QUERY_BUSY", what, "read again when one of them is done")
        del self._frames[oldest.name]
        oldest.shown.close()

    def _frame(self, name: str) -> _Frame:
        with self._lock:
            found = self._frames.get(name)
            if found is None or found.shown.closed:
                raise _gone()
            found.used = self._now()
            return found

    def _end(self, frame: _Frame) -> None:
        with self._lock:
            self._frames.pop(frame.name, None)
        frame.shown.close()

    # -- rows -------------------------------------------------------------------------------------

    def _table(self, frame: _Frame, store: str) -> StoreTable:
        info = next((each for each in frame.shown.stores() if each.name == store), None)
        if info is None or self._hidden.is_hidden(store):
            what = "there is no such store, or it is not shown"
            raise DataRefusal(404, "QUERY_NO_STORE", what, "see /stores")
        if info.spec.kind not in TABLE_KINDS:
            what = f"a {info.spec.kind.replace('_', '-')} store cannot be read in order"
            raise DataRefusal(400, "QUERY_KIND", what, "read it by its own methods")
        return StoreTable(store, info, self._hidden)

    def _described(self, frame: _Frame, store: str) -> dict[str, Any]:
        table = self._table(frame, store)
        place = frame.shown.edition.stores[store]
        schema: bytes = table.schema().serialize().to_pybytes()
        return {
            "schema": b64encode(schema).decode(),
            "usable": sorted(table.usable),
            "keys": [each.name for each in table.columns if each.part.value == "key"],
            # A key may be in several key groups of such a store, and only one of them is shown.
            "groups": 1 if place.wanders else place.groups,
        }

    def _rows(self, frame: _Frame, store: str, part: _Part) -> Reply:
        reader = self._reader(frame, store, part)
        if not reader.lock.acquire(blocking=False):
            raise _out_of_turn()
        try:
            if reader.page != part.page:
                raise _out_of_turn()
            body, more = self._page(reader)
            reader.page += 1
        except QueryError:
            if frame.shown.closed:
                raise _gone() from None
            raise
        finally:
            reader.lock.release()
        if not more:
            with self._lock:
                frame.readers.pop((store, part.reader), None)
        headers = {EPOCH_HEADER: str(frame.shown.epoch), MORE_HEADER: "true" if more else "false"}
        return Reply(body=body, kind=ARROW, headers=headers)

    def _reader(self, frame: _Frame, store: str, part: _Part) -> _Reader:
        mark = (store, part.reader)
        with self._lock:
            found = frame.readers.pop(mark, None)
            if found is not None:
                frame.readers[mark] = found  # those asked last come last
                return found
        if part.page:
            raise _out_of_turn()
        table = self._table(frame, store)
        columns = [each.name for each in table.columns] if part.columns is None else part.columns
        try:
            schema = table.schema(columns)
        except KeyError:
            what = "a column is not one of the store's"
            known = ", ".join(each.name for each in table.columns)
            raise DataRefusal(400, "QUERY_COLUMN", what, f"choose from {known}") from None
        bounds = [_checked(bound, table) for bound in part.bounds]
        only = None if part.groups is None else frozenset(part.groups)
        made = _Reader(table.batches(frame.shown, columns, bounds, only), schema)
        with self._lock:
            while len(frame.readers) >= READERS_MAX:
                del frame.readers[next(iter(frame.readers))]
            frame.readers[mark] = made
        return made

    def _page(self, reader: _Reader) -> tuple[bytes, bool]:
        pa = arrow()
        sink, size = pa.BufferOutputStream(), 0
        until = self._now() + self._limits.seconds
        more = False
        with pa.ipc.new_stream(sink, reader.schema) as stream:
            for batch in reader.batches:
                stream.write_batch(batch)
                size += batch.nbytes
                if size >= self._limits.size or self._now() > until:
                    more = True
                    break
        return sink.getvalue().to_pybytes(), more


def _checked(bound: tuple[str, str, Any], table: StoreTable) -> Any:
    """Return a bound that the store can use.

    Raises:
        DataRefusal: If it is none.
    """
    name, operator, value = bound
    if name not in table.usable or operator not in _OPERATORS:
        what = "a bound is not one that the store can use"
        raise DataRefusal(400, "QUERY_BOUND", what, f"use {', '.join(sorted(table.usable))}")
    wanted = str if str(table.schema([name]).field(0).type) == "string" else int
    values = cast("list[Any]", value) if operator == "in" and isinstance(value, list) else [value]
    if not all(type(each) is wanted for each in values):
        what = "a bound is not of the type of its column"
        raise DataRefusal(400, "QUERY_BOUND", what, "give text for text, numbers for numbers")
    return name, operator, values if operator == "in" else value


def _body(asked: Asked, wanted: type[Any]) -> Any:
    document: Any = asked.document() if asked.body else {}
    try:
        return msgspec.convert(document, wanted)
    except msgspec.ValidationError as error:
        raise DataRefusal(400, "QUERY_BODY", f"the body is not understood: {error}") from None


def _gone() -> DataRefusal:
    what = "the data frame has ended: its epoch was kept for a limited time"
    fix = "make the data frame anew, with spark.read, or give it longer with the option lifetime"
    return DataRefusal(410, "QUERY_FRAME_GONE", what, fix)


def _out_of_turn() -> DataRefusal:
    what = "this page is not the next one of its reader"
    return DataRefusal(409, "QUERY_PAGE", what, "begin with page 0 and another name for the reader")


def _reply(frame: _Frame, document: dict[str, Any]) -> Reply:
    body = msgspec.json.encode({"epoch": frame.shown.epoch, **document})
    return Reply(body=body, headers={EPOCH_HEADER: str(frame.shown.epoch)})
