"""Looks for planted bugs: each in a process of its own, all with one Kafka Streams."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.differential.kafka_streams import KafkaStreams
from tests.differential.planted.plant import bugs, plant

__all__ = ["EXAMPLES", "Sought", "search"]

EXAMPLES = 400
"""How many examples a bug's operators get."""


class Sought(NamedTuple):
    """What became of the search for a bug.

    Attributes:
        found: Whether a difference was found.
        examples: How many examples were equal, until then.
        told: The difference.
    """

    found: bool
    examples: int
    told: str


def search(names: Iterable[str], seed: int) -> Iterator[tuple[str, Sought]]:
    """Yield what became of the search for each bug.

    The library must not be loaded yet: a process that is forked loads it with the bug.
    """
    with tempfile.TemporaryDirectory() as scratch, KafkaStreams(Path(scratch)) as kafka_streams:
        for name in names:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.close(reading)
                    sought = _sought(name, seed, kafka_streams)
                    with os.fdopen(writing, "w") as answer:
                        json.dump(sought, answer)
                finally:
                    os._exit(0)  # what the parent has open is the parent's to close
            os.close(writing)
            with os.fdopen(reading) as answer:
                said = answer.read()
            os.waitpid(child, 0)
            yield name, Sought(*json.loads(said)) if said else Sought(False, 0, "no answer")


def _sought(name: str, seed: int, kafka_streams: KafkaStreams) -> Sought:
    plant(name)
    # After the bug is planted.
    from tests.differential.campaign import run

    chain = bugs()[name].operators
    report = run([chain], kafka_streams, start=seed, each=lambda _chain: EXAMPLES, shrink=False)
    told = report.differences.get(chain, "")
    return Sought(bool(told), report.examples, told)
