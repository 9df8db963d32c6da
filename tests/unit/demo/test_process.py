"""The application's process: its environment, and the end of its whole tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mustela_dev.demo.process import MARK, AppProcess, child_environment, kill_tree
from tests.patience import PATIENCE_S

FAMILY = """
import subprocess, sys, time
depth = int(sys.argv[1])
if depth:
    child = subprocess.Popen([sys.executable, "-c", open(sys.argv[2]).read(),
                              str(depth - 1), sys.argv[2]], stdout=subprocess.PIPE)
    child.stdout.readline()
print("up", flush=True)
time.sleep(600)
"""


def test_settings_that_lead_elsewhere_are_left_out(tmp_path: Path) -> None:
    """The user's broker, topics and security are not the demonstration's; the rest is kept."""
    base = {
        "PATH": "/bin",
        "MUSTELA__BOOTSTRAP_SERVERS": "elsewhere:9092",
        "MUSTELA__KAFKA__SASL_PASSWORD": "secret",
        "MUSTELA__STATE_DIR": "/data",
        "MUSTELA_CONFIG_FILE": "/etc/mustela.yaml",
        "MUSTELA_FAULT_POINT": "flushed",
        "MUSTELA__SPARK__DRIVER_MEMORY": "1g",
    }
    made = child_environment(base, tmp_path, {"EXTRA": "1"})
    assert made == {
        "PATH": "/bin",
        "MUSTELA__SPARK__DRIVER_MEMORY": "1g",
        "TMPDIR": str(tmp_path / "tmp"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "tmp"),
        MARK: str(tmp_path),
        "EXTRA": "1",
    }
    assert (tmp_path / "tmp").is_dir()


@pytest.mark.slow
def test_a_whole_tree_is_killed(tmp_path: Path) -> None:
    """Children and grandchildren die with the process, and nothing else does."""
    script = tmp_path / "family.py"
    script.write_text(FAMILY)
    command = [sys.executable, "-c", FAMILY, "2", str(script)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as root,
        subprocess.Popen([*command[:3], "0", str(script)], stdout=subprocess.PIPE) as other,
    ):
        assert root.stdout is not None
        assert other.stdout is not None
        assert root.stdout.readline() == b"up\n"
        assert other.stdout.readline() == b"up\n"
        family = psutil.Process(root.pid).children(recursive=True)
        assert len(family) == 2
        assert kill_tree(root.pid) == 3
        assert root.wait(PATIENCE_S) == -9
        _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
        assert alive == []
        assert other.poll() is None
        other.kill()


def test_a_tree_that_is_gone_is_no_error() -> None:
    """A process may end by itself before it is killed."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait(PATIENCE_S)
    assert kill_tree(child.pid) == 0


def test_an_application_that_was_never_started(tmp_path: Path) -> None:
    """Nothing to kill, nothing to stop, nothing said."""
    app = AppProcess("m:app", tmp_path, tmp_path, tied=True)
    assert (app.alive, app.kill(), app.stop(), app.log_tail()) == (False, 0, None, "")
