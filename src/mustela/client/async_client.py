"""Reads the stores of an application over HTTP, without blocking: the twin of client.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from mustela.client.asking import (
    SILENCE_S,
    Ask,
    Events,
    Following,
    Forms,
    RemoteChange,
    RemoteResult,
    RemoteRow,
    decoded,
    moment_ms,
    query as asked_query,
    statement as asked_statement,
    told_result,
    unavailable,
)
from mustela.client.client import PAGE, TIMEOUT
from mustela.client.connecting import connection_options, http_library
from mustela.client.errors import RemoteRefusedError, RemoteUnavailableError
from mustela.serdes.base import Serde

__all__ = ["AsyncClient", "AsyncRemoteStore"]

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class AsyncClient:
    """Reads the stores of a running application, or of a replica, over its admin server.

    Args:
        url: The address of the admin server, such as ``http://127.0.0.1:8080``.
        token: A token with the scope ``query``.
        certificate: File with the certificate to trust, if it is not one of the system's.
        timeout: How long to wait for an answer.
        transport: A transport of httpx, for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        certificate: str | Path | None = None,
        timeout: timedelta = TIMEOUT,
        transport: Any = None,
    ) -> None:
        self._library = http_library()
        options = connection_options(url, token=token, certificate=certificate, timeout=timeout)
        self._http: Any = self._library.AsyncClient(**options, transport=transport)
        seconds = timeout.total_seconds()
        self._stream_timeout = self._library.Timeout(seconds, read=max(seconds, SILENCE_S))

    async def stores(self) -> list[dict[str, Any]]:
        """Return the stores: names, kinds, serdes, rows and bytes."""
        return (await self.ask(Ask(path="/stores")))["stores"]

    def store(
        self,
        name: str,
        *,
        key: type[K] | Serde[K] | str | None = None,
        value: type[V] | Serde[V] | str | None = None,
    ) -> AsyncRemoteStore[K, V]:
        """Return a store.

        Args:
            name: The store's name.
            key: The type of its keys; without it keys are what JSON has.
            value: The type of its values, likewise.
        """
        return AsyncRemoteStore(self, Forms(name, key, value))

    async def query(self, name: str, /, *, min_epoch: int | None = None, **parameters: Any) -> Any:
        """Return the result of a query of the application's own.

        Args:
            name: Its name.
            min_epoch: First wait until this epoch is committed.
            **parameters: Its parameters.
        """
        return (await self.ask(asked_query(name, parameters, min_epoch)))["result"]

    async def sql(self, statement: str, *, min_epoch: int | None = None) -> RemoteResult:
        """Return what one SELECT gives: each store is a table, as of one committed epoch.

        Args:
            statement: One SELECT in DuckDB's SQL; with ``EXPLAIN`` before it, its plan.
            min_epoch: First wait until this epoch is committed.

        Raises:
            RemoteRefusedError: If it cannot be read, or takes more than it may; ``fields`` has
                ``line`` and ``column`` of what is wrong, if they are known.
            RemoteUnavailableError: If there is no answer now.
        """
        return told_result(await self.ask(asked_statement(statement, min_epoch)))

    async def ask(self, asked: Ask) -> dict[str, Any]:
        """Return the document of an answer; for other parts of the client.

        Raises:
            RemoteRefusedError: If the question was refused.
            RemoteUnavailableError: If there is no answer now.
        """
        try:
            answer = await self._http.request(asked.method, asked.path, **asked.sent())
        except self._library.HTTPError as error:
            raise unavailable(str(error) or type(error).__name__) from error
        return decoded(answer.status_code, answer.content)

    async def events(self, asked: Ask, events: Events) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events of a stream; for other parts of the client."""
        try:
            async with self._http.stream(
                asked.method, asked.path, timeout=self._stream_timeout, **asked.sent()
            ) as answer:
                if answer.status_code != 200:
                    decoded(answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    event = events.take(line)
                    if event is not None:
                        yield event
        except self._library.HTTPError as error:
            raise unavailable(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncRemoteStore(Generic[K, V]):
    """A store of an application elsewhere; get one from `Client.store`."""

    def __init__(self, client: AsyncClient, forms: Forms[K, V]) -> None:
        self._client = client
        self._forms = forms

    async def get(
        self,
        key: K,
        default: D | None = None,
        *,
        as_of: int | datetime | None = None,
        min_epoch: int | None = None,
    ) -> V | D | None:
        """Return the value of a key, or ``default``.

        Args:
            key: The key.
            default: What is returned if there is none.
            as_of: The time for which the value is wanted, in a versioned store.
            min_epoch: Wait until this epoch is committed.
        """
        row = await self.row(key, as_of=as_of, min_epoch=min_epoch)
        return default if row is None else row.value

    async def row(
        self, key: K, *, as_of: int | datetime | None = None, min_epoch: int | None = None
    ) -> RemoteRow[K, V] | None:
        """Return the row of a key, with its timestamp; None if there is none."""
        asked = self._forms.get(key, as_of=moment_ms(as_of), min_epoch=min_epoch)
        return self._forms.one(await self._client.ask(asked))

    async def get_many(self, keys: Iterable[K], *, min_epoch: int | None = None) -> list[V | None]:
        """Return the value of each key, or None; all as of one epoch."""
        answer = await self._client.ask(self._forms.get_many(keys, min_epoch=min_epoch))
        return [None if row is None else self._forms.row(row).value for row in answer["rows"]]

    def range(
        self,
        low: K | None = None,
        high: K | None = None,
        *,
        reverse: bool = False,
        page: int = PAGE,
    ) -> AsyncIterator[RemoteRow[K, V]]:
        """Iterate over the rows of low <= key <= high, page by page.

        The pages show one epoch as long as the server keeps it: if they are asked for soon.

        Args:
            low: The lowest key; None leaves the side open.
            high: The highest key, included.
            reverse: Whether the last row comes first.
            page: How many rows are asked for at once.
        """
        return self._pages({"from": low, "to": high, "reverse": reverse}, page)

    def prefix_scan(
        self, prefix: K, *, reverse: bool = False, page: int = PAGE
    ) -> AsyncIterator[RemoteRow[K, V]]:
        """Iterate over the rows whose keys begin with a prefix, page by page."""
        return self._pages({"prefix": prefix, "reverse": reverse}, page)

    def fetch_all(
        self,
        time_from: int | datetime | None = None,
        time_to: int | datetime | None = None,
        *,
        reverse: bool = False,
        page: int = PAGE,
    ) -> AsyncIterator[RemoteRow[K, V]]:
        """Iterate over the windows of all keys with time_from <= start <= time_to."""
        times = {"time_from": moment_ms(time_from), "time_to": moment_ms(time_to)}
        return self._pages({**times, "reverse": reverse}, page)

    async def count(self, low: K | None = None, high: K | None = None) -> int:
        """Return how many rows there are, counted by the server."""
        bounds = {"from": low, "to": high, "count": True}
        total, cursor = 0, None
        while True:
            answer = await self._client.ask(self._forms.page(bounds, cursor=cursor))
            total, cursor = total + answer["count"], answer.get("cursor")
            if cursor is None:
                return total

    async def windows(
        self,
        key: K,
        time_from: int | datetime | None = None,
        time_to: int | datetime | None = None,
        *,
        limit: int = PAGE,
    ) -> list[RemoteRow[K, V]]:
        """Return the windows of a key, by start."""
        return await self._of_key("windows", key, time_from, time_to, limit)

    async def sessions(
        self,
        key: K,
        time_from: int | datetime | None = None,
        time_to: int | datetime | None = None,
        *,
        limit: int = PAGE,
    ) -> list[RemoteRow[K, V]]:
        """Return the sessions of a key, by end."""
        return await self._of_key("sessions", key, time_from, time_to, limit)

    async def versions(
        self,
        key: K,
        time_from: int | datetime | None = None,
        time_to: int | datetime | None = None,
        *,
        limit: int = PAGE,
    ) -> list[RemoteRow[K, V]]:
        """Return the versions of a key, by time."""
        return await self._of_key("versions", key, time_from, time_to, limit)

    async def call(self, method: str, /, *, min_epoch: int | None = None, **parameters: Any) -> Any:
        """Return what a query method of a custom store gives, as JSON has it.

        Args:
            method: Its name.
            min_epoch: First wait until this epoch is committed.
            **parameters: Its parameters; ``key`` is of the type of the store's keys.

        Raises:
            RemoteRefusedError: If the store has no such method, or the parameters are wrong.
            RemoteUnavailableError: If there is no answer now.
        """
        return (await self._client.ask(self._forms.call(method, parameters, min_epoch)))["result"]

    async def changes(
        self, *, prefix: K | None = None, since: int | None = None
    ) -> AsyncIterator[RemoteChange[K, V]]:
        """Iterate over a snapshot of the store, then over what each epoch changes, without end.

        If the connection ends it is made again, where it was. If the server no longer has the
        changes in between, it begins again with a snapshot.

        Args:
            prefix: Only keys that begin with it.
            since: Only what was committed after this epoch, without a snapshot.

        Raises:
            RemoteRefusedError: If the store's changes are not known.
            RemoteUnavailableError: If the server does not answer, three times in a row.
        """
        following = Following(self._forms, prefix, since)
        while True:
            try:
                async for name, data in self._client.events(following.ask(), following.events):
                    changes = following.take(name, data)
                    if changes is None:
                        break
                    for change in changes:
                        yield change
                    following.passed()
            except (RemoteUnavailableError, RemoteRefusedError) as error:
                following.bear(error)

    def __aiter__(self) -> AsyncIterator[K]:
        return self._keys()

    async def _keys(self) -> AsyncIterator[K]:
        async for row in self.range():
            yield row.key

    async def _pages(self, bounds: dict[str, Any], page: int) -> AsyncIterator[RemoteRow[K, V]]:
        cursor = None
        while True:
            answer = await self._client.ask(self._forms.page(bounds, limit=page, cursor=cursor))
            for row in answer["rows"]:
                yield self._forms.row(row)
            cursor = answer.get("cursor")
            if cursor is None:
                return

    async def _of_key(
        self,
        what: str,
        key: K,
        time_from: int | datetime | None,
        time_to: int | datetime | None,
        limit: int,
    ) -> list[RemoteRow[K, V]]:
        times = {"time_from": moment_ms(time_from), "time_to": moment_ms(time_to)}
        answer = await self._client.ask(self._forms.of_key(what, key, limit=limit, **times))
        return [self._forms.row(row) for row in answer[what]]
