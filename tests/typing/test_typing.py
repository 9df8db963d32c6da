"""Type checkers see what users mean: right calls pass, wrong calls are refused.

``./dev check`` looks at the types of the library alone; those of the tests are looked at here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def pyright(*places: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", *map(str, places)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] >= len(places)
    return [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']}"
        for d in report["generalDiagnostics"]
        if d["severity"] == "error"
    ]


@pytest.mark.slow
def test_tests_use_what_they_test_as_its_types_say() -> None:
    """All of them, as the settings of the project have it."""
    found = pyright(ROOT / "tests")
    assert not found, "\n".join(found)


def test_right_calls_pass_and_wrong_calls_are_refused() -> None:
    """Strictly, with each comment that expects an error being needed."""
    found = pyright(HERE / "right_calls.py", HERE / "wrong_calls.py")
    assert not found, "\n".join(found)


def test_mypy_infers_the_same() -> None:
    """The right calls pass mypy's strict mode too."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", str(HERE / "right_calls.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
