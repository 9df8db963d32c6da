"""Kafka Streams' own test driver and Mustela's write the same, whatever the topology."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.differential.campaign import Report, pairs_from, run
from tests.differential.draw import OPERATORS, STATELESS
from tests.differential.kafka_streams import KafkaStreams, missing_compiler

SEED = int(os.environ.get("MUSTELA_DIFFERENTIAL_SEED", "1"))
# A slice: the long run is `./dev differential`.
PAIRS_MAX = 70
# The first example that Hypothesis draws is the smallest there is, so one says nothing.
ALONE = 12
TOGETHER = 5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "there is one"),
]


@pytest.fixture(scope="module")
def kafka_streams(tmp_path_factory: pytest.TempPathFactory) -> Generator[KafkaStreams]:
    """Kafka Streams in a process of its own."""
    with KafkaStreams(tmp_path_factory.mktemp("kafka-streams")) as running:
        yield running


@pytest.fixture(scope="module")
def report(kafka_streams: KafkaStreams) -> Report:
    """Each operator alone, and a slice of the pairs."""
    pairs = pairs_from(SEED)[: len(OPERATORS) + len(STATELESS) + PAIRS_MAX]
    return run(
        pairs, kafka_streams, start=SEED, each=lambda pair: ALONE if len(pair) == 1 else TOGETHER
    )


def test_both_sides_write_the_same(report: Report) -> None:
    """But for the divergences that are known, which have ids and reasons."""
    print(*report.lines(), sep="\n")
    assert not report.differences, "\n\n".join(
        f"{', '.join(pair)}: {text}" for pair, text in report.differences.items()
    )


def test_the_slice_covers_every_operator(report: Report) -> None:
    """And Kafka Streams refuses almost nothing of what is drawn."""
    assert report.operators.keys() == OPERATORS.keys() | STATELESS.keys()
    assert sum(report.refused.values()) * 20 <= report.examples
