"""The long run: ``./dev differential [--examples N] [--seed S] [--operators a,b]``.

Compares Mustela with Kafka Streams over every operator and every pair of stateful operators, in
chains of three, and goes back to the pairs that were not met until all are; prints what was
covered, and ends with 1 where a difference is not known.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from tests.differential.kafka_streams import KafkaStreams, missing_compiler
from tests.differential.planted.plant import bugs, plant
from tests.differential.planted.search import search


def _search(names: Collection[str], seed: int) -> int:
    found = 0
    for name, sought in search(names, seed):
        found += sought.found
        said = f"found by example {sought.examples + 1}"
        if not sought.found:
            said = f"MISSED in {sought.examples} examples {sought.told}"
        print(f"{', '.join(bugs()[name].operators)}: {name}: {said}", flush=True)
    print(f"{found} of {len(names)} planted bugs found")
    return 0 if found == len(names) else 1


def main(arguments: list[str]) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="./dev differential", description=__doc__)
    parser.add_argument("--examples", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operators", default="", help="one operator, or a,b,c: a chain")
    parser.add_argument("--part", default="1/1", help="2/8: the second of eight parts of the run")
    parser.add_argument("--minutes", type=float, help="stop drawing after so long, and report")
    parser.add_argument("--chain", type=int, default=3, help="operators of a topology, at most")
    parser.add_argument("--ledger", type=Path, help="leave out what it says was met; add to it")
    parser.add_argument("--plant", help="plant one of the known bugs first; see planted/bugs.toml")
    parser.add_argument("--bugs", help="look for planted bugs: a,b,c, or all")
    options = parser.parse_args(arguments)
    missing = missing_compiler()
    if missing:
        print(missing, file=sys.stderr)
        return 2
    if options.bugs:
        names = sorted(bugs()) if options.bugs == "all" else options.bugs.split(",")
        return _search(names, options.seed)
    if options.plant:
        plant(options.plant)
    # After the bug is planted.
    from tests.differential.campaign import Report, directed, each_of, noted, run, sought, until

    report = Report()
    if options.ledger and options.ledger.exists():
        report.load(options.ledger)
    met = {*report.pairs, *((name,) for name in report.operators)}
    found = directed(options.seed, met, options.part, options.chain)
    wanted: Iterable[tuple[str, ...]] = sought(
        report, found, options.seed, examples=options.examples, length=options.chain
    )
    each = each_of
    if options.operators:
        wanted, each = [tuple(options.operators.split(","))], lambda _chain: options.examples
    with tempfile.TemporaryDirectory() as scratch, KafkaStreams(Path(scratch)) as kafka_streams:
        chains = until(wanted, options.minutes)
        run(
            noted(report, chains, options.ledger),
            kafka_streams,
            start=options.seed,
            each=each,
            shrink=not options.plant,
            report=report,
        )
    for chain, text in report.differences.items():
        print(f"== {', '.join(chain)}: {text}\n")
    print(*report.lines(), sep="\n")
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
