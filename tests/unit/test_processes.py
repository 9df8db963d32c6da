"""What Linux says of processes."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


_ALLOCATE = """
import ctypes, sys, threading
from mustela.processes import share_arenas

share_arenas()
c = ctypes.CDLL(None)
c.malloc.restype = c.fopen.restype = ctypes.c_void_p
together = threading.Barrier(9)

def allocate():
    c.malloc(100)
    together.wait()

for _ in range(8):
    threading.Thread(target=allocate).start()
together.wait()
out = ctypes.c_void_p(c.fopen(sys.argv[1].encode(), b"w"))
c.malloc_info(0, out)
c.fclose(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no arenas")
@pytest.mark.parametrize(("asked", "expected"), [("", 2), ("5", 5)])
def test_threads_share_two_arenas_unless_told_otherwise(
    asked: str, expected: int, tmp_path: Path
) -> None:
    """As many as the user says, where he does."""
    told = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    told |= {"MALLOC_ARENA_MAX": asked} if asked else {}
    program = [sys.executable, "-c", _ALLOCATE, str(tmp_path / "told")]
    subprocess.run(program, env=told, check=True, timeout=PATIENCE_S)
    assert (tmp_path / "told").read_text().count("<heap nr=") == expected
