"""Streams of changes: a snapshot of a store, then what each committed epoch changes in it.

Nothing is queued for a client: it is sent what the ring keeps, as fast as it takes it. One that
takes an event too slowly is dropped, and one that the ring has overtaken begins again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import aclosing
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mustela.admin.data.asked import Asked, DataRefusal
from mustela.admin.data.changed import ChangedStore
from mustela.admin.data.clients import Clients
from mustela.admin.data.rows import Bounds, Document, StoreRows
from mustela.admin.data.service import DataService, refusal_of
from mustela.errors import MustelaError
from mustela.queries.snapshot import Snapshot
from mustela.runtime.status.change_ring import ChangeRing, EpochChanges

__all__ = ["BEAT_S", "ChangeStreams", "StreamLimits"]

_ROWS: Final = 200
"""Rows of an event."""
_LOOK_S: Final = 0.05
_FOLLOW_S: Final = 30.0
BEAT_S: Final = 15.0
"""After so long without an event, in seconds, a client is told that the stream goes on."""

Message = MutableMapping[str, Any]


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a stream may take.

    Attributes:
        clients: The most streams at the same time.
        send_s: How long a client may take for one event, in seconds.
        snapshot_s: How long the rows of the snapshot may take, in seconds.
        stream_s: How long a stream lasts, in seconds; the client then asks again, where it was.
    """

    clients: int = 16
    send_s: float = 10.0
    snapshot_s: float = 30.0
    stream_s: float = 100.0


class ChangeStreams:
    """Serves the changes of stores as server-sent events.

    Args:
        service: The stores.
        ring: What the last epochs changed.
        now: Monotonic time, in seconds.
        limits: How much a stream may take.
    """

    def __init__(
        self,
        service: DataService,
        ring: ChangeRing,
        now: Callable[[], float],
        limits: StreamLimits | None = None,
    ) -> None:
        self._service = service
        self._ring = ring
        self._now = now
        self._limits = limits or StreamLimits()
        self._clients = Clients(self._limits.clients, "follow changes")

    async def serve(
        self,
        asked: Asked,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> int:
        """Stream to one client until it goes, is too slow, or the time of a stream is over.

        Returns:
            The HTTP status.

        Raises:
            DataRefusal: If there is nothing to stream.
        """
        with self._clients.one():
            await self._serve(await self._follower(asked), receive, send)
        return 200

    async def _follower(self, asked: Asked) -> _Follower:
        from anyio.to_thread import run_sync

        try:
            return await run_sync(lambda: _Follower(self._service, self._ring, asked))
        except MustelaError as error:
            raise refusal_of(error) from None

    async def _serve(
        self,
        follower: _Follower,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        import anyio

        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"mustela-epoch", str(follower.epoch).encode()),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def until_gone(scope: anyio.CancelScope) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(until_gone, group.cancel_scope)
            try:
                await self._send_all(follower, send)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(follower.close)
            group.cancel_scope.cancel()

    async def _send_all(
        self, follower: _Follower, send: Callable[[Message], Awaitable[None]]
    ) -> None:
        import anyio

        async with aclosing(self._events(follower)) as events:
            async for event in events:
                with anyio.move_on_after(self._limits.send_s) as timer:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                if timer.cancelled_caught:
                    return  # too slow: what it has not taken is lost, and it begins again
        with anyio.move_on_after(self._limits.send_s):
            await send({"type": "http.response.body", "body": b""})

    async def _events(self, follower: _Follower) -> AsyncGenerator[bytes]:
        """Yield events to the end of the stream; an error is the last of them."""
        try:
            async with aclosing(self._events_until_error(follower)) as events:
                async for event in events:
                    yield event
        except MustelaError as error:
            yield _event("end", {"code": error.code, "error": error.what, "fix": error.fix or ""})

    async def _events_until_error(self, follower: _Follower) -> AsyncGenerator[bytes]:
        import anyio
        from anyio.to_thread import run_sync

        now = self._now
        begun = beaten = followed = now()
        yield b"retry: 1000\n\n"
        while (event := await run_sync(follower.next_rows)) is not None:
            if now() - begun > self._limits.snapshot_s:
                what = {"code": "QUERY_TOO_LARGE", "error": "the snapshot takes too long"}
                yield _event("end", {**what, "fix": "give a prefix, or read pages and give since="})
                return
            yield event
        while now() - begun < self._limits.stream_s:
            found = await run_sync(follower.next_changes)
            if found is None:
                what = {"code": "QUERY_EPOCH_GONE", "error": "changes are no longer kept"}
                yield _event("end", {**what, "fix": "ask again, without Last-Event-ID"})
                return
            for event in found:
                yield event
                beaten = now()
            if now() - followed > _FOLLOW_S:
                follower.follow()
                followed = now()
            if now() - beaten > BEAT_S:
                yield b": \n\n"
                beaten = now()
            await anyio.sleep(_LOOK_S)


class _Follower:
    """What one client has been sent of a store.

    Attributes:
        epoch: The epoch up to which it has everything.
    """

    def __init__(self, service: DataService, ring: ChangeRing, asked: Asked) -> None:
        asked.only("prefix", "since")
        store = asked.path[1]
        forms = service.store(store)
        service.refuse_copy(store)
        self._store, self._forms, self._ring = store, forms, ring
        prefix, bounds = b"", Bounds()
        text = asked.parameters.get("prefix")
        if text is not None:
            key = forms.key.from_text(text)
            prefix, bounds = forms.key_serde.serialize(key), Bounds(prefix=key)
        self._changed = ChangedStore(forms, service.hidden, prefix)
        self._seen: int = -1
        self._rows: Iterator[Document] | None = None
        self._opened: StoreRows | None = None
        ring.follow(store)
        since = _since(asked)
        self._shown: Snapshot | None = service.leases.take()
        self.epoch: int = self._shown.epoch
        if since is None:
            self._opened = StoreRows(forms.of(self._shown), forms, service.hidden)
            self._rows = (show() for _, show in self._opened.scan(bounds))
            return
        now = self.epoch
        self.close()
        if since > now or ring.after(store, since) is None:
            raise _gone(asked, since, now)
        self.epoch = since

    def next_rows(self) -> bytes | None:
        """Return the next event of the snapshot; None after the last one."""
        if self._rows is None:
            return None
        rows = list(islice(self._rows, _ROWS))
        if rows:
            return _event("snapshot", {"epoch": self.epoch, "rows": rows})
        self._rows = None
        self.close()
        return _event("ready", {"epoch": self.epoch}, self.epoch)

    def next_changes(self) -> list[bytes] | None:
        """Return the events of the epochs since the last look; None if some are not kept."""
        committed = self._ring.epoch
        if committed == self._seen:
            return []
        found = self._ring.after(self._store, self.epoch)
        if found is None:
            return None
        self._seen = committed
        events = [event for each in found for event in self._events_of(each)]
        self.epoch = max(self.epoch, committed, *(each.epoch for each in found))
        return events

    def follow(self) -> None:
        """Say that changes of the store are still wanted."""
        self._ring.follow(self._store)

    def close(self) -> None:
        """End the snapshot."""
        if self._opened is not None:
            self._opened.__exit__()
            self._opened = None
        if self._shown is not None:
            self._shown.close()
            self._shown = None

    def _events_of(self, epoch: EpochChanges) -> Iterator[bytes]:
        rows = self._changed.documents(epoch.rows[self._store])
        part = list(islice(rows, _ROWS))
        while part:
            following = list(islice(rows, _ROWS))
            mark = None if following else epoch.epoch
            yield _event("change", {"epoch": epoch.epoch, "rows": part}, mark)
            part = following


def _since(asked: Asked) -> int | None:
    text = asked.headers.get("last-event-id") or asked.parameters.get("since")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        what = "the epoch to go on from is not a whole number"
        raise DataRefusal(400, "QUERY_PARAMETER", what, "give the id of the last event")
    return int(text)


def _gone(asked: Asked, since: int, epoch: int) -> DataRefusal:
    what = f"the changes after epoch {since} are not kept"
    fix = "begin again at that address, without Last-Event-ID"
    given = asked.parameters.get("prefix")
    end = "" if given is None else f"?prefix={quote(given, safe='')}"
    address = "/" + "/".join(quote(part, safe="") for part in asked.path) + end
    more = {"snapshot": address, "epoch": epoch}
    return DataRefusal(410, "QUERY_EPOCH_GONE", what, fix, more)


def _event(name: str, document: Document, mark: int | None = None) -> bytes:
    head = b"" if mark is None else b"id: %d\n" % mark
    return head + b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(document) + b"\n\n"
