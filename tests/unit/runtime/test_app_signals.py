"""SIGTERM and SIGINT: the first waits for the epoch, for a while; the second waits for nothing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, sys, threading
from mustela import App

number, times, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
gave_up = threading.Event()


class Life:
    def interrupt(self):
        gave_up.set()


def work(settings, plan):
    for _ in range(times):
        if way == "process":
            os.kill(os.getpid(), number)
        else:  # the main thread waits on and does not see it
            signal.pthread_kill(threading.get_ident(), number)
        assert app._standing.stopping.wait(300)
        while signal.getsignal(number) is not signal.SIG_DFL:
            pass
    assert gave_up.wait(300)
    app._end(None)


app = App("a", bootstrap_servers="x:1", shutdown={"grace": "10ms"})
app.topology(lambda builder: builder.stream("in").to("out"))
app._life = Life()
app._main = work
app.run()
print("ended")
"""


@pytest.mark.parametrize(
    ("number", "times", "way"),
    [
        (signal.SIGTERM, 1, "process"),
        (signal.SIGINT, 2, "thread"),
        *(
            pytest.param(*combination, marks=pytest.mark.slow)  # an interpreter each
            for combination in (
                (signal.SIGTERM, 1, "thread"),
                (signal.SIGTERM, 2, "process"),
                (signal.SIGTERM, 2, "thread"),
                (signal.SIGINT, 1, "process"),
                (signal.SIGINT, 1, "thread"),
                (signal.SIGINT, 2, "process"),
            )
        ),
    ],
)
def test_signals_stop_an_application(number: signal.Signals, times: int, way: str) -> None:
    """After the grace time the engine is told to give up; a second signal ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(int(number)), str(times), way],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    if times == 1:
        assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    else:
        assert (done.returncode, done.stdout) == (-number, ""), done.stderr
