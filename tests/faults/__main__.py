"""The long run: ``./dev faults [--faults N] [--minutes N] [--ledger FILE --resume] [--bugs N]``.

Applications of all kinds get faults of all types, drawn from a seed so that each kind gets each
type equally often for its weight; all that they write is checked. Then known bugs are planted, and
must be found. ``./dev faults --summary --ledger FILE`` shows what was done so far.

``./dev faults --standbys N`` gives shocks to three instances of an application instead, of which
two wait. ``./dev faults --reads N`` plays N seeds in which clients ask for stores all the time, and
compares each answer with what the epoch that it names has left; ``--bug`` plants one there.
``./dev faults --hosts N`` plays on a cluster of hosts, and kills and cuts off these; as root.
``./dev faults --writers`` has lanes write their changelogs into the driver's transaction;
``--transactions 1`` has the broker keep to the first version of Kafka's.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import count
from pathlib import Path

from tests.broker_fixture import make_small_broker
from tests.cluster.network import why_not
from tests.faults import hosts, standbys
from tests.faults.bugs import BUGS, HOSTS_BUGS, environment_of, planting
from tests.faults.campaign import Campaign
from tests.faults.kinds.registry import CHECKED
from tests.faults.ledger import Ledger, Line, table
from tests.faults.process import ChildEndedError
from tests.faults.reads import campaign as reads
from tests.faults.reads.bugs import READ_PLANTS
from tests.faults.reads.frames import spark_session
from tests.faults.shocks.registry import SHOCKS
from tests.faults.shocks.shock import LANES_WRITE, OWNERS_WRITE
from tests.faults.slices import draw, make_broker, play, shocks_here
from tests.faults.standbys import Network, plan

SLICES_OF_A_BROKER = 6
SHOWN_MAX = 8
STANDBY_KINDS = ("word_count", "transfers", "sequence", "random_sums")
LEDGER = Path(__file__).parent / "results" / "faults.jsonl"


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


def run(given: argparse.Namespace, ledger: Ledger, place: Path) -> list[Line]:
    """Play slices until there are enough faults, or the time is up; return them."""
    shocks, missing = shocks_here(given.fault or ())
    for name, why in missing.items():
        print(f"skipped {name}: {why}", flush=True)
    deadline = time.monotonic() + 60 * given.minutes
    broker, played = None, list[Line]()
    try:
        while ledger.faults < given.faults and time.monotonic() < deadline:
            if broker is None or len(played) % SLICES_OF_A_BROKER == 0:
                if broker is not None:
                    broker.kill()
                    shutil.rmtree(broker.data_dir, ignore_errors=True)
                broker = make_broker(place / f"broker-{len(played)}", given.transactions)
                broker.start()
            elif not broker.running:
                broker.start()
            ledger.refresh()
            plan = draw(given.seed, ledger, given.slice, given.kinds, shocks)
            if given.writers:
                plan = replace(plan, settings={**plan.settings, **LANES_WRITE})
            print(f"slice {plan.slice}: {plan.kind} {dict(plan.settings)}", flush=True)
            directory = place / f"slice-{plan.slice}"
            line = play(plan, broker, directory)
            ledger.add(line)
            played.append(line)
            for violation in line.violations:
                print(f"  VIOLATION {violation}", flush=True)
            if not (given.keep and line.violations):
                shutil.rmtree(directory, ignore_errors=True)
            rate = 60 * sum(line.faults.values()) / max(1, line.seconds)
            print(
                f"  {sum(line.faults.values())} faults, {line.epochs} epochs, {line.rows} rows,"
                f" {len(line.violations)} violations, {line.seconds} s, {rate:.0f} a minute;"
                f" {ledger.faults} faults in all",
                flush=True,
            )
    finally:
        if broker is not None:
            broker.kill()
    return played


def run_standbys(given: argparse.Namespace, ledger: Ledger, place: Path) -> list[Line]:
    """Give shocks to applications with standbys until there are enough; return what came of it."""
    deadline = time.monotonic() + 60 * given.minutes
    played: list[Line] = []
    kinds = [kind for kind in given.kinds if kind in STANDBY_KINDS] or list(STANDBY_KINDS)
    while time.monotonic() < deadline:
        number = len(played)
        left = given.standbys - sum(sum(line.faults.values()) for line in played)
        if left <= 0:
            break
        seed, kind = given.seed + number, kinds[number % len(kinds)]
        names = given.shock or plan(min(given.slice, left), random.Random(f"{seed}-{kind}"))
        print(f"slice {number}: {kind} with standbys", flush=True)
        directory = place / f"standbys-{number}"
        with Network(directory / "broker") as network:
            line = standbys.play(kind, names, seed=seed, network=network, directory=directory)
        ledger.add(line)
        played.append(line)
        for violation in line.violations:
            print(f"  VIOLATION {violation}", flush=True)
        if not (given.keep and line.violations):
            shutil.rmtree(directory, ignore_errors=True)
        if not line.faults:
            break
    return played


def run_reads(given: argparse.Namespace, ledger: Ledger, place: Path) -> list[Line]:
    """Play seeds that the ledger does not have, until there are enough; return what came of it."""
    deadline = time.monotonic() + 60 * given.minutes
    known = {line.seed for line in ledger.lines}
    bugs = [bug for bug in given.bug or () if bug in READ_PLANTS]
    planted = {"FAULTS_BUG": bugs[0], **planting()} if bugs else {}
    played: list[Line] = []
    broker = make_broker(place / "broker-reads")
    broker.start()
    try:
        for seed in (seed for seed in count(given.seed) if seed not in known):
            if len(played) == given.reads or time.monotonic() > deadline:
                break
            print(f"seed {seed}: stores that clients ask {' '.join(bugs)}", flush=True)
            directory, servers = place / f"reads-{seed}", broker.bootstrap_servers
            spark = spark_session() if given.spark or seed % 4 == 0 else None
            line = reads.play(
                seed, servers, directory, moves=given.move, environment=planted, spark=spark
            )
            ledger.add(line)
            played.append(line)
            for violation in line.violations[:SHOWN_MAX]:
                print(f"  VIOLATION {violation}", flush=True)
            print(
                f"  {sum(line.answers.values())} answers, {line.epochs} epochs,"
                f" {len(line.violations)} violations, {line.seconds} s",
                flush=True,
            )
            if not (given.keep and line.violations):
                shutil.rmtree(directory, ignore_errors=True)
    finally:
        broker.kill()
    return played


def run_hosts(given: argparse.Namespace, ledger: Ledger, place: Path) -> list[Line]:
    """Play slices on clusters of hosts until there are enough shocks; return what came of it."""
    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    deadline = time.monotonic() + 60 * given.minutes
    bugs = [bug for bug in given.bug or () if bug in HOSTS_BUGS]
    planted = {"FAULTS_BUG": bugs[0], **planting()} if bugs else {}
    kinds = [kind for kind in given.kinds if kind in hosts.HOSTS_KINDS]
    shocks = {name: hosts.SHOCKS[name] for name in given.blow or hosts.SHOCKS}
    played: list[Line] = []
    while ledger.faults < given.hosts and time.monotonic() < deadline:
        ledger.refresh()
        size, how = min(given.slice, given.hosts - ledger.faults), hosts.settings_of
        drawn = draw(given.seed, ledger, size, kinds, shocks, settings_of=how)
        if given.writers:
            drawn = replace(drawn, settings={**drawn.settings, **OWNERS_WRITE})
        print(f"slice {drawn.slice}: {drawn.kind} {dict(drawn.settings)}", *bugs, flush=True)
        directory = place / f"hosts-{drawn.seed}-{drawn.slice}"
        shutil.rmtree(directory, ignore_errors=True)  # of a run that was ended in it
        line = hosts.play(drawn, directory, planted)
        ledger.add(line)
        played.append(line)
        for violation in line.violations[:SHOWN_MAX]:
            print(f"  VIOLATION {violation}", flush=True)
        if not (given.keep and line.violations):
            shutil.rmtree(directory, ignore_errors=True)
        if not line.faults or bugs:
            break
    return played


def _one_of(known: Collection[str], what: str) -> Callable[[str], str]:
    """Return what takes a name from the command line, if it is a known one."""

    def name(text: str) -> str:
        if text not in known:
            msg = f"no {what} is called '{text}'; there are {', '.join(sorted(known))}"
            raise argparse.ArgumentTypeError(msg)
        return text

    return name


def _several_of(known: Collection[str], what: str) -> Callable[[str], list[str]]:
    """Return what takes names with commas between them."""
    one = _one_of(known, what)
    return lambda text: [one(name) for name in text.split(",") if name]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return what the command line says; a name that nothing has ends the process with 2."""
    parser = argparse.ArgumentParser(prog="./dev faults", description=__doc__)
    kinds, fault = _several_of(CHECKED, "kind"), _one_of(SHOCKS, "fault")
    parser.add_argument("--faults", type=int, default=60, help="faults in all, with the ledger's")
    parser.add_argument(
        "--writers",
        action="store_true",
        help="lanes write their changelogs, and on hosts owners of partitions the output",
    )
    parser.add_argument("--transactions", type=int, choices=[1, 2], default=2, help="their version")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no slice after so many")
    parser.add_argument("--slice", type=int, default=48, help="faults of a slice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", type=kinds, default=list(CHECKED), help="with commas between")
    parser.add_argument("--fault", action="append", type=fault, help="only this, e.g. kill-worker")
    parser.add_argument("--standbys", type=int, default=0, help="shocks to three instances instead")
    shock = _one_of(standbys.SHOCKS, "shock")
    parser.add_argument("--shock", action="append", type=shock, help="only this, e.g. cut-active")
    parser.add_argument("--hosts", type=int, default=0, help="shocks to clusters instead")
    blow = _one_of(hosts.SHOCKS, "shock to hosts")
    parser.add_argument("--blow", action="append", type=blow, help="only this, e.g. cut-host")
    parser.add_argument("--reads", type=int, default=0, help="seeds with clients that ask instead")
    parser.add_argument("--spark", action="store_true", help="Spark reads, too, with every seed")
    move = _one_of(reads.MOVES, "move")
    parser.add_argument("--move", action="append", type=move, help="only this, e.g. release")
    parser.add_argument("--ledger", type=Path, help=f"e.g. {LEDGER.name}")
    parser.add_argument("--resume", action="store_true", help="go on after what the ledger holds")
    parser.add_argument("--summary", action="store_true", help="only show the ledger")
    parser.add_argument("--keep", type=Path, help="where to keep what violations left")
    parser.add_argument("--bugs", type=int, default=0, help="how many bugs to plant")
    parser.add_argument(
        "--bug",
        action="append",
        type=_one_of({*BUGS, *READ_PLANTS, *HOSTS_BUGS}, "bug"),
        help="plant this one",
    )
    return parser.parse_args(arguments)


def _way(given: argparse.Namespace) -> Callable[..., list[Line]]:
    if given.reads:
        return run_reads
    if given.hosts:
        return run_hosts
    return run_standbys if given.standbys else run


def main(arguments: list[str]) -> int:
    """Run; return 1 if something was violated or a planted bug was not found."""
    given = parse(arguments)
    # Whoever ends a part of a long run by SIGTERM leaves no process of it behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.summary:
        print(table(Ledger(given.ledger or LEDGER)))
        return 0
    ledger = Ledger(given.ledger, resume=given.resume)
    drawn = random.Random(given.seed).sample(sorted(BUGS), min(given.bugs, len(BUGS)))
    bugs = [bug for bug in given.bug or drawn if bug in BUGS]
    with tempfile.TemporaryDirectory(prefix="mustela-faults-", ignore_cleanup_errors=True) as name:
        place = given.keep or Path(name)
        played = _way(given)(given, ledger, place)
        missed: list[str] = []
        if bugs:
            with make_small_broker() as broker:
                servers = broker.bootstrap_servers
                missed = [bug for bug in bugs if not find_bug(bug, given.seed, servers, place)]
    print(table(ledger), flush=True)
    if bugs:
        print(f"{len(bugs)} bugs planted, {missed} not found", flush=True)
    return 1 if missed or any(line.violations for line in played) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
