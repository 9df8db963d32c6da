"""uvicorn in a thread, with limits on the number, duration and requests of connections."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mustela.admin.guard import ASGI

__all__ = ["Limits", "Listening", "Place"]

CONNECTIONS_MAX: Final = 128
"""Maximum number of concurrent connections; further ones are closed at once."""
CONNECTION_S: Final = 120.0
"""Seconds after which a connection is closed, whatever it does."""
_HEAD_BYTES: Final = 16 * 1024
_STOP_S: Final = 5.0

_log = logging.getLogger("mustela.admin.http")
_log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much time and how many connections a client may take.

    Attributes:
        arrival_s: Seconds within which a request must have arrived completely.
        connections_max: Maximum number of connections.
        connection_s: Maximum duration of a connection in seconds.
    """

    arrival_s: float
    connections_max: int = CONNECTIONS_MAX
    connection_s: float = CONNECTION_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One socket, and its application.

    Attributes:
        socket: A listening socket.
        app: The ASGI application.
        certificate: File with the certificate; None for plain HTTP.
        key: File with its key.
    """

    socket: socket.socket
    app: ASGI
    certificate: Path | None = None
    key: Path | None = None


class Listening:
    """Servers in a separate thread, until they are closed.

    Args:
        places: Their sockets and applications.
        limits: The limits for clients.
    """

    def __init__(self, places: Sequence[Place], limits: Limits) -> None:
        from uvicorn import Config, Server

        self._places = places
        self._servers: list[Any] = []
        protocol = _limited_protocol(limits)
        for place in places:
            config = Config(
                place.app,
                http=protocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                loop="asyncio",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=max(1, round(limits.arrival_s)),
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=_HEAD_BYTES,
                ssl_certfile=place.certificate,
                ssl_keyfile=place.key,
            )
            config.load()
            self._servers.append(Server(config))
        self._thread = threading.Thread(target=self._serve, name="mustela-admin", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.run(self._serve_all())

    async def _serve_all(self) -> None:
        places = zip(self._servers, self._places, strict=True)
        await asyncio.gather(*(server.serve([place.socket]) for server, place in places))
        for server in self._servers:
            for connection in tuple(server.server_state.connections):
                connection.transport.abort()
        await asyncio.sleep(0)  # until what they close is closed

    def close(self) -> None:
        """Stop listening; running responses get one more second."""
        for server in self._servers:
            server.should_exit = True
        self._thread.join(_STOP_S)
        for place in self._places:
            place.socket.close()


class _Limited:
    """Adds limits to uvicorn's protocol: closes slow, surplus and old connections."""

    limits: Limits
    connections: set[Any]
    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _log
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: Any) -> None:
        """Start the timers."""
        self._above.connection_made(transport)
        if len(self.connections) > self.limits.connections_max:
            transport.abort()
            return
        self._timers = [
            self.loop.call_later(self.limits.arrival_s, self._look),
            self.loop.call_later(self.limits.connection_s, transport.abort),
        ]

    def _look(self) -> None:
        """Close the connection if it waits for a request, or for the rest of one."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self.transport.abort()
        else:
            self._timers[0] = self.loop.call_later(self.limits.arrival_s, self._look)

    def on_response_complete(self) -> None:
        """Restart the timers."""
        self._above.on_response_complete()
        if self._timers:
            self._timers[0].cancel()
            self._timers[0] = self.loop.call_later(self.limits.arrival_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        self._above.connection_lost(exc)

    @property
    def _above(self) -> Any:
        return super()


def _limited_protocol(limits: Limits) -> Any:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return type("LimitedProtocol", (_Limited, H11Protocol), {"limits": limits})
