"""The lock between processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mustela_dev.broker.locks import LockTimeoutError, locked

HOLDER = """
import sys
from pathlib import Path
from mustela_dev.broker.locks import locked
with locked(Path(sys.argv[1]), lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


def never() -> None:
    raise AssertionError("nobody else holds the lock")


def test_a_free_lock_is_taken_at_once(tmp_path: Path) -> None:
    """And again after it was let go."""
    for _ in range(2):
        with locked(tmp_path / "lock", never):
            pass


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """The second one is told that it waits, and gives up at its limit."""
    told: list[str] = []
    with (
        locked(tmp_path / "lock", never),
        pytest.raises(LockTimeoutError) as caught,
        locked(tmp_path / "lock", lambda: told.append("waiting"), wait_s=0.3),
    ):
        pass
    assert told == ["waiting"]
    assert caught.value.retryable


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    """The next one gets the lock without anybody cleaning up."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with locked(tmp_path / "lock", holder.kill, wait_s=30):
            assert holder.wait() != 0
