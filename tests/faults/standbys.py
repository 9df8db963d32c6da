"""Three instances of one application, of which two wait, under shocks to any of them.

``./dev faults --standbys N`` gives them so many shocks. Each epoch that any of them commits is
checked as those of a single one.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import psutil
from confluent_kafka import KafkaException

from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.errors import MustelaError
from mustela_dev import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.probe import free_port
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.faults.campaign import Campaign, Result
from tests.faults.kills import DRIVER_POINTS, LANE_POINTS, SOURCE_POINTS
from tests.faults.ledger import Line
from tests.faults.life import ANY_POINT, BORNE_EXITS, NotHappenedError, require
from tests.faults.process import ROOT, ChildApp, ChildEndedError
from tests.integration.kafka_proxy import KafkaProxy
from tests.patience import PATIENCE_S

__all__ = ["SHOCKS", "Instances", "Network", "play"]

SIZE = 3
POLL_S = 0.02
POINT_S = 10.0
SETTINGS = {"MUSTELA__STANDBY": "true", "MUSTELA__COMMIT_TIMEOUT": "60s"}
POINTS = (*DRIVER_POINTS, *SOURCE_POINTS, *LANE_POINTS[:2])
REPLICA_POINTS = ("replica-before-pending", "replica-after-pending")
TAKEOVER_POINTS = ("standby-begins", "standby-claimed", "standby-caught-up")


class Network:
    """A broker that each instance reaches by a way of its own, which can be cut.

    Args:
        directory: The broker's data.
    """

    def __init__(self, directory: Path) -> None:
        self.proxies = [KafkaProxy() for _ in range(SIZE)]
        port, controller = free_port(), free_port()
        listeners = [f"PLAINTEXT://127.0.0.1:{port}"]
        advertised = list(listeners)
        for number, proxy in enumerate(self.proxies):
            proxy.target = free_port()
            listeners.append(f"WAY{number}://127.0.0.1:{proxy.target}")
            advertised.append(f"WAY{number}://127.0.0.1:{proxy.port}")
        listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
        names = ["PLAINTEXT", "CONTROLLER", *(f"WAY{number}" for number in range(SIZE))]
        self.broker = DevelopmentBroker(
            directory,
            port=port,
            heap_mb=HEAP_MB,
            properties={
                **PROPERTIES,
                "listeners": ",".join(listeners),
                "advertised.listeners": ",".join(advertised),
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            },
            options=BrokerOptions(fast_start=True),
        )

    def __enter__(self) -> Network:
        """Start the broker."""
        self.broker.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.broker.kill()
        for proxy in self.proxies:
            proxy.close()

    def servers(self, slot: int) -> str:
        """Return the bootstrap servers of an instance."""
        return f"127.0.0.1:{self.proxies[slot].port}"


class Instances:
    """The instances of an application.

    Args:
        campaign: Its topics, its feeder, its watcher.
        network: The broker.
        rng: For everything that is random.
    """

    def __init__(self, campaign: Campaign, network: Network, rng: random.Random) -> None:
        self.campaign = campaign
        self.network = network
        self.random = rng
        self.children: list[ChildApp | None] = [None] * SIZE
        self.restarts: Counter[str] = Counter()
        self.took: list[str] = []
        campaign.has_standbys = True
        campaign.is_damaged = True  # a takeover before a replica has caught up restores

    @property
    def epoch(self) -> int:
        """The last epoch that was committed."""
        records = self.campaign.watcher.seen.records
        return records[-1].epoch if records else 0

    def child(self, slot: int) -> ChildApp:
        """Return an instance."""
        child = self.children[slot]
        assert child is not None
        return child

    def start(self, slot: int) -> None:
        """Start an instance with the directory and the way to the broker of its place."""
        place = str(self.campaign.directory / f"state-{slot}")
        servers = self.network.servers(slot)
        variables = {"MUSTELA__STATE_DIR": place, "MUSTELA__BOOTSTRAP_SERVERS": servers}
        self.children[slot] = self.campaign.start(ANY_POINT, **variables)

    def fill(self) -> None:
        """Start those that have ended, as a supervisor does.

        Raises:
            ChildEndedError: If one ended as it may not.
        """
        for slot, child in enumerate(self.children):
            if child is not None and child.returncode is None:
                continue
            if child is not None and child.returncode != -signal.SIGKILL:
                ends = [event["code"] for event in child.events() if event["event"] == "end"]
                if child.returncode not in BORNE_EXITS or not ends:
                    msg = f"{child.directory.name} ended with {child.returncode}: {child.text()}"
                    raise ChildEndedError(msg)
                self.restarts[ends[-1]] += 1
                child.kill()
            self.start(slot)

    def state(self, slot: int) -> str:
        """Return what an instance has last said that it does."""
        states = [event["state"] for event in self.child(slot).events() if "state" in event]
        return states[-1] if states else ""

    def active(self) -> int:
        """Wait until one runs epochs, and return which."""
        found: list[int] = []

        def runs() -> bool:
            found[:] = [slot for slot in range(SIZE) if self.state(slot) == "running"]
            return bool(found)

        self.until(runs, "one of them runs")
        return found[-1]

    def others(self, slot: int) -> list[int]:
        """Return all but one of them, in a random order."""
        found = [other for other in range(SIZE) if other != slot]
        self.random.shuffle(found)
        return found

    def until(self, holds: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait, and start meanwhile what has ended.

        Raises:
            ChildEndedError: If it is not so in time.
        """
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                told = [self.child(slot).events()[-3:] for slot in range(SIZE)]
                last = [self.child(slot).text()[-1500:] for slot in range(SIZE)]
                msg = f"not in {timeout_s:g} s: {what}; {self.campaign.waiting()}; {told}; {last}"
                raise ChildEndedError(msg)
            time.sleep(POLL_S)

    def goes_on(self, mark: int) -> None:
        """Wait until an epoch after ``mark`` was committed."""
        self.until(lambda: self.epoch > mark, f"an epoch after {mark}")

    def halt(self, slot: int, point: str) -> None:
        """Wait until some process of an instance is at a phase and stays there.

        Raises:
            NotHappenedError: If none comes there in time.
        """
        self.wish([slot], point)
        self.halted([slot], point)

    def wish(self, slots: list[int], point: str) -> None:
        """Let some process of each instance stay at a phase when it comes there."""
        for slot in slots:
            (self.child(slot).directory / f"want-{point}").touch()

    def halted(self, slots: list[int], point: str, timeout_s: float = POINT_S) -> int:
        """Wait until one of the instances is at a phase that was wished for, and return which.

        Raises:
            NotHappenedError: If none comes there in time.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline:
                for slot in slots:
                    marker = self.child(slot).directory / point
                    if marker.exists() and marker.read_text():
                        return slot
                time.sleep(POLL_S)
        finally:
            for slot in slots:
                (self.child(slot).directory / f"want-{point}").unlink(missing_ok=True)
        msg = f"nothing came to {point}"
        raise NotHappenedError(msg)

    def release(self, slot: int, point: str) -> None:
        """Let what was halted go on."""
        (self.child(slot).directory / point).unlink(missing_ok=True)

    def signal(self, slot: int, number: int) -> None:
        """Send a signal to every process of an instance."""
        for process in self.child(slot).processes():
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def kill(self, slot: int) -> None:
        """Kill an instance with all that it has started."""
        require(self.child(slot).kill() > 0, "nothing was killed")

    def note_takeovers(self) -> None:
        """Keep what takeovers took, of the instances that live."""
        for slot in range(SIZE):
            text = self.child(slot).output_file.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                told = line.partition("took over in ")[2].partition('"')[0]
                if told and told not in self.took:
                    self.took.append(told)


def kill_active(all_: Instances) -> str:
    """SIGKILL to the one that runs, at a phase of its epoch or at any time."""
    slot = all_.active()
    point = all_.random.choice((*POINTS, ""))
    if point:
        all_.halt(slot, point)
    else:
        time.sleep(all_.random.random())
    all_.kill(slot)
    return f"at {point or 'any time'}"


def kill_standby(all_: Instances) -> str:
    """SIGKILL to one that waits, or that has just begun; the one that runs does not notice."""
    slot = all_.others(all_.active())[0]
    state = all_.state(slot) or "nothing said"
    point = all_.random.choice((*REPLICA_POINTS, ""))
    if point:
        all_.halt(slot, point)
    all_.kill(slot)
    return f"at {point or 'any time'}, {state}"


def kill_both(all_: Instances) -> str:
    """The one that runs, and then its successor, at a phase or at any time of its takeover."""
    slot = all_.active()
    point = all_.random.choice((*TAKEOVER_POINTS, ""))
    if point:
        others = all_.others(slot)
        all_.wish(others, point)
        all_.kill(slot)
        all_.kill(all_.halted(others, point, PATIENCE_S))
        return f"the successor at {point}"
    all_.kill(slot)
    seconds = 1.0 + 1.5 * all_.random.random()
    time.sleep(seconds)
    begun = [s for s in all_.others(slot) if all_.state(s) not in ("standby", "")]
    next_ = begun[0] if begun else all_.others(slot)[0]
    state = all_.state(next_)
    all_.kill(next_)
    return f"{seconds:.1f} s later one that was {state}"


def kill_leaving(all_: Instances) -> str:
    """The one that hands over, when it has said so, and before it has closed its state."""
    slot = all_.active()
    all_.wish([slot], "handing-over")
    switch(all_)
    all_.kill(all_.halted([slot], "handing-over"))
    return "at handing-over"


def freeze_active(all_: Instances) -> str:
    """SIGSTOP to the one that runs, until another one has committed; then it goes on."""
    slot = all_.active()
    point = all_.random.choice((*POINTS, ""))
    if point:
        all_.halt(slot, point)
    all_.signal(slot, signal.SIGSTOP)
    try:
        if point:
            all_.release(slot, point)
        all_.goes_on(all_.epoch + 1)
    finally:
        all_.signal(slot, signal.SIGCONT)
    all_.until(lambda: all_.state(slot) != "running", "it notices that it was replaced")
    return f"at {point or 'any time'}"


def freeze_shortly(all_: Instances) -> str:
    """SIGSTOP for about as long as a standby waits."""
    slot, seconds = all_.active(), 0.5 + 1.5 * all_.random.random()
    all_.signal(slot, signal.SIGSTOP)
    time.sleep(seconds)
    all_.signal(slot, signal.SIGCONT)
    return f"{seconds:.1f} s"


def cut_active(all_: Instances) -> str:
    """The one that runs does not reach the broker until another one has committed."""
    slot = all_.active()
    proxy = all_.network.proxies[slot]
    proxy.cut()
    try:
        all_.goes_on(all_.epoch + 1)
    finally:
        proxy.mend()
    all_.until(lambda: all_.state(slot) != "running", "it notices that it was replaced")
    return "until another one has committed"


def cut_standby(all_: Instances) -> str:
    """One that waits does not reach the broker for a while: it may not disturb."""
    slot, seconds = all_.others(all_.active())[0], 3 * all_.random.random()
    proxy = all_.network.proxies[slot]
    proxy.cut()
    time.sleep(seconds)
    proxy.mend()
    return f"{seconds:.1f} s"


def switch(all_: Instances) -> str:
    """A planned switch: only to a standby that has caught up, or to any."""
    return _ha(all_, "switch", *all_.random.choice(((), ("--force",))))


def promote(all_: Instances) -> str:
    """A standby takes over from one that lives."""
    return _ha(all_, "promote")


def _ha(all_: Instances, command: str, *options: str) -> str:
    name, servers = all_.campaign.application_id, all_.network.broker.bootstrap_servers
    deadline = time.monotonic() + PATIENCE_S
    while (code := main(["ha", command, name, *options, "-b", servers])) == ExitCode.USAGE:
        require(time.monotonic() < deadline, "no standby is ready")
    require(code == ExitCode.OK, f"ended with {code}")
    return " ".join(("done", *options))


SHOCKS: dict[str, Callable[[Instances], str]] = {
    shock.__name__.replace("_", "-"): shock
    for shock in (
        kill_active,
        kill_standby,
        kill_both,
        kill_leaving,
        freeze_active,
        freeze_shortly,
        cut_active,
        cut_standby,
        switch,
        promote,
    )
}
_WEIGHTS = {"kill-active": 5, "kill-standby": 3, "kill-both": 2, "freeze-active": 2}


def plan(count: int, rng: random.Random) -> list[str]:
    """Return which shocks to give, in which order."""
    turn = [name for name in SHOCKS for _ in range(_WEIGHTS.get(name, 1))]
    found = (turn * (1 + count // len(turn)))[:count] if count > len(turn) else turn
    rng.shuffle(found)
    return found[:count]


def play(kind: str, shocks: list[str], *, seed: int, network: Network, directory: Path) -> Line:
    """Give shocks to the instances of an application; return what came of it.

    Args:
        kind: The application.
        shocks: Names of shocks.
        seed: For everything that is random.
        network: The broker, and the ways to it.
        directory: For state, logs and markers.
    """
    started = time.monotonic()
    done, missed = Counter[str](), Counter[str]()
    servers = network.broker.bootstrap_servers
    campaign = Campaign(kind, servers, directory, seed=seed, environment=SETTINGS)
    with campaign:
        all_ = Instances(campaign, network, random.Random(f"{seed}-{kind}"))
        try:
            all_.fill()
            all_.goes_on(1)
            for name in shocks:
                _strike(all_, name, done, missed)
            result = _finish(all_)
        except (AssertionError, MustelaError, KafkaException) as error:
            result = campaign.result
            result.violations.append(str(error))
        finally:
            for child in all_.children:
                if child is not None:
                    child.kill()
    line = Line(seed=seed, slice=0, kind=f"{kind} with standbys", restarts=dict(all_.restarts))
    line = replace(line, faults=dict(done), missed=dict(missed), epochs=result.epochs)
    found = [text[:4000].replace(f"{ROOT}/", "") for text in result.violations]
    seconds = round(time.monotonic() - started)
    line = replace(line, records=result.records, rows=result.rows, seconds=seconds)
    for told in all_.took:
        print(f"    took over in {told}", flush=True)
    return replace(line, violations=found)


def _strike(all_: Instances, name: str, done: Counter[str], missed: Counter[str]) -> None:
    started, mark = time.monotonic(), all_.epoch
    try:
        evidence = SHOCKS[name](all_)
    except NotHappenedError as error:
        missed[name] += 1
        evidence = f"did not happen: {error}"
    else:
        done[name] += 1
    struck = time.monotonic()
    all_.note_takeovers()
    all_.fill()
    all_.goes_on(max(mark, all_.epoch))
    print(
        f"    {name}, {struck - started:.1f} s, next epoch {time.monotonic() - struck:.1f} s later:"
        f" {evidence}",
        flush=True,
    )


def _finish(all_: Instances) -> Result:
    """Let the last one go on alone, to the end of the input, and check everything."""
    slot = all_.active()
    for other in all_.others(slot):
        all_.kill(other)
    all_.note_takeovers()
    all_.campaign.child = all_.child(slot)
    return all_.campaign.finish()
