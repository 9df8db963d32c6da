"""Runs chains of operators, some examples each, and counts what was covered."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.differential.compare import Compared, Difference, compare
from tests.differential.draw import OPERATORS, STATELESS, Example, examples
from tests.differential.kafka_streams import KafkaStreams, Refused
from tests.differential.pairs import CHAIN, Chain, alone, chains, composable, left_out

__all__ = ["ANY_HEALTH", "Report", "directed", "each_of", "noted", "run", "sought", "until"]

_COUNTED = ("operators", "pairs", "whole", "missed", "known", "refused")
_ALONE = 6
# The first example that Hypothesis draws is the smallest there is, and says nothing of a pair.
_TOGETHER = 2
_TRIES_MAX = 50
_PASSES_IN_CHAINS = 2
ANY_HEALTH = (
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
        pairs: Examples by pair of operators, one of which reads what the other gives, in which
            both gave rows, and the last step of the topology too, all of which were compared.
        whole: The same, where the comparison reached the last input.
        missed: Examples that do not count for a pair: the pair, and why they do not.
        known: Examples that showed a known divergence, by its id.
        refused: Examples that Kafka Streams refused, by its reason.
        differences: What is unexplained, by chain.
    """

    examples: int = 0
    operators: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[Chain] = field(default_factory=Counter[Chain])
    whole: Counter[Chain] = field(default_factory=Counter[Chain])
    missed: Counter[Chain] = field(default_factory=Counter[Chain])
    known: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    differences: dict[Chain, str] = field(default_factory=dict[Chain, str])

    @property
    def drawn(self) -> int:
        """How many examples there were, with those that Kafka Streams refused."""
        return self.examples + sum(self.refused.values())

    def count(self, example: Example, compared: Compared) -> None:
        """Count an example that ran on both sides."""
        self.examples += 1
        self.operators.update(example.operators)
        self.pairs.update(compared.met)
        if compared.whole:
            self.whole.update(compared.met)
        first = ", ".join(sorted(compared.known))
        why = "a step gave nothing" if compared.whole else f"{first} came first"
        self._miss(example, compared.met, why)
        self.known.update(compared.known)

    def refuse(self, example: Example, why: str) -> None:
        """Count an example that Kafka Streams refused."""
        self.refused[why] += 1
        self._miss(example, set(), "Kafka Streams refused it")

    def _miss(self, example: Example, met: set[Chain], why: str) -> None:
        self.missed.update((*pair, why) for pair in set(pairwise(example.operators)) - met)

    def save(self, path: Path) -> None:
        """Write what was covered, so that another run goes on from there."""
        counts = {name: list(getattr(self, name).items()) for name in _COUNTED}
        path.write_text(
            json.dumps({"examples": self.examples, **counts}, indent=0), encoding="utf-8"
        )

    def load(self, path: Path) -> None:
        """Add what another run covered."""
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.examples += read["examples"]
        for name in _COUNTED:
            counted: Counter[Any] = getattr(self, name)
            for key, count in read[name]:
                counted[tuple(key) if isinstance(key, list) else key] += count

    def unmet(self) -> list[Chain]:
        """Return the pairs that no example has met yet, though they can be composed."""
        return [pair for pair in composable() if pair not in self.pairs]

    def _why_unmet(self, pair: Chain) -> str:
        """Return what became of a pair's examples; nothing where there was none."""
        found = {why: count for (*two, why), count in self.missed.items() if tuple(two) == pair}
        return "; ".join(f"{why} ({found[why]})" for why in sorted(found))

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        every = OPERATORS.keys() | STATELESS.keys()
        yield f"{self.examples} examples, {len(self.differences)} unexplained differences"
        missing = sorted(every - self.operators.keys())
        yield f"operators: {len(self.operators)} of {len(every)}" + (
            f", without {', '.join(missing)}" if missing else ""
        )
        yield (
            f"pairs of stateful operators: {len(self.pairs)} of {len(composable())} possible, "
            f"{len(self.whole)} of them compared to the last record"
        )
        unmet = {pair: self._why_unmet(pair) for pair in self.unmet()}
        for pair, why in unmet.items():
            if why:
                yield f"  not met: {', '.join(pair)}: {why}"
        yield f"  not drawn: {sum(not why for why in unmet.values())} pairs"
        for reason, pairs in left_out().items():
            yield f"  left out: {len(pairs)} pairs: {reason}"
        for name, count in sorted(self.operators.items()):
            yield f"  {name}: {count}"
        for name, count in sorted(self.known.items()):
            yield f"known divergence {name}: {count}"
        for reason, count in self.refused.most_common():
            yield f"refused by Kafka Streams: {reason}: {count}"


def directed(
    start: int, met: Collection[Chain] = (), part: str = "1/1", length: int = CHAIN
) -> list[Chain]:
    """Return every operator alone, then chains that meet every pair once, as the seed decides.

    Args:
        start: The seed.
        met: What was met before, operators and pairs, is left out.
        part: ``2/8`` for the second of eight parts, which together are the whole.
        length: How many operators a chain has at most.
    """
    number, count = map(int, part.split("/"))
    pairs = composable()
    random.Random(start).shuffle(pairs)
    single = [one for one in alone()[number - 1 :: count] if one not in met]
    wanted = [pair for pair in pairs[number - 1 :: count] if pair not in met]
    return single + chains(wanted, start, length)


def until(found: Iterable[Chain], minutes: float | None) -> Iterator[Chain]:
    """Yield chains as long as there is time; None for as long as it takes."""
    start = time.perf_counter()
    for chain in found:
        if minutes is not None and time.perf_counter() - start > 60 * minutes:
            return
        yield chain


def noted(report: Report, found: Iterable[Chain], path: Path | None) -> Iterator[Chain]:
    """Yield chains, and write the report after each: a run that is ended loses little."""
    for chain in found:
        yield chain
        if path is not None:
            report.save(path)


def each_of(chain: Chain) -> int:
    """Return how many examples Hypothesis draws of a chain each time it comes."""
    return _ALONE if len(chain) == 1 else _TOGETHER


def sought(
    report: Report, found: Sequence[Chain], start: int, *, examples: int, length: int = CHAIN
) -> Iterator[Chain]:
    """Yield chains, then chains anew of the pairs that are not met yet; at last of all again.

    A pair is not met where one of its steps gave nothing, or where a divergence came first. The
    first passes are chains, then each pair comes by itself.

    Args:
        report: What it says is met is not drawn again before everything is.
        found: The operators and chains of the first pass.
        start: The seed.
        examples: How many examples are drawn, at least those of the first pass.
        length: How many operators a chain has at most.
    """
    wanted = sorted({pair for chain in found for pair in pairwise(chain)})
    tries: Counter[Chain] = Counter()
    chosen = list(found)
    number = 0
    while number == 0 or report.drawn < examples:
        number += 1
        for chain in chosen:
            if number > 1 and report.drawn >= examples:
                return
            tries.update(pairwise(chain))
            yield chain
        unmet = [pair for pair in wanted if pair not in report.pairs]
        unmet = [pair for pair in unmet if tries[pair] < _TRIES_MAX]
        alone = unmet and number >= _PASSES_IN_CHAINS
        chosen = chains(unmet or wanted or composable(), start + number, 2 if alone else length)


def run(
    found: Iterable[Chain],
    kafka_streams: KafkaStreams,
    *,
    start: int,
    each: Callable[[Chain], int],
    shrink: bool = True,
    report: Report | None = None,
) -> Report:
    """Compare examples of each chain, and stop at a chain's first unexplained difference.

    Args:
        found: Operators alone or in chains.
        kafka_streams: The other side.
        start: The seed; the same one draws the same examples.
        each: How many examples a chain gets.
        shrink: Whether to look for the smallest example that differs.
        report: What to add to.
    """
    report = report or Report()
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    runs: Counter[Chain] = Counter()
    for chain in found:
        runs[chain] += 1

        @seed(random.Random(f"{start} {chain} {runs[chain]}").getrandbits(64))
        @settings(
            max_examples=each(chain),
            deadline=None,
            database=None,
            derandomize=False,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=ANY_HEALTH,
        )
        @given(example=examples(chain))
        def once(example: Example) -> None:
            if len(example.inputs) < len(example.operators):
                return  # the smallest example, which Hypothesis draws first, says nothing of a pair
            try:
                report.count(example, compare(example, kafka_streams))
            except Refused as refusal:
                report.refuse(example, str(refusal))

        try:
            once()
        except Difference as difference:
            report.differences[chain] = str(difference)
        except Exception as problem:  # noqa: BLE001 - that Mustela fails is a difference too
            notes = getattr(problem, "__notes__", [])
            told = [f"{type(problem).__name__}: {problem}", *notes]
            report.differences[chain] = "\n".join(told)
    return report
