"""Answers what is asked of stores, as documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, Final, cast

import msgspec

from mustela.admin.data.asked import Asked, DataRefusal
from mustela.admin.data.cursors import Cursors
from mustela.admin.data.encodings import Encoding, encoding_for
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.leases import Leases, Lent
from mustela.admin.data.rows import Bounds, Document, Placed, Position, StoreForms, StoreRows
from mustela.api.custom_stores import query_functions
from mustela.errors import DataError, EnvironmentFault, MustelaError
from mustela.queries.errors import EpochNotReachedError
from mustela.queries.functions import MIN_EPOCH, QueryFunction, function_of
from mustela.queries.queries import LIFETIME_MAX, Queries
from mustela.queries.snapshot import Snapshot
from mustela.serdes.documents import DocumentForm
from mustela.serdes.plain_values import UnshownValueError, plain_value

__all__ = [
    "EPOCH_HEADER",
    "OF_QUESTION",
    "DataService",
    "Limits",
    "Reply",
    "bounds_of",
    "given_to",
]

_RESULTS_MAX: Final = 10_000
"""How many results of an iterator a query method of a store may give over HTTP."""
EPOCH_HEADER: Final = "mustela-epoch"
_LOOK_EVERY: Final = 64
"""After so many rows the clock is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one request may take.

    Attributes:
        rows: The most rows of a page.
        page: The rows of a page, unless asked otherwise.
        size: The most bytes of a page's rows; a page has at least one row.
        keys: The most keys that are asked for at once.
        seconds: How long a page may be made; it then ends early, with a cursor.
    """

    rows: int = 10_000
    page: int = 100
    size: int = 4 << 20
    keys: int = 1_000
    seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer.

    Attributes:
        status: The HTTP status.
        body: The body.
        kind: Its media type.
        headers: Further headers.
    """

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Page:
    """The rows of a page while it is made."""

    rows: list[msgspec.Raw] = field(default_factory=list[msgspec.Raw])
    count: int = 0
    size: int = 0
    last: Position | None = None
    is_whole: bool = True


class DataService:
    """Answers requests for the rows of stores.

    Args:
        queries: What reads the stores.
        cursors: Writes and reads cursors.
        hidden: What must not be shown.
        limits: How much one request may take.
        now: Monotonic time, in seconds.
        sizes: Rows and bytes of the stores, as far as they are known.

    Attributes:
        frame: Returns what a frame shows, by its name; None if there are no frames.
    """

    def __init__(
        self,
        queries: Queries,
        *,
        cursors: Cursors,
        hidden: Hidden,
        limits: Limits,
        now: Callable[[], float],
        sizes: Callable[[], Mapping[str, tuple[int, int]]] = dict,
    ) -> None:
        self.frame: Callable[[str], Snapshot] | None = None
        self.leases = Leases(queries, now)
        self._queries = queries
        self._cursors = cursors
        self.hidden = hidden
        self._limits = limits
        self._now = now
        self._sizes = sizes
        self._forms: dict[str, StoreForms] = {}
        self.methods = StoreMethods(self)

    @property
    def forms(self) -> Mapping[str, StoreForms]:
        """What keys and values of the stores are in JSON, by the stores' names.

        Raises:
            StateUnavailableError: If there is no state to read now.
        """
        if not self._forms:
            self._forms = {
                info.name: StoreForms(info)
                for info in self._queries.stores()
                if not self.hidden.is_hidden(info.name)
            }
        return self._forms

    def answer(self, asked: Asked) -> Reply:
        """Return the answer to a request; whatever is wrong with it is an answer too."""
        try:
            encoding = encoding_for(asked.headers.get("accept", ""))
            return self._answer(asked, encoding)
        except DataRefusal as refusal:
            return refused(refusal)
        except MustelaError as error:
            return refused(refusal_of(error))

    def _answer(self, asked: Asked, encoding: Encoding) -> Reply:
        path = asked.path[1:]
        if path[1:2] == ("methods",) and self.methods.has(path[0]):
            return self.methods.answer(asked, encoding, path)
        if asked.method == "POST":
            if len(path) == 2 and path[1] == "get":
                return self._many(asked, encoding, path[0])
            raise _no_method()
        if asked.method not in ("GET", "HEAD"):
            raise _no_method()
        if not path:
            return self._list(asked, encoding)
        if len(path) == 1:
            return self._range(asked, encoding, path[0])
        if len(path) == 2:
            return self._one(asked, encoding, *path)
        if len(path) == 3 and path[2] in _OF_KEY:
            return self._of_key(asked, encoding, path)
        raise DataRefusal(404, "QUERY_PATH", "there is no such address", "see /openapi.json")

    # -- what is asked ----------------------------------------------------------------------------

    def _list(self, asked: Asked, encoding: Encoding) -> Reply:
        asked.only("min_epoch")
        sizes = self._sizes()
        with self._lent(asked, None) as lent:
            epoch, watermark = lent.shown.epoch, lent.shown.watermark
        stores = [_described(forms, sizes.get(name)) for name, forms in self.forms.items()]
        return _reply(encoding, epoch, {"epoch": epoch, "watermark": watermark, "stores": stores})

    def _one(self, asked: Asked, encoding: Encoding, store: str, text: str) -> Reply:
        asked.only("min_epoch", "as_of")
        forms = self.store(store)
        key = forms.key.from_text(text)
        as_of = asked.whole("as_of")
        with self._lent(asked, None) as lent:
            found = self._rows(lent, forms).get(key, as_of)
            epoch = lent.shown.epoch
        if found is None:
            what = "the store has no row of this key"
            return _reply(encoding, epoch, {"code": "QUERY_NO_ROW", "error": what}, 404)
        return _reply(encoding, epoch, {"epoch": epoch, **found})

    def _many(self, asked: Asked, encoding: Encoding, store: str) -> Reply:
        asked.only("min_epoch")
        forms = self.store(store)
        document = asked.document()
        given: list[Any] | None = None
        if isinstance(document, dict):
            given = cast("dict[str, Any]", document).get("keys")
        if not isinstance(given, list):
            what = 'the body is not {"keys": [...]}'
            raise DataRefusal(400, "QUERY_BODY", what, "put the keys into a list")
        if len(given) > self._limits.keys:
            what = f"{len(given)} keys are asked for"
            raise DataRefusal(400, "QUERY_BODY", what, f"ask for {self._limits.keys} at most")
        keys = [forms.key.from_document(each) for each in given]
        with self._lent(asked, None) as lent:
            found = self._rows(lent, forms).get_many(keys)
            epoch = lent.shown.epoch
        return _reply(encoding, epoch, {"epoch": epoch, "rows": found})

    def _of_key(self, asked: Asked, encoding: Encoding, path: tuple[str, ...]) -> Reply:
        asked.only("min_epoch", "time_from", "time_to", "reverse", "limit", "cursor", "frame")
        store, text, what = path
        forms = self.store(store)
        key = forms.key.from_text(text)
        bounds = Bounds(
            time_from=asked.whole("time_from"),
            time_to=asked.whole("time_to"),
            reverse=asked.flag("reverse"),
        )
        question = (*path, *((n, asked.parameters.get(n)) for n in OF_QUESTION))

        def read(rows: StoreRows, after: Position | None) -> Iterator[Placed]:
            return rows.of_key(what, key, bounds, after)

        document, page = self._paged(asked, encoding, question, forms, read)
        document |= {what: page.rows, "more": not page.is_whole}
        return _reply(encoding, document["epoch"], document)

    def _range(self, asked: Asked, encoding: Encoding, store: str) -> Reply:
        asked.only(*_OF_RANGE)
        forms = self.store(store)
        bounds, counts = bounds_of(asked, forms.key), asked.flag("count")
        question = (store, counts, *((n, asked.parameters.get(n)) for n in OF_QUESTION))

        def read(rows: StoreRows, after: Position | None) -> Iterator[Placed]:
            return rows.scan(bounds, after)

        document, page = self._paged(asked, encoding, question, forms, read, counts=counts)
        if counts:
            document |= {"count": page.count, "complete": page.is_whole}
        else:
            document["rows"] = page.rows
        return _reply(encoding, document["epoch"], document)

    def _paged(
        self,
        asked: Asked,
        encoding: Encoding,
        question: tuple[object, ...],
        forms: StoreForms,
        read: Callable[[StoreRows, Position | None], Iterator[Placed]],
        *,
        counts: bool = False,
    ) -> tuple[Document, _Page]:
        """Return a page, and what its answer says beside its rows."""
        limit, text = self._limit(asked), asked.parameters.get("cursor")
        cursor = None if text is None else self._cursors.read(text, question)
        after = None if cursor is None else msgspec.msgpack.decode(cursor.after, type=Position)
        with self._lent(asked, None if cursor is None else cursor.epoch) as lent:
            epoch = lent.shown.epoch
            with self._rows(lent, forms) as rows:
                page = self._page(read(rows, after), encoding, None if counts else limit)
            lent.keep = not page.is_whole
        document: Document = {"epoch": epoch}
        if cursor is not None and cursor.epoch != epoch:
            document["continued_from_epoch"] = cursor.epoch
        if not page.is_whole:
            assert page.last is not None, "a page that is cut has a last row"
            data = msgspec.msgpack.encode(page.last)
            document["cursor"] = self._cursors.write(epoch, question, data)
        return document, page

    # -- parts ------------------------------------------------------------------------------------

    def _page(
        self,
        scan: Iterator[Placed],
        encoding: Encoding,
        limit: int | None,
    ) -> _Page:
        """Return the rows of a page; without a limit they are only counted."""
        page, until = _Page(), self._now() + self._limits.seconds
        for place, show in scan:
            if (
                limit is not None
                and page.count
                and (page.count >= limit or page.size >= self._limits.size)
            ):
                page.is_whole = False
                return page
            if page.count and page.count % _LOOK_EVERY == 0 and self._now() > until:
                page.is_whole = False
                return page
            if limit is not None:
                data = encoding.encode(show())
                page.rows.append(msgspec.Raw(data))
                page.size += len(data)
            page.count += 1
            page.last = place
        return page

    def _lent(self, asked: Asked, epoch: int | None) -> Any:
        name = asked.parameters.get("frame")
        if name is not None and self.frame is not None:
            return nullcontext(Lent(self.frame(name)))
        least = asked.whole("min_epoch")
        if epoch is not None and least is not None and epoch < least:
            epoch = None
        return self.leases.shown(epoch, min_epoch=least, timeout_s=self._limits.seconds)

    def newest(self, min_epoch: int | None) -> AbstractContextManager[Lent]:
        """Give the newest snapshot.

        Args:
            min_epoch: The epoch that must be committed; it is waited for.
        """
        return self.leases.shown(None, min_epoch=min_epoch, timeout_s=self._limits.seconds)

    def _rows(self, lent: Lent, forms: StoreForms) -> StoreRows:
        return StoreRows(forms.of(lent.shown), forms, self.hidden)

    def held(self, min_epoch: int | None) -> Snapshot:
        """Return a snapshot for a stream, which ends it.

        Raises:
            EpochNotReachedError: If the epoch is not committed in time.
        """
        timeout = timedelta(seconds=self._limits.seconds)
        return self._queries.snapshot(lifetime=LIFETIME_MAX, min_epoch=min_epoch, timeout=timeout)

    def store(self, store: str) -> StoreForms:
        """Return what keys and values of a store are in JSON.

        Raises:
            DataRefusal: If there is none of that name, or it is not shown.
        """
        found = self.forms.get(store)
        if found is None:
            what = "there is no such store, or it is not shown"
            raise DataRefusal(404, "QUERY_NO_STORE", what, "see /stores")
        return found

    def refuse_copy(self, store: str) -> None:
        """Refuse to follow a store that has no changelog because it is a copy of a topic.

        Raises:
            DataRefusal: If it is the store of a global table.
        """
        place = self._queries.source.newest().stores.get(store)
        if place is not None and place.stage < 0:
            what = "the store is a copy of a topic, whose changes are in the topic itself"
            raise DataRefusal(400, "QUERY_UNLOGGED", what, "read the topic of the global table")

    def _limit(self, asked: Asked) -> int:
        limit = asked.whole("limit", self._limits.page)
        assert limit is not None
        if not 1 <= limit <= self._limits.rows:
            what = f"limit is not between 1 and {self._limits.rows}"
            raise DataRefusal(400, "QUERY_PARAMETER", what, "ask for pages, with the cursor")
        return limit


_OF_KEY: Final = ("windows", "sessions", "versions")
OF_QUESTION: Final = ("from", "to", "prefix", "time_from", "time_to", "reverse", "versions")
_OF_RANGE: Final = (*OF_QUESTION, "limit", "cursor", "min_epoch", "count", "frame")


class StoreMethods:
    """Answers what is asked of the query methods of custom stores.

    Args:
        service: Knows the stores.
    """

    def __init__(self, service: DataService) -> None:
        self._service = service
        self._known: dict[str, dict[str, QueryFunction]] = {}

    def has(self, store: str) -> bool:
        """Return whether a store has such methods."""
        return store in self._service.forms and bool(self.of(store))

    def of(self, store: str) -> dict[str, QueryFunction]:
        """Return the methods of a store by name."""
        if store not in self._known:
            functions = query_functions(self._service.forms[store].spec)
            self._known[store] = {name: function_of(name, call) for name, call in functions.items()}
        return self._known[store]

    def answer(self, asked: Asked, encoding: Encoding, path: tuple[str, ...]) -> Reply:
        """Return the list of a store's methods, or what one returns.

        Raises:
            DataRefusal: If there is none of that name, or its result cannot be shown.
            FunctionParameterError: If its parameters are wrong.
        """
        store, known = path[0], self.of(path[0])
        if len(path) == 2 and asked.method != "POST":
            asked.only()
            listed = [listed_function(each) for _, each in sorted(known.items())]
            return Reply(body=encoding.encode({"methods": listed}), kind=encoding.kind)
        function = known.get(path[2]) if len(path) == 3 else None
        if function is None:
            what = f"store {store} has no such query method"
            raise DataRefusal(404, "QUERY_PATH", what, f"see /stores/{store}/methods")
        given, min_epoch = given_to(asked)
        arguments = function.arguments(given, strict=asked.method == "POST")
        if any(each.name == "key" and each.type is Any for each in function.parameters):
            form = self._service.forms[store].key
            read = form.from_document if asked.method == "POST" else form.from_text
            arguments["key"] = read(arguments["key"])
        with self._service.newest(min_epoch) as lent:
            epoch = lent.shown.epoch
            found = getattr(lent.shown.store(store), function.name)(**arguments)
            shown = _shown_result(found, function.name)
        return _reply(encoding, epoch, {"epoch": epoch, "result": shown})


def _shown_result(found: Any, method: str) -> Any:
    if isinstance(found, Iterator):
        rows = list(islice(cast("Iterator[Any]", found), _RESULTS_MAX + 1))
        if len(rows) > _RESULTS_MAX:
            what = f"{method} gives more than {_RESULTS_MAX} results"
            raise DataRefusal(400, "QUERY_RESULT", what, "ask for fewer")
        found = rows
    try:
        return plain_value(found)
    except UnshownValueError as error:
        what = f"the result of {method} cannot be shown: {error}"
        raise DataRefusal(500, "QUERY_RESULT", what, "return what JSON can hold") from None


def given_to(asked: Asked) -> tuple[Mapping[str, Any], int | None]:
    """Return the parameters of a query, and the epoch that must be committed first.

    Raises:
        DataRefusal: If the body is no object, or the epoch no whole number.
    """
    min_epoch = asked.whole(MIN_EPOCH)
    if asked.method != "POST":
        others = {name: text for name, text in asked.parameters.items() if name != MIN_EPOCH}
        return others, min_epoch
    asked.only(MIN_EPOCH)
    found: Any = asked.document()
    if not isinstance(found, dict):
        what = "the body is not an object with the parameters"
        raise DataRefusal(400, "QUERY_BODY", what, 'send {"name": value}')
    return cast("dict[str, Any]", found), min_epoch


def listed_function(function: QueryFunction) -> Document:
    """Return name, parameters and documentation of a query."""
    return {
        "query": function.name,
        "doc": function.doc,
        "parameters": [
            {
                "name": each.name,
                "required": each.required,
                "schema": msgspec.json.schema(each.type),
            }
            for each in function.parameters
        ],
    }


def refused(refusal: DataRefusal) -> Reply:
    """Return the answer that refuses a request."""
    document = {"error": refusal.what, "code": refusal.code, **refusal.more}
    if refusal.fix:
        document["fix"] = refusal.fix
    return Reply(status=refusal.status, body=msgspec.json.encode(document))


def refusal_of(error: MustelaError) -> DataRefusal:
    """Return what an error of the library is to a client."""
    if isinstance(error, EnvironmentFault):
        status = 503
    elif isinstance(error, DataError):
        status = 422
    else:
        status = 400
    fix = error.fix or ""
    if isinstance(error, EpochNotReachedError):  # whose fix speaks of a call in Python
        fix = "ask again, or look at the application's lag"
    return DataRefusal(status, error.code, error.what, fix)


def _reply(encoding: Encoding, epoch: int, document: Document, status: int = 200) -> Reply:
    body = encoding.encode(document)
    return Reply(status=status, body=body, kind=encoding.kind, headers={EPOCH_HEADER: str(epoch)})


def _no_method() -> DataRefusal:
    return DataRefusal(405, "QUERY_METHOD", "this method is not known here", "use GET")


def bounds_of(asked: Asked, form: DocumentForm) -> Bounds:
    """Return which rows of a range are asked for.

    Raises:
        DataRefusal: If the parameters are wrong.
    """
    given = {name: asked.parameters.get(name) for name in ("from", "to", "prefix")}
    if given["prefix"] is not None and (given["from"], given["to"]) != (None, None):
        what = "prefix is given together with from or to"
        raise DataRefusal(400, "QUERY_PARAMETER", what, "give one or the other")
    low, high, prefix = (None if text is None else form.from_text(text) for text in given.values())
    return Bounds(
        low=low,
        high=high,
        prefix=prefix,
        time_from=asked.whole("time_from"),
        time_to=asked.whole("time_to"),
        reverse=asked.flag("reverse"),
        versions=asked.flag("versions"),
    )


def _described(forms: StoreForms, size: tuple[int, int] | None) -> Document:
    spec = forms.spec
    return {
        "store": spec.name,
        "kind": spec.kind,
        "key": forms.key_serde.name,
        "value": spec.read_serde.name,
        "logged": spec.logged,
        "rows": None if size is None else size[0],
        "bytes": None if size is None else size[1],
    }
