"""A channel from the driver to a worker of its host: a Unix socket that is this user's alone.

Orders and frames hold pickled objects, and whoever can have a process unpickle something can have
it do anything. So before the first message both sides have seen that the other one runs as the same
user, which the kernel says, and knows its half of a secret that Spark took to the worker. Each
message tells its kind and its length, and a length beyond its kind's limit ends the channel.
"""

from __future__ import annotations

import hmac
import os
import secrets
import select
import signal
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from mustela.processes import is_ready, peer_of
from mustela.state.directories import make_private

__all__ = ["DONE", "END", "FRAME", "LIMITS", "ORDER", "Channel", "ChannelError", "Door", "Key"]

ORDER, FRAME, DONE, END = range(1, 5)
"""Kinds of messages: an order; a frame of its answer; the end of the answer; no more orders."""

LIMITS: Final = {ORDER: 64 << 20, FRAME: 256 << 20, DONE: 64, END: 0}
"""Bytes that a message of each kind may have."""

_HEAD: Final = struct.Struct("!BI")
_HALF: Final = 32
_SOCKET: Final = "orders"
_GREETING_S: Final = 10.0
_LEAST_S: Final = 0.001
_KILLED_S: Final = 10.0
_GONE: Final = "the other side of the channel is gone"
_BUFFER: Final = 1 << 16


class ChannelError(OSError):
    """The other side is gone, is not who it should be, or says what no message may say."""


class Key(NamedTuple):
    """What lets a worker in.

    Attributes:
        directory: Where the socket is.
        worker: What the worker says.
        driver: What the driver answers.
    """

    directory: str
    worker: bytes
    driver: bytes

    def enter(self) -> Channel:
        """Go through the door, in the worker.

        Raises:
            OSError: If there is no door, or another one.
        """
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_GREETING_S)
            with _short(Path(self.directory)) as place:
                connection.connect(str(place / _SOCKET))
            _check_user(connection)
            connection.sendall(self.worker)
            _check_secret(connection, self.driver)
            return Channel(connection)
        except BaseException:
            connection.close()
            raise


class Door:
    """Where the driver waits for its worker.

    Args:
        root: A directory of the program's.
        name: The name of a new directory there.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._directory = root / name
        make_private(root, self._directory)
        self.key = Key(str(self._directory), secrets.token_bytes(_HALF), secrets.token_bytes(_HALF))
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            with _short(self._directory) as place:
                self._listener.bind(str(place / _SOCKET))
            (self._directory / _SOCKET).chmod(0o600)  # nobody can connect before `listen`
            self._listener.listen(1)
        except BaseException:
            self.close()
            raise

    def admit(self, wait_s: float) -> Channel | None:
        """Wait for the worker.

        Returns:
            Its channel; None if nobody came, or somebody who was sent away.
        """
        self._listener.settimeout(max(wait_s, _LEAST_S))
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return None
        try:
            connection.settimeout(_GREETING_S)
            _check_user(connection)
            _check_secret(connection, self.key.worker)
            connection.sendall(self.key.driver)
            return Channel(connection)
        except OSError:
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Let nobody in any more."""
        self._listener.close()
        with suppress(OSError):
            (self._directory / _SOCKET).unlink(missing_ok=True)
            self._directory.rmdir()


class Channel:
    """Messages to and from a process that was looked at.

    The kernel is asked whether that process lives, too: one that it has forked would keep the
    socket open after its death.

    Args:
        connection: Its socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        self.pid = peer_of(connection)[0]
        self._peer = os.pidfd_open(self.pid)
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._peer, select.POLLIN)
        self._waiting = bytearray()
        self._came = bytearray()

    def send(self, kind: int, body: bytes = b"") -> None:
        """Send a message; it may wait for `flush`.

        Raises:
            ChannelError: If it is too long, or the other side is gone.
        """
        if len(body) > LIMITS[kind]:
            what = f"a message of {len(body)} bytes; at most {LIMITS[kind]} may be sent"
            raise ChannelError(what)
        self._waiting += _HEAD.pack(kind, len(body))
        self._waiting += body
        if len(self._waiting) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Send what waits.

        Raises:
            ChannelError: If the other side is gone.
        """
        waiting, self._waiting = self._waiting, bytearray()
        try:
            self._connection.sendall(waiting)
        except OSError as error:
            raise ChannelError(_GONE) from error

    def receive(self) -> tuple[int, bytes]:
        """Wait for a message; return its kind and its body.

        Raises:
            ChannelError: If the other side is gone, or says what no message may say.
        """
        kind, length = _checked(self._read(_HEAD.size))
        return kind, self._read(length)

    def come(self) -> list[tuple[int, bytes]]:
        """Return the messages that have come whole; wait for nothing.

        Raises:
            ChannelError: If the other side is gone and has said nothing more, or says what no
                message may say.
        """
        try:
            more = self._connection.recv(_BUFFER, socket.MSG_DONTWAIT)
            is_gone = not more
        except BlockingIOError:
            more, is_gone = b"", is_ready(self._peer, 0)
        except ConnectionResetError:
            more, is_gone = b"", True
        if is_gone:
            raise ChannelError(_GONE)
        self._came += more
        found: list[tuple[int, bytes]] = []
        while len(self._came) >= _HEAD.size:
            kind, length = _checked(self._came)
            if len(self._came) < _HEAD.size + length:
                break
            found.append((kind, self._taken(_HEAD.size + length)[_HEAD.size :]))
        return found

    def _read(self, length: int) -> bytes:
        came = self._came
        while len(came) < length:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            more = b""
            if self._connection.fileno() in ready:  # what it said before it died counts
                with suppress(ConnectionResetError):
                    more = self._connection.recv(max(_BUFFER, length - len(came)))
            if not more:
                raise ChannelError(_GONE)
            came += more
        return self._taken(length)

    def _taken(self, length: int) -> bytes:
        data = bytes(self._came[:length])
        del self._came[:length]
        return data

    @property
    def descriptors(self) -> tuple[int, int]:
        """What can be read when the other side says something, or ends."""
        return self._connection.fileno(), self._peer

    @property
    def is_quiet(self) -> bool:
        """Whether the other side is there and says nothing, as it must before it is asked."""
        return self._peer >= 0 and not self._came and not self._poll.poll(0)

    def kill(self) -> None:
        """Kill the process of the other side, and wait until it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._peer, signal.SIGKILL)
        self.has_ended(_KILLED_S)

    def has_ended(self, wait_s: float) -> bool:
        """Wait for the end of the other side's process; return whether it came."""
        return is_ready(self._peer, wait_s)

    def hang_up(self) -> None:
        """Say and hear no more; the other side notices at once, whoever else has the socket."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and let go of it."""
        if self._peer < 0:
            return
        self.hang_up()
        self._connection.close()
        os.close(self._peer)
        self._peer = -1

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        self.close()


def _checked(head: bytes | bytearray) -> tuple[int, int]:
    """Return the kind and the length that the head of a message tells."""
    kind, length = _HEAD.unpack_from(head)
    if length > LIMITS.get(kind, -1):
        what = f"a message of kind {kind} with {length} bytes"
        raise ChannelError(what)
    return kind, length


def _check_user(connection: socket.socket) -> None:
    _, user = peer_of(connection)
    if user != os.geteuid():
        what = f"a process of user {user} is at the other side of the channel"
        raise ChannelError(what)


def _check_secret(connection: socket.socket, secret: bytes) -> None:
    said = b""
    while len(said) < _HALF:
        more = connection.recv(_HALF - len(said))
        if not more:
            break
        said += more
    if not hmac.compare_digest(said, secret):
        what = "who is at the other side of the channel does not know its secret"
        raise ChannelError(what)


@contextmanager
def _short(directory: Path) -> Generator[Path]:
    """Name a directory so that it fits into a socket's address, which takes 107 bytes."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
