"""What Linux says of processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from mustela.processes import boot_id, queued_seconds, read_process
from tests.patience import PATIENCE_S


def test_a_name_with_blanks_and_brackets_moves_no_field(tmp_path: Path) -> None:
    """A program may be called anything; its parent is still its parent."""
    program = tmp_path / "a) S 1 (b"
    program.symlink_to(str(shutil.which("cat")))
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"there\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"there\n"
        stat = read_process(child.pid)
        assert stat is not None
        assert (stat.name, stat.parent) == ("a) S 1 (b", os.getpid())
        assert stat.resident_pages > 0
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended = read_process(child.pid)
        assert ended is not None
        assert (ended.state, ended.started) == ("Z", stat.started)
        child.wait(PATIENCE_S)
    assert read_process(child.pid) is None


def test_the_boot_has_a_name(tmp_path: Path) -> None:
    """Linux names each boot; elsewhere the name is empty."""
    assert len(boot_id()) == 36
    assert boot_id(tmp_path / "absent") == ""


def test_time_without_a_core_is_what_the_kernel_says(tmp_path: Path) -> None:
    """Where it does not say so, none is known."""
    told = tmp_path / "schedstat"
    told.write_bytes(b"404019 2500000000 2\n")
    assert queued_seconds(told) == 2.5
    told.write_bytes(b"")
    assert queued_seconds(told) == 0.0
    assert queued_seconds(tmp_path / "none") == 0.0
