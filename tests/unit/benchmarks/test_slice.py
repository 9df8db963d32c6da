"""A small slice of the benchmarks, end to end: Mustela on a real broker, output verified."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
def test_a_quick_word_count_is_verified_and_has_numbers() -> None:
    """The command of the documentation; it ends with 1 when the output is wrong."""
    words = [
        "run",
        "word_count",
        "--quick",
        "--peers",
        "mustela",
        "--guarantees",
        "eos",
        "--records",
        "5000",
        "--warm-up",
        "2000",
    ]
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "mustela/eos warm: " in answer.stderr
    document = json.loads(answer.stdout)
    assert document["workload"]["runs"] == 1
    row = document["peers"]["mustela"]["eos"]
    assert row["records"] == 5000
    assert row["records_per_s"]["median"] > 0
    assert row["peak_pss_mb"]["median"] > 0
