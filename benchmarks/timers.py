"""What timers cost: ``python -m benchmarks.timers [--json]``.

The lane stage of a processor over LMDB, without Spark and without a broker. First what timers cost
that are not due: the same epochs over stores without timers and over stores with a million of them,
in turn, and the ratio of the two, which must not be above ``--ratio``; the best of several runs
counts. An epoch here is the lane's part alone: in Spark it takes a hundred milliseconds more. Then
how many timers a core registers and fires in a second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mustela import Record, StreamsBuilder
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.stage import StageRunner
from mustela.plan.batch import Batch, Origins
from mustela.plan.keygroups import key_groups_of
from mustela.plan.plan import Plan, Stage
from mustela.plan.time import EpochTime
from mustela.planner.planner import plan
from mustela.processors import ContextualProcessor, Timer
from mustela.state.interfaces import Committed, EnvironmentSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions
from mustela.state.overlay import Overlay

GROUPS = 32
FAR_MS = 10**12
RECORDS = 1_000
FILL = 50_000


class Waiting(ContextualProcessor[str, int, str, int]):
    """Sets a timer for the time that a record names; for 0 it does nothing."""

    def process(self, record: Record[str, int]) -> None:
        if record.value:
            self.context.register_event_time_timer(record.value)

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.forward(timer.with_value(1))


def waiting_plan() -> Plan:
    """Return the plan of the one step."""
    builder = StreamsBuilder()
    waiting = builder.stream("in", key=str, value=int).process(Waiting, name="wait")
    waiting.to("out", key=str, value=int)
    return plan(builder.build())


class Lane:
    """A lane of its own stores.

    Args:
        directory: Where they are.
    """

    def __init__(self, directory: Path) -> None:
        physical = waiting_plan()
        self.topics = physical.topics
        self.stage: Stage = physical.stages[1]
        options = LmdbOptions(map_bytes=1 << 32)
        self._environments = [
            LmdbEnvironment(
                directory,
                EnvironmentSpec(
                    application_id="bench",
                    stage="s",
                    group=group,
                    groups=GROUPS,
                    stores=self.stage.stores,
                ),
                boot="b",
                options=options,
            )
            for group in range(GROUPS)
        ]
        self._state = [Committed() for _ in range(GROUPS)]
        self._epoch = 0

    def run(self, batch: Batch, watermark: int, *, commit: bool = False) -> int:
        """Run an epoch; return how many rows left it. What it writes stays if it commits."""
        overlays = {
            group: Overlay(environment.snapshot(self._state[group]))
            for group, environment in enumerate(self._environments)
        }
        state = LaneState(overlays, key_groups=GROUPS)
        runner = StageRunner(
            self.stage,
            topics=self.topics,
            options=KernelOptions(key_groups=GROUPS),
            state=state,
            time=EpochTime(before=0, watermark=watermark, now_ms=1),
        )
        if len(batch):
            runner.run({self.stage.inputs[0]: batch})
        runner.finish()
        runner.due_times(range(GROUPS))
        changes = state.changes()
        state.close()
        if commit:
            self._commit(changes)
        return sum(len(rows) for rows in runner.take_output().rows)

    def _commit(self, changes: dict[int, Any]) -> None:
        self._epoch += 1
        token = Token(1, self._epoch, 0)
        for group, rows in changes.items():
            environment = self._environments[group]
            environment.write_pending(token, self._state[group], rows)
            self._state[group] = Committed(token=token)
            environment.fold(self._state[group])


def records(first: int, count: int, at: Callable[[int], int]) -> Batch:
    """Return records of keys of their own, each with the time of its timer."""
    keys = [f"key-{number}" for number in range(first, first + count)]
    order = [(1, 0, 0, number) for number in range(first, first + count)]
    origins = Origins([1] * count, None, order, ("in",))
    values = [at(number) for number in range(first, first + count)]
    return Batch(keys, values, origins, key_bytes=[key.encode() for key in keys])


def taken(run: Callable[[], object]) -> float:
    """Return the CPU time of a run, in seconds."""
    started = time.process_time()
    run()
    return time.process_time() - started


def measure(pending: int, times: int, directory: Path) -> dict[str, float]:
    """Return ratios and rates by name."""
    assert len(set(key_groups_of([b"key-%d" % n for n in range(1000)], GROUPS))) == GROUPS
    empty, full = Lane(directory / "empty"), Lane(directory / "full")
    filling = 0.0
    for first in range(0, pending, FILL):
        batch = records(first, min(FILL, pending - first), lambda n: FAR_MS + n)
        filling += taken(lambda b=batch: full.run(b, 1, commit=True))
    found = {"registered and stored, timers/s": pending / filling}
    calm = records(0, RECORDS, lambda _n: 0)
    busy = records(pending, RECORDS, lambda n: FAR_MS + n)
    nothing = Batch.empty()
    kinds = {"without records": nothing, f"of {RECORDS} records": calm, "that sets timers": busy}
    for name, batch in kinds.items():
        pairs = [(taken(lambda: empty.run(batch, 2)), taken(lambda: full.run(batch, 2)))  # noqa: B023
                 for _ in range(times)]  # fmt: skip
        without, with_ = (min(column) for column in zip(*pairs, strict=True))
        found[f"epoch {name}, none pending, ms"] = 1_000 * without
        found[f"epoch {name}, {pending} pending, ms"] = 1_000 * with_
        found[f"epoch {name}, ratio"] = with_ / without
    due = pending // 10
    rows = 0

    def fire() -> None:
        nonlocal rows
        rows = full.run(nothing, FAR_MS + due - 1)

    found["fired, timers/s"] = due / min(taken(fire) for _ in range(3))
    assert rows == due, rows
    return found


def main() -> int:
    """Print one line per figure; say by the exit code whether pending timers cost nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=31)
    parser.add_argument("--ratio", type=float, default=1.25)
    parser.add_argument(
        "--ratio-empty",
        type=float,
        default=1.5,
        help="for an epoch that does nothing but look whether something is due",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measure(options.pending, options.times, Path(directory))
    if options.json:
        print(json.dumps({name: round(figure, 3) for name, figure in found.items()}))
    else:
        for name, figure in found.items():
            print(f"{name:48} {figure:14,.2f}")
    limits = {
        "epoch without records, ratio": options.ratio_empty,
        f"epoch of {RECORDS} records, ratio": options.ratio,
    }
    dear = [name for name, limit in limits.items() if found[name] > limit]
    for name in dear:
        print(f"{name} is above {limits[name]}", file=sys.stderr)
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main())
