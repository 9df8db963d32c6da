"""Directories of brokers that keep nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mustela_dev.broker.child import mark_of
from mustela_dev.broker.scratch import is_served, new_scratch

HOLDER = """
import fcntl, sys
with open(sys.argv[1], "wb") as stream:
    fcntl.lockf(stream, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def left_by_a_dead_program(parent: Path) -> Path:
    """Name a directory for this process id with another start: that program is gone."""
    mine = mark_of(os.getpid())
    assert mine is not None
    place = parent / f"mustela-broker-{mine.pid}-{mine.started - 1}-abc"
    (place / "kafka").mkdir(parents=True)
    return place


def test_the_next_program_deletes_what_a_killed_one_left(tmp_path: Path) -> None:
    """But nothing of programs that live, and nothing with another name."""
    left = left_by_a_dead_program(tmp_path)
    mine = new_scratch(tmp_path)
    other = tmp_path / "mustela-broker-notes"
    other.mkdir()
    second = new_scratch(tmp_path)
    assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([mine, other, second])
    assert mine.stat().st_mode & 0o077 == 0


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Temporary directories are open to others."""
    real = tmp_path / "real"
    real.mkdir()
    left = left_by_a_dead_program(tmp_path)
    (left / "kafka").rmdir()
    left.rmdir()
    left.symlink_to(real)
    new_scratch(tmp_path)
    assert real.is_dir()


def test_data_that_a_kafka_serves_are_kept(tmp_path: Path) -> None:
    """Its program may live in another container, where ids mean other processes."""
    left = left_by_a_dead_program(tmp_path)
    lock = left / "kafka" / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert is_served(left)
        new_scratch(tmp_path)
        assert left.is_dir()
        holder.kill()
        holder.wait()
    assert not is_served(left)
    new_scratch(tmp_path)
    assert not left.exists()
