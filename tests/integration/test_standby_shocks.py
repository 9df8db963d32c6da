"""Three instances of an application, of which two wait, under shocks.

A slice of the long run: ``./dev faults --standbys N``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.standbys import Network, play

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.slow,
]


def test_one_of_three_instances_runs_whatever_befalls_the_others(tmp_path: Path) -> None:
    """Its way to the broker is cut and mended: one of two takes over, each record counts once."""
    shocks = ["cut-active"]
    with Network(tmp_path / "broker") as network:
        line = play("word_count", shocks, seed=16, network=network, directory=tmp_path / "app")

    assert not line.violations, "\n".join(line.violations)
    assert line.faults == dict.fromkeys(shocks, 1)
