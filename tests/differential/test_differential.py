"""Kafka Streams' own test driver and Mustela's write the same, whatever the topology."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from itertools import pairwise

import pytest

from tests.differential.campaign import Report, directed, run
from tests.differential.draw import OPERATORS, STATELESS
from tests.differential.kafka_streams import KafkaStreams, missing_compiler
from tests.differential.pairs import composable, left_out

SEED = int(os.environ.get("MUSTELA_DIFFERENTIAL_SEED", "1"))
# A slice: the long run is `./dev differential`.
CHAINS_MAX = 20
# The first example that Hypothesis draws is the smallest there is, so one says nothing.
ALONE = 8
TOGETHER = 5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "there is one"),
]


@pytest.fixture(scope="module")
def kafka_streams(tmp_path_factory: pytest.TempPathFactory) -> Generator[KafkaStreams]:
    """Kafka Streams in a process of its own."""
    with KafkaStreams(tmp_path_factory.mktemp("kafka-streams")) as running:
        yield running


@pytest.fixture(scope="module")
def report(kafka_streams: KafkaStreams) -> Report:
    """Each operator alone, and a slice of the chains that meet every pair."""
    found = directed(SEED)[: len(OPERATORS) + len(STATELESS) + CHAINS_MAX]
    return run(
        found, kafka_streams, start=SEED, each=lambda chain: ALONE if len(chain) == 1 else TOGETHER
    )


def test_both_sides_write_the_same(report: Report) -> None:
    """But for the divergences that are known, which have ids and reasons."""
    print(*report.lines(), sep="\n")
    assert not report.differences, "\n\n".join(
        f"{', '.join(chain)}: {text}" for chain, text in report.differences.items()
    )


def test_the_slice_covers_every_operator(report: Report) -> None:
    """And Kafka Streams refuses almost nothing of what is drawn."""
    assert report.operators.keys() == OPERATORS.keys() | STATELESS.keys()
    assert sum(report.refused.values()) * 20 <= report.examples


def test_chains_meet_every_pair_once() -> None:
    """Whatever the seed."""
    for start in range(5):
        met = Counter(pair for chain in directed(start) for pair in pairwise(chain))
        assert met == Counter(composable())
    left = [pair for pairs in left_out().values() for pair in pairs]
    assert len(left) + len(composable()) == len(OPERATORS) ** 2
