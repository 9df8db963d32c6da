"""What shocks write into an application's source."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.kinds.moments import BEHIND_MAX_MS
from tests.faults.kinds.registry import CHECKED, KINDS
from tests.faults.shocks import sources

TIMED = [
    name
    for name in CHECKED
    if KINDS[name].inputs and KINDS[name].make(random.Random(1), 1).timestamp is not None
]
MADE = 500


@pytest.mark.parametrize("kind", TIMED)
def test_records_of_others_have_the_times_of_those_around_them(kind: str) -> None:
    """Else time jumps a day ahead, and from there on every record is late."""
    sent: list[int] = []
    producer: Any = SimpleNamespace(
        produce=lambda *_, timestamp, **__: sent.append(timestamp), flush=lambda _: 0
    )
    campaign = SimpleNamespace(
        more_records=0, facts=KINDS[kind], prefix="p", feeder=SimpleNamespace(made=MADE)
    )
    life: Any = SimpleNamespace(campaign=campaign, random=random.Random(7))
    sources._produce(life, producer, 20)
    times = [KINDS[kind].make(random.Random(n), MADE).timestamp or 0 for n in range(50)]
    assert len(sent) == 20
    assert max(times) <= min(sent)
    assert max(sent) <= max(times) + BEHIND_MAX_MS
