"""Applications that are killed at phases of the epoch protocol and at random times."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.faults.campaign import Campaign, Result
from tests.faults.kinds.registry import KINDS
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
