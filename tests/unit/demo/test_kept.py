"""Ending a demonstration that stays up: its application, its files, and nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mustela_dev.broker.child import ProcessMark, mark_of
from mustela_dev.demo.kept import FILE_NAME, NotKeptError, stop_kept, write_kept
from tests.patience import PATIENCE_S


def test_the_application_is_ended_and_the_files_go(tmp_path: Path) -> None:
    """It is asked to stop, as Ctrl-C would ask it, and waited for."""
    scratch = tmp_path / "mustela-demo-x"
    (scratch / "state").mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as app:
        mark = mark_of(app.pid)
        assert mark is not None
        write_kept(scratch, mark)
        stop_kept(scratch)
        assert app.wait(PATIENCE_S) == -15
    assert not scratch.exists()


def test_another_process_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    """This one has the id that is written down, and started at another time."""
    scratch = tmp_path / "mustela-demo-x"
    scratch.mkdir()
    write_kept(scratch, ProcessMark(pid=os.getpid(), started=1, boot="another"))
    stop_kept(scratch)
    assert not scratch.exists()


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"pid": 1}', "no json"])
def test_any_other_directory_stays(tmp_path: Path, text: str | None) -> None:
    """Without a record that can be read nothing is deleted."""
    if text is not None:
        (tmp_path / FILE_NAME).write_text(text)
    (tmp_path / "precious").touch()
    with pytest.raises(NotKeptError):
        stop_kept(tmp_path)
    assert (tmp_path / "precious").exists()
