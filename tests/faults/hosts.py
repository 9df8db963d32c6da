"""An application on a cluster of hosts, under kills and cuts of its executors, hosts and driver.

``./dev faults --hosts N`` gives so many shocks. Each epoch is checked as it is on a single host.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster.rig import Cluster, Host, signal_inside
from tests.faults.campaign import Campaign
from tests.faults.kinds.kind import Kind
from tests.faults.ledger import Line
from tests.faults.life import ANY_POINT, Life, require
from tests.faults.process import ROOT, ChildApp
from tests.faults.shocks.shock import OWNERS_WRITE, WRITERS, Profile, Shock, phases_of
from tests.faults.slices import LOOSE, LOOSE_KINDS, PAUSE_S, Plan, strike_all
from tests.patience import looks

__all__ = ["HOSTS_KINDS", "SHOCKS", "play", "settings_of"]

HOSTS_KINDS = (
    "word_count",
    "stateless",
    "stream_joins",
    "stream_table",
    "table_joins",
    "foreign_key",
    "tumbling",
    "sessions",
    "suppressed",
    "timers",
    "transfers",
    "shared",
    "asking",
)
EXECUTOR, PYTHON = "CoarseGrainedExecutorBackend", "mustela_executor"
HOSTS_MAX = 3
DRIVERS = 2
LEAVES = {"FAULTS_LEAVES": "true"}
CUT_S = 4.0
CUT_DRIVER_S = 30.0
"""Executors give up a driver that they have not heard of for twenty seconds."""


class HostApp(ChildApp):
    """A run of an application on a host.

    Args:
        host: The host.
        kind: Which application of `tests.faults.kinds`.
        directory: As for any run; all hosts see it.
        environment: As for any run.
    """

    def __init__(
        self, host: Host, kind: str, directory: Path, environment: Mapping[str, str]
    ) -> None:
        inside = host.inside(ROOT)
        super().__init__(kind, directory, environment, point=ANY_POINT, wrapper=inside)

    def send_signal(self, number: int) -> None:
        """Send the application a signal."""
        signal_inside(self._process, number)


class HostsCampaign(Campaign):
    """A campaign whose driver runs on one of several hosts of a cluster.

    Args:
        plan: What is done.
        cluster: Where.
        environment: Variables of every Python process, on each host.
    """

    def __init__(self, plan: Plan, cluster: Cluster, environment: Mapping[str, str]) -> None:
        told = cluster.broker.client_settings
        properties = {name.removeprefix("kafka."): text for name, text in told.items()}
        own = {name: text for name, text in properties.items() if name != "bootstrap.servers"}
        super().__init__(
            plan.kind,
            properties,
            cluster.shared / f"slice-{plan.slice}",
            seed=plan.seed + plan.slice,
            environment={
                **plan.settings,
                "MUSTELA__STATE_DIR": str(cluster.disk_at / "mustela"),
                "MUSTELA__CLASS_ARCHIVE": "false",
                "FAULTS_KAFKA": json.dumps(own),
                "FAULTS_UNREAD": "true",
            },
            pause_s=PAUSE_S,
        )
        self.is_damaged = True  # who takes over from a host that is lost reads what it lacks
        self._planted = dict(environment)
        self._leaves = "FAULTS_LEAVES" in plan.settings
        self.cluster = cluster
        self.drivers = [cluster.add(f"driver{number}") for number in range(DRIVERS)]
        self.workers = cluster.add_workers("a", "b")

    @property
    def driver(self) -> Host:
        """The host of the driver; the next run starts there."""
        return self.drivers[0]

    def _child(self, directory: Path, variables: dict[str, str], point: str) -> ChildApp:
        del point
        everywhere = {
            **self._planted,
            "MUSTELA_FAULT_POINT": ANY_POINT,
            "MUSTELA_FAULT_DIR": str(directory),
        }
        spark = {
            "spark.master": self.cluster.master,
            "spark.driver.memory": "512m",
            "spark.decommission.enabled": str(self._leaves).lower(),
            **{f"spark.executorEnv.{name}": text for name, text in everywhere.items()},
        }
        variables = {**variables, **self._planted, "FAULTS_SPARK": json.dumps(spark)}
        return HostApp(self.driver, self.kind, directory, variables)


class HostsLife(Life):
    """An application on a cluster under shocks.

    Args:
        campaign: Its topics, its feeder, its watcher, its hosts.
        rng: For everything that is random.
    """

    def __init__(self, campaign: HostsCampaign, rng: random.Random) -> None:
        super().__init__(campaign, campaign.cluster.broker, rng)
        self.cluster = campaign.cluster
        self.workers = campaign.workers
        self.drivers = campaign.drivers
        self._added = 0

    def worker(self) -> Host:
        """Return one of the hosts with executors."""
        return self.random.choice(self.workers)

    def go_on(self) -> None:
        """Wait for two more epochs: one may have been under way."""
        for _ in range(2):
            self.settle(self.epoch)

    def somewhere(self) -> tuple[str, ...]:
        """Return the phases of the driver, or those of the workers."""
        return phases_of(self, lanes=self.random.random() < 0.5)

    def add(self) -> Host:
        """Add a host."""
        self._added += 1
        (host,) = self.cluster.add_workers(f"more{self._added}")
        self.workers.append(host)
        return host


def kill_executor(life: HostsLife) -> str:
    """Kill one executor; its host is there, and the master starts another one on it."""
    return _kill(life, EXECUTOR)


def kill_workers(life: HostsLife) -> str:
    """Kill all Python processes of an executor."""
    return _kill(life, PYTHON)


def _kill(life: HostsLife, what: str) -> str:
    with life.halted(life.somewhere()) as (point, _):
        host = life.worker()
        count = host.kill_program(what)
    require(count > 0, f"{host.name} has no {what}")
    life.go_on()
    return f"{count} processes {what} of {host.name} ended by SIGKILL at {point or 'any time'}"


def leave(life: HostsLife) -> str:
    """Ask an executor to leave, as a cluster manager does that takes a host back."""
    host = life.worker()
    require(host.kill_program(EXECUTOR, signal.SIGPWR) > 0, f"{host.name} has no executor")
    life.go_on()
    return f"the executor of {host.name} was asked to leave"


def kill_host(life: HostsLife) -> str:
    """Cut the power of a host; it comes back, with its disk, when others have gone on."""
    with life.halted(life.somewhere()) as (point, _):
        host = life.worker()
        host.kill()
    life.go_on()
    host.boot_again()
    life.go_on()
    return f"{host.name} lost its power at {point or 'any time'}, and came back"


def renew_host(life: HostsLife, *, disk_kept: bool) -> str:
    """Cut the power of a host and start it at once."""
    with life.halted(life.somewhere()) as (point, _):
        host = life.worker()
        host.reboot(disk_kept=disk_kept)
    life.go_on()
    return f"{host.name} was started anew at {point or 'any time'}"


def cut_host(life: HostsLife) -> str:
    """Cut a host off until it has been given up and others have gone on."""
    with life.halted(life.somewhere()) as (point, _):
        host = life.worker()
        host.partition()
    life.go_on()
    host.heal()
    life.go_on()
    return f"{host.name} was cut off at {point or 'any time'}, given up and back"


def cut_briefly(life: HostsLife) -> str:
    """Cut a host off for less time than it takes to give it up."""
    with life.halted(life.somewhere()) as (point, _):
        host, seconds = life.worker(), CUT_S * life.random.random()
        host.partition()
    time.sleep(seconds)
    host.heal()
    life.go_on()
    return f"{host.name} was cut off at {point or 'any time'} for {seconds:.1f} s"


def add_host(life: HostsLife) -> str:
    """Add a host; when there are too many, the oldest one is gone for good."""
    host = life.add()
    life.go_on()
    if len(life.workers) <= HOSTS_MAX:
        return f"{host.name} came"
    gone = life.workers.pop(0)
    gone.kill()
    life.go_on()
    return f"{host.name} came, {gone.name} is gone"


def renew_master(life: HostsLife) -> str:
    """Cut the power of the master's host and start it again, at any time."""
    life.cluster.hosts["master"].reboot()
    life.go_on()
    wanted = {host.address for host in life.workers}
    again = looks(lambda: life.cluster.answers() and wanted <= set(life.cluster.workers()))
    require(any(again), "the master did not find its workers")
    return "the master was started anew"


def kill_app(life: HostsLife) -> str:
    """Kill the driver with its JVM; it is started on another host."""
    with life.halted(life.somewhere()) as (point, _):
        count = life.kill_app()
    life.drivers.reverse()
    life.start()
    life.go_on()
    return f"{count} processes of the driver ended by SIGKILL at {point or 'any time'}"


def kill_driver_host(life: HostsLife) -> str:
    """Cut the power of the driver's host; it is started on another one."""
    child = life.child()
    with life.halted(life.somewhere()) as (point, _):
        life.drivers[0].kill()
    child.kill()
    life.campaign.child = None
    life.drivers[0].boot()
    life.drivers.reverse()
    life.start()
    life.go_on()
    return f"the driver's host lost its power at {point or 'any time'}"


def cut_driver(life: HostsLife) -> str:
    """Cut the driver off from brokers and executors, for long or for short."""
    with life.halted(life.somewhere()) as (point, _):
        host, seconds = life.drivers[0], CUT_DRIVER_S * life.random.random()
        host.partition()
    time.sleep(seconds)
    host.heal()
    life.go_on()
    return f"the driver was cut off at {point or 'any time'} for {seconds:.1f} s"


def lose_everything(life: HostsLife) -> str:
    """Kill the driver, and renew every other host without its disk: only changelogs are left."""
    with life.halted(life.somewhere()) as (point, _):
        life.kill_app()
        for host in life.workers:
            host.reboot(disk_kept=False)
    life.drivers.reverse()
    life.start()
    life.go_on()
    return f"{len(life.workers)} hosts lost their disks at {point or 'any time'}"


def _of(strike: Callable[[HostsLife], str]) -> Callable[[Life], str]:
    """Return what strikes a life of any kind that is one on hosts."""

    def struck(life: Life) -> str:
        assert isinstance(life, HostsLife)
        return strike(life)

    return struck


def _leaves(_kind: Kind, profile: Profile) -> bool:
    return "FAULTS_LEAVES" in profile


SHOCKS = {
    shock.name: shock
    for shock in (
        Shock(name="kill-executor", strike=_of(kill_executor), weight=3),
        Shock(name="kill-workers", strike=_of(kill_workers), weight=2),
        Shock(name="leave", strike=_of(leave), fits=_leaves, weight=2),
        Shock(name="kill-host", strike=_of(kill_host), weight=2),
        Shock(name="reboot-host", strike=_of(lambda life: renew_host(life, disk_kept=True))),
        Shock(name="renew-host", strike=_of(lambda life: renew_host(life, disk_kept=False))),
        Shock(name="cut-host", strike=_of(cut_host), weight=2),
        Shock(name="cut-briefly", strike=_of(cut_briefly)),
        Shock(name="add-host", strike=_of(add_host)),
        Shock(name="renew-master", strike=_of(renew_master)),
        Shock(name="kill-app", strike=_of(kill_app), weight=2),
        Shock(name="kill-driver-host", strike=_of(kill_driver_host)),
        Shock(name="cut-driver", strike=_of(cut_driver)),
        Shock(name="lose-everything", strike=_of(lose_everything)),
    )
}


def settings_of(kind: str, number: int, rng: random.Random) -> dict[str, str]:
    """Draw what a slice runs with: every other one with lanes and owners that write."""
    found = dict(OWNERS_WRITE) if number % 2 else {WRITERS: "driver"}
    if kind in LOOSE_KINDS and rng.random() < 0.3:
        found |= LOOSE
    return found | (LEAVES if rng.random() < 0.4 else {})


def play(plan: Plan, directory: Path, environment: Mapping[str, str]) -> Line:
    """Run a slice on a cluster of its own and say what came of it.

    Args:
        plan: The slice.
        directory: For the cluster.
        environment: Variables of every Python process of the application, on each host.
    """
    directory.mkdir(parents=True)
    rng = random.Random(f"{plan.seed}-{plan.slice}-{plan.kind}")
    with Cluster(directory) as cluster:
        campaign = HostsCampaign(plan, cluster, environment)
        with campaign:
            return strike_all(plan, HostsLife(campaign, rng), SHOCKS)
