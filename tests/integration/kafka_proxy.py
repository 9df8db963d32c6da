"""A TCP proxy between a client and its broker that knows where Kafka's requests begin and end."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

END_TXN = 26
ADD_PARTITIONS = 24
PRODUCE = 0


class KafkaProxy:
    """Passes bytes both ways, and does what a test says with the answers to one kind of request.

    The broker must advertise the proxy's port.

    Args:
        target: The broker's port; may be set later.
    """

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.seen = threading.Event()
        self.held = threading.Event()
        self._release = threading.Event()
        self._watched: int | None = None
        self._on_answer: Callable[[], bool] | None = None
        self._refusing = False
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_answers(self, api: int) -> None:
        """Swallow answers to requests of a kind: the request is served, nobody hears of it.

        `seen` is set when the first answer is swallowed: only then has the broker done its part.
        """

        def swallow() -> bool:
            self.seen.set()
            return False

        self._arm(api, swallow)

    def hold_answers(self, api: int) -> None:
        """Keep answers back until `release`."""

        def wait() -> bool:
            self.held.set()
            self._release.wait(120)
            return True

        self._arm(api, wait)

    def release(self) -> None:
        """Let held answers go, and pass everything from now on."""
        self._watched = None
        self._release.set()

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._refusing = True
        for one in list(self._sockets):
            _close(one)
        self._sockets.clear()

    def mend(self) -> None:
        """Accept connections again, and pass everything."""
        self._watched = None
        self._refusing = False
        self._release.set()

    def close(self) -> None:
        """Close everything."""
        self.cut()
        self._release.set()
        _close(self._listener)

    def _arm(self, api: int, on_answer: Callable[[], bool]) -> None:
        self.seen.clear()
        self.held.clear()
        self._release.clear()
        self._on_answer = on_answer
        self._watched = api

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _close(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                _close(client)
                continue
            server.settimeout(None)
            self._sockets |= {client, server}
            pending: set[int] = set()
            for work in (self._requests, self._answers):
                threading.Thread(target=work, args=(client, server, pending), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, pending: set[int]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(client)) is not None:
                api, _, correlation = struct.unpack_from(">hhi", frame)
                if api == self._watched:
                    pending.add(correlation)
                server.sendall(struct.pack(">i", len(frame)) + frame)
        _close(client)
        _close(server)

    def _answers(self, client: socket.socket, server: socket.socket, pending: set[int]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(server)) is not None:
                (correlation,) = struct.unpack_from(">i", frame)
                if correlation in pending:
                    pending.discard(correlation)
                    if self._on_answer is not None and not self._on_answer():
                        continue
                client.sendall(struct.pack(">i", len(frame)) + frame)
        _close(client)
        _close(server)


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    if head is None:
        return None
    (length,) = struct.unpack(">i", head)
    return _exactly(source, length)


def _exactly(source: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        some = source.recv(min(count - len(parts), 1 << 16))
        if not some:
            return None
        parts += some
    return bytes(parts)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
