"""A slice of the long run: an application of some kind, shocks that are drawn for it, checks."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
from confluent_kafka import KafkaException

from mustela.errors import MustelaError
from mustela_dev import DevelopmentBroker
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.faults.campaign import Campaign
from tests.faults.kinds import chains, joins, tables, windows
from tests.faults.kinds.registry import KINDS
from tests.faults.ledger import Ledger, Line
from tests.faults.life import Life, NotHappenedError
from tests.faults.process import ROOT
from tests.faults.shocks.registry import SHOCKS
from tests.faults.shocks.shock import Shock

__all__ = [
    "LOOSE",
    "LOOSE_KINDS",
    "Plan",
    "draw",
    "make_broker",
    "play",
    "shocks_here",
    "strike_all",
]

SettingsOf = Callable[[str, int, random.Random], dict[str, str]]

HASTY_S = 5
HASTY = {"MUSTELA__COMMIT_TIMEOUT": f"{HASTY_S}s"}
LOOSE = {"MUSTELA__PROCESSING_GUARANTEE": "at_least_once"}
MEMORY = {"MUSTELA__STATE__BACKEND": "memory"}
LOOSE_KINDS = {"stateless", *joins.KINDS, *tables.KINDS, *windows.KINDS, *chains.KINDS}
"""Their rows say what was repeated."""
PAUSE_S = 0.25
MISSES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a slice does.

    Attributes:
        seed: Of the run.
        slice: The number.
        kind: The application.
        settings: What it runs with.
        shocks: The names of what it gets, in order.
    """

    seed: int
    slice: int
    kind: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    shocks: tuple[str, ...] = ()


def make_broker(data_dir: Path, transactions: int = 2) -> DevelopmentBroker:
    """Make a small broker that soon ends transactions whose time is up. It is not started.

    Args:
        data_dir: Where its data is.
        transactions: The version of Kafka's transactions.
    """
    from mustela_dev import BrokerOptions

    properties = {
        **PROPERTIES,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    features = {"transaction.version": transactions}
    options = BrokerOptions(fast_start=True, features=features)
    return DevelopmentBroker(data_dir, heap_mb=HEAP_MB, properties=properties, options=options)


def shocks_here(names: Iterable[str] = ()) -> tuple[dict[str, Shock], dict[str, str]]:
    """Return the shocks that this machine can have, and why it cannot have the others."""
    wanted = list(names) or list(SHOCKS)
    missing = {name: why for name in wanted if (why := SHOCKS[name].missing())}
    return {name: SHOCKS[name] for name in wanted if name not in missing}, missing


def draw(
    seed: int,
    ledger: Ledger,
    size: int,
    kinds: Iterable[str],
    shocks: Mapping[str, Shock],
    *,
    settings_of: SettingsOf | None = None,
) -> Plan:
    """Draw the next slice: the kind that had least, and what it had least of.

    The same seed, the same ledger and the same kinds and shocks draw the same slice.

    Args:
        seed: Of the run.
        ledger: What was done so far.
        size: How many shocks.
        kinds: From which to draw.
        shocks: From which to draw, by name.
        settings_of: Draws the settings, given kind and number, in another way than here.
    """
    number = 1 + max((line.slice for line in ledger.lines if line.seed == seed), default=-1)
    rng = random.Random(f"{seed}-{number}")
    done, missed = ledger.done(), ledger.missed()
    sums: Counter[str] = Counter()
    for (kind, _), count in done.items():
        sums[kind] += count
    order = sorted(kinds)
    rng.shuffle(order)
    kind = min(order, key=lambda name: sums[name])
    settings = (settings_of or _settings)(kind, number, rng)
    able = [name for name, shock in sorted(shocks.items()) if shock.fits(KINDS[kind], settings)]
    rng.shuffle(able)
    # Where each begins is drawn, so that a rare fault need not wait for its turn behind all others.
    begin = {name: random.Random(f"{seed}-{kind}-{name}").random() for name in able}
    counts = {name: begin[name] + done[kind, name] + 0.5 * missed[kind, name] for name in able}
    chosen: list[str] = []
    for _ in range(size):
        name = min(able, key=lambda name: counts[name] / shocks[name].weight)
        counts[name] += 1
        chosen.append(name)
    rng.shuffle(chosen)
    return Plan(seed=seed, slice=number, kind=kind, settings=settings, shocks=tuple(chosen))


def _settings(kind: str, number: int, rng: random.Random) -> dict[str, str]:
    found: dict[str, str] = {}
    if kind in LOOSE_KINDS and rng.random() < 0.5:
        found |= LOOSE
    if KINDS[kind].has_state and rng.random() < 0.3:
        found |= MEMORY
    return found | (HASTY if number % 3 == 2 else {})


def play(plan: Plan, broker: DevelopmentBroker, directory: Path) -> Line:
    """Run a slice and say what came of it."""
    campaign = Campaign(
        plan.kind,
        broker.bootstrap_servers,
        directory,
        seed=plan.seed + plan.slice,
        environment=dict(plan.settings),
        pause_s=PAUSE_S,
    )
    with campaign:
        rng = random.Random(f"{plan.seed}-{plan.slice}-{plan.kind}")
        return strike_all(plan, Life(campaign, broker, rng), SHOCKS)


def strike_all(plan: Plan, life: Life, shocks: Mapping[str, Shock]) -> Line:
    """Give a running application the shocks of a plan, and check what came of it."""
    started = time.monotonic()
    done: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    try:
        for name in plan.shocks:
            _strike(life, shocks[name], done, missed)
        life.child()
        result = life.campaign.finish()
    except (AssertionError, MustelaError, KafkaException) as error:
        result = life.campaign.result
        result.violations.append(str(error))
    found = [text[:4000].replace(f"{ROOT}/", "") for text in result.violations]
    line = Line(seed=plan.seed, slice=plan.slice, kind=plan.kind, settings=dict(plan.settings))
    line = replace(line, faults=dict(done), missed=dict(missed), restarts=life.restarts)
    seconds = round(time.monotonic() - started)
    line = replace(line, epochs=result.epochs, records=result.records, rows=result.rows)
    return replace(line, seconds=seconds, violations=found)


def _strike(life: Life, shock: Shock, done: Counter[str], missed: Counter[str]) -> None:
    name, started = shock.name, time.monotonic()
    child = life.child()
    mark = life.epoch
    life.campaign.repeats += 1
    try:
        evidence = shock.strike(life)
    except (NotHappenedError, MustelaError, KafkaException, psutil.Error) as error:
        missed[name] += 1
        evidence = f"did not happen: {error}"
    else:
        done[name] += 1
    struck = time.monotonic() - started
    print(f"    {name} at {child.directory.name}, {struck:.1f} s: {evidence}", flush=True)
    life.settle(max(mark, life.epoch))
