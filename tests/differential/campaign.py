"""Runs pairs of operators, some examples each, and counts what was covered."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.differential.compare import Difference, compare
from tests.differential.draw import OPERATORS, STATELESS, WITHOUT_ORDER, Example, examples
from tests.differential.kafka_streams import KafkaStreams, Refused

__all__ = ["Report", "pairs_from", "run", "until"]

Pair = tuple[str, ...]
_PAIRED = [name for name in OPERATORS if name not in WITHOUT_ORDER]
_ANY_HEALTH = (
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
)


@dataclass
class Report:
    """What a run covered and found.

    Attributes:
        examples: How many examples were compared and equal.
        operators: Examples by operator.
        pairs: Examples by pair of operators, one of which reads what the other gives.
        known: Examples that showed a known divergence, by its id.
        refused: Examples that Kafka Streams refused, by its reason.
        differences: What is unexplained, by pair.
    """

    examples: int = 0
    operators: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[Pair] = field(default_factory=Counter[Pair])
    known: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    differences: dict[Pair, str] = field(default_factory=dict[Pair, str])

    def count(self, example: Example, known: set[str]) -> None:
        """Count an example that ran on both sides."""
        self.examples += 1
        self.operators.update(example.operators)
        if len(example.operators) > 1:
            self.pairs[example.operators] += 1
        self.known.update(known)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        wanted = len(_PAIRED) ** 2
        every = OPERATORS.keys() | STATELESS.keys()
        yield f"{self.examples} examples, {len(self.differences)} unexplained differences"
        missing = sorted(every - self.operators.keys())
        yield f"operators: {len(self.operators)} of {len(every)}" + (
            f", without {', '.join(missing)}" if missing else ""
        )
        yield f"pairs of operators: {len(self.pairs)} of {wanted}"
        for name, count in sorted(self.operators.items()):
            yield f"  {name}: {count}"
        for name, count in sorted(self.known.items()):
            yield f"known divergence {name}: {count}"
        for reason, count in self.refused.most_common():
            yield f"refused by Kafka Streams: {reason}: {count}"


def pairs_from(start: int) -> list[Pair]:
    """Return every operator alone, then every pair, in an order that the seed decides."""
    rng = random.Random(start)
    alone: list[Pair] = [(name,) for name in (*OPERATORS, *STATELESS)]
    pairs: list[Pair] = list(itertools.product(_PAIRED, repeat=2))
    rng.shuffle(pairs)
    return alone + pairs


def until(pairs: Iterable[Pair], minutes: float | None) -> Iterator[Pair]:
    """Yield pairs as long as there is time; None for as long as it takes."""
    start = time.perf_counter()
    for pair in pairs:
        if minutes is not None and time.perf_counter() - start > 60 * minutes:
            return
        yield pair


def run(
    pairs: Iterable[Pair],
    kafka_streams: KafkaStreams,
    *,
    start: int,
    each: Callable[[Pair], int],
    shrink: bool = True,
) -> Report:
    """Compare examples of each pair, and stop at a pair's first unexplained difference.

    Args:
        pairs: Operators alone or in pairs.
        kafka_streams: The other side.
        start: The seed; the same one draws the same examples.
        each: How many examples a pair gets.
        shrink: Whether to look for the smallest example that differs.
    """
    report = Report()
    for pair in pairs:
        phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)

        @seed(start)
        @settings(
            max_examples=each(pair),
            deadline=None,
            database=None,
            derandomize=False,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=_ANY_HEALTH,
        )
        @given(example=examples(pair))
        def once(example: Example) -> None:
            try:
                report.count(example, compare(example, kafka_streams))
            except Refused as refusal:
                report.refused[str(refusal)] += 1

        try:
            once()
        except Difference as difference:
            report.differences[pair] = str(difference)
        except Exception as problem:  # noqa: BLE001 - that Mustela fails is a difference too
            notes = getattr(problem, "__notes__", [])
            told = [f"{type(problem).__name__}: {problem}", *notes]
            report.differences[pair] = "\n".join(told)
    return report
