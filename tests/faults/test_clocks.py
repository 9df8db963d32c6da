"""What a false clock leaves alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.shocks.clocks import library, waits

WAIT_S = 1
PROGRAM = f"""
import ctypes, time

class Moment(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

c = ctypes.CDLL(None)
mutex, condition = (ctypes.create_string_buffer(128) for _ in range(2))
until = Moment()
c.mtx_init(mutex, 0)
c.cnd_init(condition)
c.timespec_get(ctypes.byref(until), 1)
until.seconds += {WAIT_S}
c.mtx_lock(mutex)
began = time.monotonic()
c.cnd_timedwait(condition, mutex, ctypes.byref(until))
print(time.monotonic() - began)
"""


@pytest.mark.skipif(library() is None, reason="libfaketime is not installed")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_wait_of_the_kafka_client_lasts_as_long_as_it_means_to(tmp_path: Path) -> None:
    """A clock that is behind must not end each wait before it begins: no real clock does."""
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{waits(tmp_path)}:{library()}",
        "FAKETIME": "-30",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 0.9 * WAIT_S
