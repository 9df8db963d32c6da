"""Directories of JVMs: held while their process lives, deleted when it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mustela.spark import scratch
from mustela.spark.scratch import clear_scratch, give_back, take_scratch
from tests.patience import PATIENCE_S

_HOLD = """
import sys
from pathlib import Path
from mustela.spark.scratch import take_scratch
print(take_scratch(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a directory, in which it has written something."""
    command = [sys.executable, "-c", _HOLD, str(parent)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        (path / "blocks").mkdir()
        (path / "blocks" / "one").write_bytes(b"1")
        try:
            yield process, path
        finally:
            process.kill()


def test_a_directory_is_private_and_goes_with_its_process(tmp_path: Path) -> None:
    """At a clean end nothing is left."""
    with holder(tmp_path) as (process, path):
        assert path.parent == tmp_path
        assert path.stat().st_mode & 0o777 == 0o700
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    """And what one holds that lives is not."""
    with holder(tmp_path) as (killed, left), holder(tmp_path) as (_, held):
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE_S)
        assert (left / "blocks" / "one").exists()
        mine = take_scratch(tmp_path)
        assert set(tmp_path.iterdir()) == {held, mine}
        clear_scratch(tmp_path)
        assert set(tmp_path.iterdir()) == {held, mine}
        give_back(mine)
        assert set(tmp_path.iterdir()) == {held}


def test_a_fork_leaves_the_directory_of_its_parent_alone(tmp_path: Path) -> None:
    """It runs the same code when it ends."""
    mine = take_scratch(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            scratch._give_all_back()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    clear_scratch(tmp_path)
    assert mine.exists()
    give_back(mine)
    assert not mine.exists()


def test_only_what_was_made_here_is_deleted(tmp_path: Path) -> None:
    """A link might lead anywhere; a directory without its lock is half deleted."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "mustela-spark-link").symlink_to(elsewhere)
    (tmp_path / "mustela-spark-file").write_bytes(b"")
    half = tmp_path / "mustela-spark-half"
    half.mkdir()
    clear_scratch(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"elsewhere", "mustela-spark-link", "mustela-spark-file"}


def test_names_of_sockets_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark puts its sockets there, and a socket's path has 107 bytes at most."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / ("long" * 20)))
    assert scratch.parent_of_scratch() == Path("/tmp")
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/var/tmp")
    assert scratch.parent_of_scratch() == Path("/var/tmp")
    mine = take_scratch(tmp_path)
    name = len(f"/{mine.name}/.{'x' * 36}.sock")
    assert scratch._LONGEST + name <= 107
    give_back(mine)
