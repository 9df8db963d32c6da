"""A stream join that lost its local state has it again from its changelogs."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import JoinWindows, StreamsBuilder
from mustela_dev import DevelopmentBroker
from tests.faults.inside import Inside

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

KEYS = [f"k{number}" for number in range(200)]
START_MS = 1_700_000_000_000


def pairs(builder: StreamsBuilder, prefix: str) -> None:
    """Join what begins with l with what begins with r."""
    both = builder.stream(f"{prefix}.in", key=str, value=str)
    left = both.filter(lambda _key, value: value.startswith("l"), name="lefts")
    right = both.filter(lambda _key, value: value.startswith("r"), name="rights")
    windows = JoinWindows.of_time_difference(timedelta(minutes=10), grace=timedelta(0))
    joined = left.join(right, lambda one, other: f"{one}+{other}", windows=windows, store="kept")
    joined.to(f"{prefix}.out", key=str, value=str)


def test_what_waits_for_its_partner_comes_back_from_the_changelog(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Each pair is found once, and what is read are a few records for all rows of a segment."""
    inside = Inside(broker.bootstrap_servers, spark_context, tmp_path, "pairs")
    try:
        inside.build(pairs)
        inside.send(((key, "l") for key in KEYS), timestamp=START_MS)
        inside.run()
        shutil.rmtree(inside.state_dir)
        inside.send(((key, "r") for key in KEYS), timestamp=START_MS + 60_000)
        heard = inside.run()
        assert 0 < heard.restored() < len(KEYS) / 2
        shutil.rmtree(inside.state_dir)
        inside.send([(KEYS[0], "l2")], timestamp=START_MS + 120_000)
        inside.run()
        rows = sorted(
            (row.key or b"").decode() + "=" + (row.value or b"").decode() for row in inside.rows()
        )
        assert rows == sorted([*(f"{key}=l+r" for key in KEYS), f"{KEYS[0]}=l2+r"])
    finally:
        inside.close()
