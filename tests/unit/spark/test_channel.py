"""Who gets into the channel between driver and worker, and what ends it."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mustela.spark import channel as channels
from mustela.spark.channel import DONE, END, FRAME, LIMITS, ORDER, Channel, ChannelError, Door, Key
from tests.patience import PATIENCE_S


@contextmanager
def child(work: Callable[[], None]) -> Iterator[int]:
    """Do something in another process, which is killed at the end."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def wait_for_ever() -> None:
    while True:
        signal.pause()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path, "orders")
    yield made
    made.close()


@contextmanager
def channel_to(door: Door, work: Callable[[Channel], None]) -> Iterator[Channel]:
    with child(lambda: work(door.key.enter())):
        channel = door.admit(PATIENCE_S)
        assert channel is not None
        with channel:
            yield channel


class Comes:
    """Hears a message as who hears several channels at once."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes]] = []

    def __call__(self, channel: Channel) -> tuple[int, bytes]:
        poll = select.poll()
        for descriptor in channel.descriptors:
            poll.register(descriptor, select.POLLIN)
        while not self.messages:
            assert poll.poll(PATIENCE_S * 1000)
            self.messages += channel.come()
        return self.messages.pop(0)


Hear = Callable[[Channel], tuple[int, bytes]]


@pytest.fixture(params=[Channel.receive, None], ids=["one", "several"])
def hear(request: pytest.FixtureRequest) -> Hear:
    """Hears a message."""
    return request.param or Comes()


def echo(channel: Channel) -> None:
    """Send each order back as a frame."""
    while (message := channel.receive())[0] == ORDER:
        channel.send(FRAME, message[1])
        channel.send(DONE, b"x")
        channel.flush()


def test_messages_go_both_ways(door: Door, hear: Hear) -> None:
    """Empty ones, and ones larger than any buffer."""
    with channel_to(door, echo) as channel:
        for body in (b"", b"order", os.urandom(3 << 20)):
            assert channel.is_quiet
            channel.send(ORDER, body)
            channel.flush()
            assert hear(channel) == (FRAME, body)
            assert hear(channel) == (DONE, b"x")
        channel.send(END)
        channel.flush()
        assert channel.has_ended(PATIENCE_S)


def test_only_this_user_finds_the_door(tmp_path: Path) -> None:
    """However long the name of its directory; nothing of it stays."""
    root = tmp_path.joinpath(*["directory" * 8] * 3)
    root.mkdir(parents=True)
    door = Door(root, "orders")
    place = root / "orders"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()] == [0o600]
    with channel_to(door, echo):
        door.close()
    assert not place.exists()


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)


def test_who_does_not_know_the_secret_is_sent_away(door: Door, tmp_path: Path) -> None:
    """Nothing that he says is unpickled; the worker still gets in."""
    bomb = pickle.dumps(Bomb(str(tmp_path / "trace")))
    said = bomb.ljust(32, b".")[:32] + struct.pack("!BI", FRAME, len(bomb)) + bomb
    stranger = socket.socket(socket.AF_UNIX)
    stranger.connect(str(tmp_path / "orders" / "orders"))
    stranger.sendall(said)
    assert door.admit(PATIENCE_S) is None
    with pytest.raises(ConnectionResetError):
        stranger.recv(1)
    stranger.close()
    assert not (tmp_path / "trace").exists()
    with channel_to(door, echo) as channel:
        assert channel.is_quiet


@pytest.mark.parametrize("said", [b"", b"short"])
def test_who_says_less_than_a_secret_is_sent_away(door: Door, tmp_path: Path, said: bytes) -> None:
    """It need not wait for the rest of what never comes."""
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(tmp_path / "orders" / "orders"))
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        assert door.admit(PATIENCE_S) is None


def test_a_worker_does_not_listen_to_who_does_not_know_the_drivers_half(
    door: Door, tmp_path: Path
) -> None:
    """Else whoever has the socket's place could give it orders."""
    other = door.key._replace(driver=bytes(32))

    def enter() -> None:
        with pytest.raises(ChannelError, match="secret"):
            other.enter()
        (tmp_path / "refused").touch()

    with child(enter):
        found = door.admit(PATIENCE_S)
        assert found is not None
        assert found.has_ended(PATIENCE_S)
        with pytest.raises(ChannelError):
            found.receive()
        found.close()
    assert (tmp_path / "refused").exists()


def test_a_process_of_another_user_is_sent_away(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that knows the secret: what the kernel says of it counts."""
    real = channels.peer_of

    def foreign(connection: socket.socket) -> tuple[int, int]:
        pid, user = real(connection)
        return pid, user + 1

    with child(lambda: wait_for_ever() if door.key.enter() else None):
        monkeypatch.setattr(channels, "peer_of", foreign)
        assert door.admit(PATIENCE_S) is None


def test_the_kernel_says_which_user_it_is(door: Door, tmp_path: Path) -> None:
    """Where the modes of directory and socket would let another user in."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for part in (tmp_path, *tmp_path.parents[:3], tmp_path / "orders"):
        part.chmod(0o777)
    (tmp_path / "orders" / "orders").chmod(0o777)
    key = door.key

    def enter() -> None:
        os.setuid(65534)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(tmp_path / "orders" / "orders"))
        connection.sendall(key.worker)
        wait_for_ever()

    with child(enter):
        assert door.admit(PATIENCE_S) is None


@pytest.mark.parametrize(
    ("kind", "length"),
    [(FRAME, LIMITS[FRAME] + 1), (END, 1), (9, 0), (0, 0), (ORDER, (1 << 32) - 1)],
)
def test_a_message_beyond_its_limit_ends_the_channel(
    door: Door, hear: Hear, kind: int, length: int
) -> None:
    """Its body is not waited for, and no memory is taken for it."""

    def say(channel: Channel) -> None:
        channel._connection.sendall(struct.pack("!BI", kind, length))
        wait_for_ever()

    with channel_to(door, say) as channel, pytest.raises(ChannelError, match=f"kind {kind}"):
        hear(channel)


def test_what_is_too_long_is_not_sent(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side would hang up."""
    monkeypatch.setitem(LIMITS, ORDER, 10)
    with channel_to(door, echo) as channel:
        with pytest.raises(ChannelError, match="11 bytes"):
            channel.send(ORDER, bytes(11))
        assert channel.is_quiet


def test_death_is_seen_at_once_though_a_child_of_the_dead_has_the_socket(
    door: Door, hear: Hear
) -> None:
    """And what was said before it counts."""
    end, held = os.pipe()

    def say(channel: Channel) -> None:
        if not os.fork():
            os.close(held)
            os.read(end, 1)  # until the test has ended
            os._exit(0)
        channel.send(FRAME, b"last")
        channel.flush()
        channel.receive()

    with channel_to(door, say) as channel:
        assert hear(channel) == (FRAME, b"last")
        channel.send(END)
        os.kill(channel.pid, signal.SIGKILL)
        with pytest.raises(ChannelError, match="gone"):
            hear(channel)
        assert not channel.is_quiet
    os.close(held)
    os.close(end)


def test_a_worker_notices_that_its_driver_hangs_up(door: Door, tmp_path: Path) -> None:
    """Also where something else has the driver's socket."""

    def hear(channel: Channel) -> None:
        with pytest.raises(ChannelError, match="gone"):
            channel.receive()
        (tmp_path / "noticed").touch()

    with channel_to(door, hear) as channel:
        copy = os.dup(channel._connection.fileno())
        channel.hang_up()
        assert channel.has_ended(PATIENCE_S)
        os.close(copy)
    assert (tmp_path / "noticed").exists()


def test_what_hangs_is_killed(door: Door) -> None:
    """It has ended when the call returns."""
    with channel_to(door, lambda _channel: wait_for_ever()) as channel:
        assert not channel.has_ended(0)
        channel.kill()
        assert channel.has_ended(0)


def test_where_there_is_no_door_nobody_enters(tmp_path: Path) -> None:
    """The driver has closed it meanwhile."""
    with pytest.raises(OSError, match="No such file"):
        Key(str(tmp_path / "orders"), b"", b"").enter()
