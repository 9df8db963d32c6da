"""Plants one bug in this process and plays seeds until its guard finds it; prints a line of JSON.

``python -m tests.simulation.planted.hunt BUG FIRST LAST [OFF]``: started by `search`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tests.differential.planted.plant import plant
from tests.simulation.planted.known import LIST, Finding, planted

OTHERS_MAX = 12
"""So many seeds that another invariant finds first, and the guard is taken to find none."""
TRIED_MAX = 25
"""Shorter scripts that are tried: enough to be quick and to read, and to be found in a while."""


def main(name: str, start: int, last: int, off: str = "") -> int:
    """Look for a bug; return 0 if its guard, or with ``off`` any other invariant, finds it."""
    plant(name, LIST)
    from tests.simulation.draw import ALL, NOT_YET, draw, program_of
    from tests.simulation.invariants import NOT_HELD
    from tests.simulation.play import play
    from tests.simulation.shrink import shrink

    bug = planted()[name]
    kinds = bug.drawn(ALL - NOT_YET)
    without = NOT_HELD | ({off} if off else set())
    first: tuple[int, str] | None = None
    others = 0
    for seed in range(start, last + 1):
        if bug.program not in {None, program_of(seed)}:
            continue
        script = draw(seed, kinds=kinds)
        violations = play(script, off=without).violations
        if not violations:
            continue
        by = violations[0].invariant
        first = first or (seed, by)
        if off:
            print(json.dumps({"seeds": seed, "said": str(violations[0])}))
            return 0
        if by != bug.guard or (bug.alone and play(script, off=without | {by}).violations):
            others += 1
            if others < OTHERS_MAX:
                continue
            break
        short = shrink(script, by, alone=bug.alone, plays_max=TRIED_MAX)
        shown = play(short).violations[0]
        found = Finding.of(
            name,
            short,
            invariant=by,
            seeds=seed,
            said=shown.what.splitlines()[0][:200],
            first=first,
        )
        print(json.dumps(asdict(found)))
        return 0
    print(json.dumps({"first": first}))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
