"""An application of which two releases take turns: one reads a topic that the other does not."""

from __future__ import annotations

import os
import random
from collections import Counter

from mustela import StreamsBuilder
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.kind import Expected, Kind, Rows, Sent, number
from tests.faults.watch import Row

__all__ = ["KINDS", "RELEASE"]

RELEASE = "FAULTS_RELEASE"
"""The variable that chooses the release: ``without`` leaves the second topic out."""


def releases(builder: StreamsBuilder, prefix: str) -> None:
    """Count by key what comes from one topic, or from two."""
    topics = [f"{prefix}.in", f"{prefix}.more"]
    if os.environ.get(RELEASE) == "without":
        topics = topics[:1]
    counts = builder.stream(topics, key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream(name="told").to(f"{prefix}.out", key=str, value=int)


def for_one_of_two(rng: random.Random, number: int) -> Sent:
    """Make a record for one of the topics."""
    return Sent(f"k{rng.randrange(40)}", f"v{number}", topic=rng.choice(("in", "more")))


class KeyCounts:
    """Counts of keys; one change for each key and epoch."""

    def __init__(self) -> None:
        self._counts: Counter[bytes | None] = Counter()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        """Count an epoch's records."""
        del actual, record
        keys = {row.key for row in rows}
        self._counts.update(row.key for row in rows)
        return {"out": Counter((key, number(self._counts[key])) for key in keys)}


KINDS: dict[str, Kind] = {
    "releases": Kind(build=releases, make=for_one_of_two, model=KeyCounts, inputs=("in", "more")),
}
