"""Rows of a store in Arrow's streaming format: one epoch, however many rows, little memory.

The next batch is made when the client has taken the one before: what waits for a client is one
batch and what its connection holds. A client that takes nothing for too long is dropped.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mustela.admin.data.asked import Asked
from mustela.admin.data.clients import Clients
from mustela.admin.data.encodings import ARROW, by_preference
from mustela.admin.data.rows import StoreRows
from mustela.admin.data.service import (
    EPOCH_HEADER,
    OF_QUESTION,
    DataService,
    bounds_of,
    refusal_of,
)
from mustela.errors import MustelaError
from mustela.sql.tables import StoreTable

__all__ = ["RowStreams", "StreamLimits", "is_arrow"]


Message = MutableMapping[str, Any]


def is_arrow(accept: str) -> bool:
    """Return whether a client wants Arrow's format most.

    Example:
        >>> is_arrow("application/vnd.apache.arrow.stream, */*;q=0.1"), is_arrow("*/*")
        (True, False)
    """
    return by_preference(accept)[:1] == [ARROW]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """How much streams of rows may take.

    Attributes:
        clients: How many are sent at a time.
        send_s: How long a client may take for a batch, in seconds.
        stream_s: How long a stream may last, in seconds.
    """

    clients: int = 4
    send_s: float = 10.0
    stream_s: float = 110.0


class RowStreams:
    """Streams rows of stores.

    Args:
        service: Knows the stores.
        now: Monotonic time, in seconds.
        limits: How much they may take.
    """

    def __init__(
        self,
        service: DataService,
        now: Callable[[], float],
        limits: StreamLimits | None = None,
    ) -> None:
        self._service = service
        self._now = now
        self._limits = limits or StreamLimits()
        self._clients = Clients(self._limits.clients, "read streams of rows")

    def wanted(self, asked: Asked) -> bool:
        """Return whether a request asks for a stream."""
        accept = asked.headers.get("accept", "")
        return asked.method == "GET" and len(asked.path) == 2 and is_arrow(accept)

    async def serve(
        self,
        asked: Asked,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> int:
        """Stream to one client until all is sent, or it is gone, or too slow.

        A stream that ends early is cut off: its last chunk is missing.

        Returns:
            The HTTP status.

        Raises:
            DataRefusal: If there is nothing to stream.
        """
        del receive
        from anyio.to_thread import run_sync

        with self._clients.one():
            reader = await run_sync(lambda: self._reader(asked))
            try:
                await self._send_all(reader, send)
            finally:
                await run_sync(reader.close)
        return 200

    def _reader(self, asked: Asked) -> _Reader:
        try:
            return _Reader(self._service, asked)
        except MustelaError as error:
            raise refusal_of(error) from None

    async def _send_all(self, reader: _Reader, send: Callable[[Message], Awaitable[None]]) -> None:
        import anyio
        from anyio.to_thread import run_sync

        until = self._now() + self._limits.stream_s
        chunk = await run_sync(reader.next_chunk)  # what is wrong with it is an answer yet
        headers = [
            (b"content-type", ARROW.encode()),
            (EPOCH_HEADER.encode(), str(reader.epoch).encode()),
            (b"vary", b"accept"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while chunk is not None:
            with anyio.move_on_after(self._limits.send_s) as timer:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if timer.cancelled_caught or self._now() > until:
                return
            chunk = await run_sync(reader.next_chunk)
        await send({"type": "http.response.body", "body": b""})


class _Reader:
    """Reads what one client has asked for, batch by batch.

    Attributes:
        epoch: The epoch.
    """

    def __init__(self, service: DataService, asked: Asked) -> None:
        asked.only(*OF_QUESTION, "limit", "min_epoch")
        forms = service.store(asked.path[1])
        bounds, limit = bounds_of(asked, forms.key), asked.whole("limit")
        table = StoreTable(forms.info.name, forms.info, service.hidden)
        self._snapshot = service.held(asked.whole("min_epoch"))
        self.epoch = self._snapshot.epoch
        try:
            info = forms.info
            handle = self._snapshot.store(info.name, timestamps=info.timestamps)
            rows = StoreRows(handle, forms, service.hidden).found(bounds)
            if limit is not None:
                rows = islice(rows, limit)
            self._chunks = _chunks(table, rows)
        except BaseException:
            self._snapshot.close()
            raise

    def next_chunk(self) -> bytes | None:
        """Return the next bytes of the stream; None after the last.

        Raises:
            DataRefusal: If a row cannot be read.
        """
        try:
            return next(self._chunks, None)
        except MustelaError as error:
            raise refusal_of(error) from None

    def close(self) -> None:
        """End the reading."""
        self._snapshot.close()


def _chunks(table: StoreTable, rows: Iterator[Any]) -> Iterator[bytes]:
    """Yield the parts of a stream: the schema with the first batch, the batches, its end."""
    from mustela.sql.libraries import arrow

    buffer = io.BytesIO()

    def taken() -> bytes:
        data = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return data

    with arrow().ipc.new_stream(buffer, table.schema()) as writer:
        for batch in table.batches_of(rows):
            writer.write_batch(batch)
            yield taken()
    yield taken()
