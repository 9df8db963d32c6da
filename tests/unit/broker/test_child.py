"""Processes told apart for good, ended surely, and tied to their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mustela_dev.broker.child import Child, launch, mark_of
from tests.patience import PATIENCE_S

SLEEPER = ["/bin/sh", "-c", "echo up; exec sleep 1000"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
    "time.sleep(1000)",
]


def start(tmp_path: Path, command: list[str], *, tied: bool = True) -> Child:
    log = tmp_path / "log"
    child = launch(command, log=log, directory=tmp_path, environment=dict(os.environ), tied=tied)
    while "up" not in log.read_text():
        assert child.alive, log.read_text()
    return child


def test_a_mark_names_one_process_only() -> None:
    """The same id with another start, or in another boot, is another process."""
    mark = mark_of(os.getpid())
    assert mark is not None
    assert mark.alive
    assert not replace(mark, started=mark.started + 1).alive
    assert not replace(mark, boot="another").alive


def test_a_signal_never_reaches_another_process() -> None:
    """A stale mark with the id of this very test must not end it."""
    mark = mark_of(os.getpid())
    assert mark is not None
    replace(mark, started=mark.started + 1).send(signal.SIGKILL)


def test_a_process_that_ended_unreaped_is_not_alive() -> None:
    """In a container nobody may reap it."""
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        mark = mark_of(process.pid)
        assert mark is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not mark.alive


@pytest.mark.parametrize("tied", [True, False])
def test_a_child_ends_when_asked(tmp_path: Path, tied: bool) -> None:
    """It says that it ended by itself."""
    child = start(tmp_path, SLEEPER, tied=tied)
    assert child.alive
    assert child.end(patience_s=30)
    assert not child.alive
    assert not psutil.pid_exists(child.mark.pid) or not child.mark.alive


def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    """It says that it had to be."""
    child = start(tmp_path, STUBBORN)
    assert not child.end(patience_s=0.1)
    assert not child.alive


def test_an_untied_child_belongs_to_nobody(tmp_path: Path) -> None:
    """Its parent is not this program, so that it neither dies with it nor waits for it."""
    child = start(tmp_path, SLEEPER, tied=False)
    try:
        process = psutil.Process(child.mark.pid)
        assert process.ppid() != os.getpid()
        assert os.getsid(child.mark.pid) == child.mark.pid
        assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    finally:
        child.kill()


def test_a_tied_child_dies_with_the_program_that_started_it(tmp_path: Path) -> None:
    """Even when that program is killed and can clean up nothing."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from mustela_dev.broker.child import launch\n"
        "here = Path(sys.argv[1])\n"
        "child = launch(['/bin/sleep', '1000'], log=here / 'log', directory=here,\n"
        "               environment=dict(os.environ), tied=True)\n"
        "print(child.mark.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        mark = mark_of(pid)
        assert mark is not None
        assert mark.alive
        parent.kill()
        parent.wait()
        assert Child(mark=mark).wait(PATIENCE_S)
