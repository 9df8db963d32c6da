"""The long run: ``./dev faults [--kills N] [--seed S] [--kinds a,b] [--bugs N]``.

Kills applications at every phase of the epoch protocol and at random times, checks all that they
wrote, then plants known bugs and sees that they are found. One JSON line at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.broker_fixture import make_small_broker
from tests.faults.bugs import BUGS, environment_of
from tests.faults.campaign import Campaign, Result
from tests.faults.kinds.registry import CHECKED, KINDS
from tests.faults.process import ChildEndedError

DRIVER_POINTS = (
    "before-job",
    "transaction-begun",
    "half-produced",
    "flushed",
    "offsets-added",
    "commit-sent",
    "committed",
)
SOURCE_POINTS = ("in-source",)
LANE_POINTS = ("in-lane-before-pending", "in-lane-after-pending", "in-recovery")
RANDOM_SECONDS = 3.0
COUNT_MAX = 5
STATE_EPOCHS = 3
"""So many epochs leave something that can be lost and restored."""


def plan_kills(kind: str, kills: int, rng: random.Random) -> list[str]:
    """Return where to kill: each point once in a random order, then random times and points.

    With at_least_once the driver produces no rows, so it is never half-way through them. Without
    input there are no offsets.
    """
    guarantee, _, name = kind.rpartition(":")
    never = {"half-produced"} if guarantee else set[str]()
    facts = KINDS[name]
    if not facts.inputs:
        never.add("offsets-added")
    driver = [point for point in DRIVER_POINTS if point not in never]
    source = SOURCE_POINTS if facts.inputs else ()
    points = [*driver, *source, *(LANE_POINTS if facts.has_state else ())]
    rng.shuffle(points)
    result = points[:kills]
    while len(result) < kills:
        result.append("random" if len(result) % 2 else rng.choice(points))
    return [_counted(point, rng) for point in result]


def _counted(point: str, rng: random.Random) -> str:
    """Say when the point is deadly; the start passes those of the transaction once."""
    if point == "random":
        return point
    if point == "in-recovery":
        return "in-recovery:1"
    least = 1 if point in (*SOURCE_POINTS, *LANE_POINTS, "before-job") else 2
    return f"{point}:{rng.randrange(least, COUNT_MAX)}"


def run_kill(campaign: Campaign, point: str) -> None:
    """Kill once."""
    if point == "random":
        campaign.kill_after(1, campaign.random.random() * RANDOM_SECONDS)
        return
    if point.startswith("in-recovery"):
        if not campaign.has_state:
            campaign.kill_after(STATE_EPOCHS, 0.0)
        campaign.lose_state(0.7)
    campaign.kill_at(point)


def run_kind(
    kind: str, kills: int, seed: int, servers: str, directory: Path, records: int = 0
) -> Result:
    """Run one application under kills and say what came of it."""
    started = time.monotonic()
    guarantee, _, name = kind.rpartition(":")
    environment = {"MUSTELA__PROCESSING_GUARANTEE": guarantee} if guarantee else {}
    points = plan_kills(kind, kills, random.Random(f"{seed}-{kind}"))
    directory = directory / kind.replace(":", "-")
    campaign = Campaign(
        name, servers, directory, seed=seed, environment=environment, records=records
    )
    with campaign:
        try:
            for point in points:
                run_kill(campaign, point)
                print(
                    f"  {kind}: killed at {point}, {time.monotonic() - started:.0f} s", flush=True
                )
            result = campaign.finish()
        except ChildEndedError as error:
            result = campaign.result
            result.violations.append(str(error))
    for violation in result.violations:
        print(f"  VIOLATION {violation}", flush=True)
    print(
        f"{kind}: {result.kills} kills, {result.epochs} epochs, {result.records} records,"
        f" {result.rows} rows, {len(result.violations)} violations,"
        f" {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return result


def find_bug(name: str, seed: int, servers: str, directory: Path) -> list[str]:
    """Plant a bug; return the violations that show it."""
    bug = BUGS[name]
    place, environment = directory / f"bug-{name}", environment_of(name)
    with Campaign(bug.kind, servers, place, seed=seed, environment=environment) as campaign:
        # What the harness expects is what it should be; the bug is in the settings or the code.
        campaign.guarantee = "exactly_once"
        try:
            for point in bug.points:
                if point == "lose":
                    campaign.lose_state()
                else:
                    campaign.kill_at(point)
            if not bug.points:
                campaign.kill_after(3, 0.1)
            found = campaign.finish().violations
        except ChildEndedError as error:
            found = [*campaign.result.violations, str(error)]
    shown = found[0].splitlines()[0][:150] if found else "NOT FOUND"
    print(f"planted {name}: {shown}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Run; return 1 if something was violated or a planted bug was not found."""
    parser = argparse.ArgumentParser(prog="./dev faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=42, help="kills in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=0, help="records that wait at the start")
    parser.add_argument("--kinds", default=",".join(CHECKED), help="e.g. at_least_once:stateless")
    parser.add_argument("--bugs", type=int, default=4, help="how many bugs to plant")
    parser.add_argument("--bug", action="append", help="plant this one")
    given = parser.parse_args(arguments)
    kinds = [kind for kind in given.kinds.split(",") if kind]
    bugs = given.bug or random.Random(given.seed).sample(sorted(BUGS), min(given.bugs, len(BUGS)))
    results: dict[str, Result] = {}
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="mustela-faults-", ignore_cleanup_errors=True) as name,
        make_small_broker() as broker,
    ):
        place, servers = Path(name), broker.bootstrap_servers
        for number, kind in enumerate(kinds):
            share = given.kills // len(kinds) + (number < given.kills % len(kinds))
            results[kind] = run_kind(kind, share, given.seed, servers, place, given.records)
        missed = [bug for bug in bugs if not find_bug(bug, given.seed, servers, place)]
    summary = {
        "seed": given.seed,
        "kills": sum(result.kills for result in results.values()),
        "violations": sum(len(result.violations) for result in results.values()),
        "epochs": sum(result.epochs for result in results.values()),
        "records": sum(result.records for result in results.values()),
        "bugs_planted": len(bugs),
        "bugs_missed": missed,
        "seconds": round(time.monotonic() - started),
    }
    print(json.dumps(summary), flush=True)
    return 1 if summary["violations"] or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
