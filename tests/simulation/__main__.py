"""``./dev sim``: plays seeds.

./dev sim                              100 seeds
./dev sim --seed N                     one seed; what failed is made short and told step by step
./dev sim --seeds N [--start S]        N seeds
./dev sim --seeds N --what             N seeds, and what happened in them how often
./dev sim --seeds N --ledger FILE      go on where the file ends, up to seed N, and add to it
./dev sim --with truncate,recreate     play kinds of faults, too, that are not drawn by default;
                                       beside: instances start beside a living one at any moment;
                                       writers: lanes write changelogs, and die or are slow
./dev sim --bugs all                   plant each bug, and say how many seeds find it; names, too
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.campaign import Choice


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    options = _parse(arguments)
    if options.bugs:
        from tests.simulation.planted.known import planted
        from tests.simulation.planted.search import search_all

        _check("bug", options.bugs, {"all", *planted()})
        return search_all(options.bugs, options.seeds or 10_000)
    from tests.simulation.draw import ALL, ASKED, NOT_YET
    from tests.simulation.programs import PROGRAMS

    _check("kind", options.kinds, ALL | ASKED.keys())
    _check("kind", options.more, ALL | ASKED.keys())
    _check("program", options.program, PROGRAMS)

    kinds = (ALL - NOT_YET) | _kinds(options.more)
    if options.kinds is not None:
        kinds = _kinds(options.kinds)
    if options.seed is not None:
        return _one(options.seed, kinds, options.trace)
    from tests.simulation.campaign import Choice

    choice = Choice(kinds=kinds, program=options.program)
    failed = _several(options, choice)
    if failed:
        _one(failed[0], kinds, trace=False)
    return 1 if failed else 0


def _check(what: str, names: str | None, known: Collection[str]) -> None:
    """End the command where a name is not known."""
    unknown = set(filter(None, (names or "").split(","))) - set(known)
    if unknown:
        print(f"no {what} is called {', '.join(sorted(unknown))}; there are:", file=sys.stderr)
        print(", ".join(sorted(known)), file=sys.stderr)
        sys.exit(2)


def _kinds(named: str) -> frozenset[str]:
    return frozenset(filter(None, named.split(",")))


def _several(options: argparse.Namespace, choice: Choice) -> list[int]:
    from tests.simulation.campaign import campaign, continue_at

    ledger = Path(options.ledger) if options.ledger else None
    start, count = options.start or 1, options.seeds or 100
    if ledger and not options.start:
        start = continue_at(ledger, choice)
        count = max(0, count + 1 - start)
    failed = campaign(start, count, choice, ledger)
    if options.what:
        print(choice.what.table())
    return failed


def _one(seed: int, kinds: frozenset[str], trace: bool) -> int:
    from tests.simulation.draw import draw
    from tests.simulation.play import play
    from tests.simulation.shrink import shrink

    script = draw(seed, kinds=kinds)
    result = play(script)
    if not result.violations:
        if trace:
            print("\n".join(result.trace))
        print(f"seed {seed}: {script.program}, {len(script.events)} events: all invariants hold")
        return 0
    short = shrink(script, result.violations[0].invariant)
    result = play(short)
    print("\n".join(result.trace))
    print(f"{script.program} {dict(script.options)}")
    print(f"{len(short.events)} of {len(script.events)} events are left")
    for violation in result.violations:
        print(f"violated: {violation}")
    print(f"./dev sim --seed {seed}")
    return 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev sim", description="Seeded simulation.")
    parser.add_argument("--seed", type=int, help="play one seed")
    parser.add_argument("--seeds", type=int, help="how many seeds to play")
    parser.add_argument("--start", type=int, help="the first one")
    parser.add_argument("--ledger", help="a file to go on from and to add to")
    parser.add_argument("--program", help="only this program")
    parser.add_argument("--what", action="store_true", help="say what happened how often")
    parser.add_argument("--kinds", help="kinds of faults, with commas between them")
    parser.add_argument("--with", dest="more", default="", help="kinds besides the default ones")
    parser.add_argument("--trace", action="store_true", help="tell what happened")
    parser.add_argument("--bugs", help="names of bugs, or all: one process for each")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a run
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)
    sys.exit(main(sys.argv[1:]))
