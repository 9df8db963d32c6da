"""Type checkers see what users mean: right calls pass, wrong calls are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def pyright(*files: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", *(str(HERE / name) for name in files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    return [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']}"
        for d in report["generalDiagnostics"]
    ]


def test_right_calls_pass_and_wrong_calls_are_refused() -> None:
    """Strictly, with each comment that expects an error being needed."""
    found = pyright("right_calls.py", "wrong_calls.py")
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
