"""The hot modules compiled, from this tree: what the other tests say of Python holds for them too.

This needs what ``./dev compile`` makes. Without it, plain Python is all that runs. Any other test
runs in the compiled form with ``MUSTELA_COMPILED=1 ./dev test``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hatch_build
from mustela.compiled import SWITCH, form, manifest_file

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SLICE = (
    "tests/unit/kernel/test_forms.py",
    "tests/unit/kernel/test_aggregate.py",
    "tests/unit/state/test_overlay.py",
    "tests/unit/operators/test_foreign_key.py",
    "tests/unit/operators/test_stream_join.py",
    "tests/unit/operators/test_stream_table_join.py",
)


@pytest.fixture(scope="module")
def made() -> Path:
    """The compiled modules of the tree."""
    place = ROOT / "src" / hatch_build.PLACE
    if not hatch_build.is_fresh(place):
        pytest.skip("no compiled modules of these sources: ./dev compile makes them")
    return place


def test_what_holds_for_python_holds_for_compiled_modules(made: Path) -> None:
    """Models, tracebacks and errors of the operators and stores that are compiled."""
    options = ["-q", "-n", "0", "--hypothesis-profile=quick", "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", *SLICE]
    environment = {**os.environ, SWITCH: str(made)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_a_wheel_of_this_platform_has_the_compiled_modules(made: Path, tmp_path: Path) -> None:
    """Its name says for which Python it is; the other wheel fits all."""
    environment = {**os.environ, "HATCH_BUILD_HOOKS_ENABLE": "true", SWITCH: str(made)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"cp{sys.version_info[0]}{sys.version_info[1]}" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    compiled = tmp_path / "installed" / "mustela" / "_compiled"
    assert f"mustela/_compiled/{manifest_file(made).name}" in names
    told = (
        "import mustela.compiled, mustela.state.overlay as one; print(mustela.compiled.form(), one)"
    )
    for switch, starts in (("", "Form(compiled=True"), ("0", "Form(compiled=False")):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), SWITCH: switch}
        run = subprocess.run(
            [sys.executable, "-c", told],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.startswith(starts), run.stdout
        assert (str(compiled) in run.stdout) is (switch == "")


def test_this_process_does_not_run_what_is_not_fresh() -> None:
    """A changed source is what runs, at once."""
    fresh = hatch_build.is_fresh(ROOT / "src" / hatch_build.PLACE)
    assert form().compiled <= fresh or os.environ.get(SWITCH, "") not in ("", "0", "1")
