"""What waits in place of the parent of the workers."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mustela.spark import dozing
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


def _as_a_parent() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


@contextmanager
def asleep(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One that waits at a socket, in a group of its own; it becomes one that says so."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        number = listening.fileno()
        back = [sys.executable, "-I", "-c", "print('awake')"]
        with subprocess.Popen(
            [sys.executable, "-I", "-S", dozing.__file__, str(number), str(path), *back],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[number],
            process_group=0,
            preexec_fn=_as_a_parent,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def test_it_ends_workers_that_spark_names_and_itself_with_spark(tmp_path: Path) -> None:
    """Each by its number; one that has ended already is passed over."""
    path = tmp_path / "socket"
    with (
        asleep(path) as process,
        subprocess.Popen(["sleep", "1000"]) as worker,
    ):
        assert process.stdin is not None
        for _ in range(2):
            process.stdin.write(struct.pack("!i", worker.pid))
            process.stdin.flush()
            assert worker.wait(PATIENCE_S) == -signal.SIGKILL
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert not path.exists()


def test_it_becomes_the_parent_when_somebody_connects(tmp_path: Path) -> None:
    """The connection waits for it."""
    path = tmp_path / "socket"
    with asleep(path) as process, socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(path))
        assert process.stdout is not None
        assert process.stdout.readline() == b"awake\n"


def test_it_ends_all_workers_when_it_is_told_to_end(tmp_path: Path) -> None:
    """As a group, like Spark's own."""
    path = tmp_path / "socket"
    with asleep(path) as process:
        worker = subprocess.Popen(
            ["sleep", "1000"],
            process_group=process.pid,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # as workers do
        )
        process.terminate()
        assert process.wait(PATIENCE_S) == 1
        assert worker.wait(PATIENCE_S) == -signal.SIGHUP
    assert not path.exists()
