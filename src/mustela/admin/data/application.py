"""The ASGI application for data: requests are answered in threads, streams one by one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final

from mustela.admin.data.asked import Asked, DataRefusal, asked_of, read_body
from mustela.admin.data.changes import ChangeStreams
from mustela.admin.data.row_streams import RowStreams, is_arrow
from mustela.admin.data.service import Reply, refused

__all__ = ["DataApplication", "is_stream"]

BODY_MAX: Final = 1 << 20
"""The largest body of a request for many keys, in bytes."""
_audit = logging.getLogger("mustela.admin.audit")

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Answer = Callable[[Asked], Reply]


def is_stream(path: str, accept: str = "") -> bool:
    """Return whether a request is answered by a stream.

    Args:
        path: Its path.
        accept: Its Accept header.

    Example:
        >>> is_stream("/stores/counts/changes"), is_stream("/stores/counts")
        (True, False)
        >>> is_stream("/stores/counts", "application/vnd.apache.arrow.stream")
        True
    """
    parts = path.split("/")
    if parts[1:2] != ["stores"]:
        return False
    return (len(parts) == 4 and parts[3] == "changes") or (len(parts) == 3 and is_arrow(accept))


class DataApplication:
    """Serves stores over HTTP.

    Args:
        answers: What answers, by the first part of the path.
        streams: Answers requests for changes; None if they are not known here.
        requests_max: How many requests are answered at the same time.
        say: Called with a line for each request, if that is wanted.
        rows: Answers requests for rows in Arrow's format.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer],
        streams: ChangeStreams | None,
        *,
        requests_max: int,
        say: Callable[[str], None] | None = None,
        rows: RowStreams | None = None,
    ) -> None:
        self._answers = answers
        self._streams = streams
        self._requests_max = requests_max
        self._say = say
        self._rows = rows
        self._limiter: Any = None

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        asked = None
        try:
            asked = asked_of(scope)
            if asked.method == "POST":
                asked = replace(asked, body=await read_body(receive, BODY_MAX))
            if asked.path[2:] == ("changes",) and asked.method == "GET":
                status = await self._stream(asked, receive, send)
                self._note(asked, status)
                return
            if self._rows is not None and self._rows.wanted(asked):
                self._note(asked, await self._rows.serve(asked, receive, send))
                return
            reply = await self._reply(asked)
        except DataRefusal as refusal:
            reply = refused(refusal)
        self._note(asked, reply.status)
        await _send(send, reply, has_body=scope["method"] != "HEAD")

    async def _reply(self, asked: Asked) -> Reply:
        from anyio import CapacityLimiter
        from anyio.to_thread import run_sync

        answer = self._answers.get(asked.path[0] if asked.path else "")
        if answer is None:
            raise DataRefusal(404, "QUERY_PATH", "there is no such address")
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._requests_max)
        return await run_sync(lambda: answer(asked), abandon_on_cancel=True, limiter=self._limiter)

    async def _stream(
        self,
        asked: Asked,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> int:
        if self._streams is None:
            what = "changes are not known here"
            raise DataRefusal(404, "QUERY_NO_CHANGES", what, "ask the application that runs")
        return await self._streams.serve(asked, receive, send)

    def _note(self, asked: Asked | None, status: int) -> None:
        """Write who asked what, without keys, which may be personal."""
        if self._say is None or asked is None:
            return
        shown = [*asked.path[:2], *("…" for _ in asked.path[2:3]), *asked.path[3:]]
        if asked.path[2:3] in (("changes",), ("get",)):
            shown = list(asked.path[:3])
        text = (
            f"query: {asked.method[:8]} /{'/'.join(shown)!s:.200} from {asked.client}"
            f" with the scope {asked.scope}: {status}"
        )
        _audit.info(text)
        self._say(text)


async def _send(
    send: Callable[[Message], Awaitable[None]], reply: Reply, *, has_body: bool
) -> None:
    headers = [
        (b"content-type", reply.kind.encode()),
        (b"content-length", b"%d" % len(reply.body)),
        (b"vary", b"accept"),
        *((name.encode(), value.encode()) for name, value in reply.headers.items()),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body if has_body else b""})
