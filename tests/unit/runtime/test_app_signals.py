"""SIGTERM and SIGINT: the first waits for the epoch, for a while; the second waits for nothing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading
from mustela import App

number, times = int(sys.argv[1]), int(sys.argv[2])
gave_up = threading.Event()


class Engine:
    def interrupt(self):
        gave_up.set()


app = App("a", bootstrap_servers="x:1", shutdown={"grace": "10ms"})
app._engine = Engine()
with app._signals():
    for _ in range(times):
        os.kill(os.getpid(), number)
    assert app._stopping.is_set()
    assert gave_up.wait(30)
print("ended")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("times", [1, 2])
def test_signals_stop_an_application(number: signal.Signals, times: int) -> None:
    """After the grace time the engine is told to give up; a second signal ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(int(number)), str(times)],
        capture_output=True,
        text=True,
        check=False,
    )
    if times == 1:
        assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    else:
        assert (done.returncode, done.stdout) == (-number, ""), done.stderr
