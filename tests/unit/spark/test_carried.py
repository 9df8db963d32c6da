"""The wheel that brings Mustela to executors, and which Mustela runs there."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from mustela.spark.carried import carried_properties, write_wheel

ASK = """
import sys
from pathlib import Path
import mustela_executor as started
wheel = Path(started.__file__).absolute().parent
sys.path[:] = started.choose(list(sys.path), wheel)
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
try:
    told = version("mustela")
except PackageNotFoundError:
    told = "unknown"
print(Path(find_spec("mustela").origin).parent.parent, told)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheel"))


def chosen(wheel: Path, *places: Path) -> tuple[Path, str]:
    """Return where an executor takes Mustela from, and in which version, with these on its path."""
    path = os.pathsep.join([f"./{wheel.name}", *map(str, places)])
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK],
        cwd=wheel.parent,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    place, told = done.stdout.split()
    return Path(place), told


def installed(place: Path, told: str | None) -> Path:
    """Install a Mustela of some version in a directory."""
    (place / "mustela").mkdir(parents=True)
    (place / "mustela/__init__.py").write_text("", encoding="utf-8")
    if told is not None:
        metadata = place / f"mustela-{told}.dist-info/METADATA"
        metadata.parent.mkdir()
        text = f"Metadata-Version: 2.1\nName: mustela\nVersion: {told}\n"
        metadata.write_text(text, encoding="utf-8")
    return place


def test_what_is_not_installed_comes_from_the_wheel(wheel: Path) -> None:
    assert chosen(wheel) == (wheel, version("mustela"))


def test_another_version_gives_way_to_the_wheel(wheel: Path, tmp_path: Path) -> None:
    assert chosen(wheel, installed(tmp_path, "0.0.1")) == (wheel, version("mustela"))


def test_the_drivers_version_is_used_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    """It may be compiled, which the wheel is not."""
    there = installed(tmp_path, version("mustela"))
    assert chosen(wheel, there) == (there, version("mustela"))


def test_sources_of_no_version_are_used(wheel: Path, tmp_path: Path) -> None:
    """Nobody can say whether they differ; somebody put them there."""
    assert chosen(wheel, installed(tmp_path, None)) == (tmp_path, "unknown")


def test_a_wheel_has_sources_and_nothing_of_this_machine(wheel: Path) -> None:
    """Neither templates of projects nor what was compiled."""
    with ZipFile(wheel) as opened:
        names = opened.namelist()
    assert "mustela/spark/worker.py" in names
    assert "mustela_executor.py" in names
    assert not [name for name in names if "deploy/" in name or "_compiled" in name]
    assert not [name for name in names if not name.endswith((".py", "METADATA"))]


def test_the_users_path_comes_after_the_wheel(wheel: Path) -> None:
    properties = carried_properties({"spark.executorEnv.PYTHONPATH": "/opt/shop"}, wheel)
    assert properties["spark.executorEnv.PYTHONPATH"] == f"./{wheel.name}:/opt/shop"
