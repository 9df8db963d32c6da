"""A Spark standalone cluster of hosts, and a broker that all of them reach.

Each host has a network card on one bridge, its own /tmp, /dev/shm, disk, processes, name and boot.
The bridge is in a network that only the rig has, so addresses clash with nobody's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import pyspark

from mustela.java import find_java
from mustela.spark.jvm import MODULE_OPTIONS
from mustela_dev import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.process import class_path
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.cluster.network import NEW_HOST, entered, ip
from tests.patience import looks

__all__ = ["BROKER_ADDRESS", "SPARK", "Cluster", "Host", "Hosts", "signal_inside"]

BROKER_ADDRESS = "10.213.7.1"
_NET = "10.213.7"
_BITS = 24
_MASTER_PORT = 7077
_WEB_PORT = 8080
_MASTER = f"spark://{_NET}.10:{_MASTER_PORT}"
_CORES = 2
_MEMORY = "1400m"
_STOPS_S = 60.0
_FIRST = Path(__file__).with_name("first.py")
SPARK = Path(pyspark.__file__).parent


class Host:
    """One host; made by `Hosts.add`.

    Attributes:
        name: Its name, which the others know it by.
        address: Its address on the bridge.
        disk: Its disk, as the run sees it; processes of the host have it at `Hosts.disk_at`.
        logs: What its programs print.
    """

    def __init__(self, cluster: Hosts, name: str, number: int) -> None:
        self._cluster = cluster
        self._number = number
        self._card = f"card{number}"
        self._first: subprocess.Popen[bytes] | None = None
        self._programs: list[subprocess.Popen[bytes]] = []
        self._roles: list[Callable[[], None]] = []
        self.name = name
        self.address = f"{_NET}.{number}"
        self.disk = cluster.directory / "disks" / name
        self.logs = cluster.directory / "logs" / name
        for directory in (self.disk, self.logs):
            directory.mkdir(parents=True)

    @property
    def pid(self) -> int:
        """The first process of the host, as the run sees it."""
        assert self._first is not None, f"{self.name} is down"
        task = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        return int(task.read_text(encoding="ascii").split()[0])

    def boot(self) -> None:
        """Start the host, with the disk that it had and nothing in its memory."""
        assert self._first is None, f"{self.name} is up"
        with (self.logs / "first.log").open("ab") as trouble:
            self._first = subprocess.Popen(
                [*NEW_HOST, "--kill-child", sys.executable, "-I", "-S", str(_FIRST)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=trouble,
            )
        assert self._first.stdin is not None
        assert self._first.stdout is not None
        furniture = {
            "name": self.name,
            "boot": str(uuid.uuid4()),
            "keep": [str(path) for path in self._cluster.kept],
            "disk": str(self.disk),
            "disk_at": str(self._cluster.disk_at),
            "names": str(self._cluster.names),
        }
        self._first.stdin.write(json.dumps(furniture).encode() + b"\n")
        self._first.stdin.flush()
        assert self._first.stdout.readline() == b"ready\n", f"{self.name} did not come up"
        bridge, pid = self._cluster.bridge_pid, self.pid
        # The kernel takes the card of a host that was just killed away when it comes to it.
        with suppress(subprocess.CalledProcessError):
            ip(bridge, "link", "delete", self._card)
        # The same after each boot, or others would send to the old one for a minute.
        peer = ("address", _hardware(self._number), "netns", str(pid))
        ip(bridge, "link", "add", self._card, "type", "veth", "peer", "eth0", *peer)
        ip(bridge, "link", "set", self._card, "master", "bridge", "up")
        ip(pid, "address", "add", f"{self.address}/{_BITS}", "dev", "eth0")
        ip(pid, "link", "set", "eth0", "up")

    def kill(self) -> None:
        """Cut the power: every process ends, the network card is gone, the disk stays."""
        if self._first is not None:
            with suppress(OSError, IndexError):
                os.kill(self.pid, 9)
            self._first.kill()
            self._first.wait()
            assert self._first.stdin is not None
            assert self._first.stdout is not None
            self._first.stdin.close()
            self._first.stdout.close()
            self._first = None
        for program in self._programs:
            program.wait()
        self._programs.clear()

    def reboot(self, *, disk_kept: bool = True) -> None:
        """Cut the power and start again: another boot, an empty /tmp; Spark's daemons come back."""
        self.kill()
        for entry in () if disk_kept else self.disk.iterdir():
            shutil.rmtree(entry)
        self.boot_again()

    def boot_again(self) -> None:
        """Start a host that was killed; Spark's daemons come back."""
        self.boot()
        for role in self._roles:
            role()

    def partition(self) -> None:
        """Cut the host off without a word: its packets go nowhere, and its card is still up."""
        ip(self._cluster.bridge_pid, "link", "set", self._card, "nomaster")

    def heal(self) -> None:
        """Undo `partition`."""
        ip(self._cluster.bridge_pid, "link", "set", self._card, "master", "bridge")

    def popen(
        self,
        command: Sequence[str],
        *,
        log: str,
        directory: Path | str = "/tmp",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on the host.

        Args:
            command: The program and its arguments.
            log: The file in `logs` that it prints to.
            directory: Where on the host.
            environment: Variables besides those of the run, which name nothing of Mustela's.
        """
        base = {name: text for name, text in os.environ.items() if not name.startswith("MUSTELA")}
        base |= {"XDG_STATE_HOME": str(self._cluster.disk_at), "MUSTELA__CLASS_ARCHIVE": "false"}
        with (self.logs / log).open("ab") as output:
            started = subprocess.Popen(
                [*self.inside(directory), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=base | dict(environment or {}),
            )
        self._programs.append(started)
        return started

    def inside(self, directory: Path | str) -> list[str]:
        """Return what runs the program that follows it on the host, in a directory there."""
        words = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--uts", "--"]
        return [*words, "env", f"--chdir={directory}"]

    def kill_program(self, word: str, number: int = signal.SIGKILL) -> int:
        """Kill the processes of the host whose command lines have a word; return how many.

        Args:
            word: The word.
            number: Another signal than that which kills.
        """
        killed = 0
        for pid in self.processes():
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if word.encode() in command:
                    os.kill(pid, number)
                    killed += 1
        return killed

    def processes(self) -> list[int]:
        """Return the processes of the host, by their numbers as the run sees them."""
        own, found = os.readlink(f"/proc/{self.pid}/ns/pid"), list[int]()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(entry / "ns/pid") == own:
                    found.append(int(entry.name))
        return found

    def put(self, path: str, text: str) -> None:
        """Write a file on the host alone, as its programs see the path."""
        inside = Path(f"/proc/{self.pid}/root{path}")
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_text(text, encoding="utf-8")

    def said(self, log: str) -> str:
        """Return what a program printed."""
        file = self.logs / log
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def start_master(self) -> None:
        """Run Spark's master here, also after each boot; it remembers workers and applications."""
        self._start("Master", "--host", self.address, "--port", str(_MASTER_PORT))

    def start_worker(self) -> None:
        """Run a worker of Spark's here, also after each boot."""
        words = ["--host", self.address, "--work-dir", "/tmp/work"]
        self._start("Worker", *words, "--cores", str(_CORES), "--memory", _MEMORY, _MASTER)

    def _start(self, which: str, *words: str) -> None:
        package = f"org.apache.spark.deploy.{which.lower()}.{which}"
        java = find_java()
        command = [str(java.executable), "-cp", f"{SPARK}/jars/*", "-Xmx256m"]
        command += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *MODULE_OPTIONS]
        command += ["-Dspark.deploy.recoveryMode=FILESYSTEM"]
        command += [f"-Dspark.deploy.recoveryDirectory={self._cluster.disk_at}/recovery"]
        command += [package, "--webui-port", str(_WEB_PORT), *words]
        environment = {
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(SPARK),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": self.address,
            "SPARK_LOCAL_DIRS": "/tmp/spark",
        }

        def start() -> None:
            self.popen(command, log=f"{which.lower()}.log", environment=environment)

        start()
        self._roles.append(start)


class Hosts:
    """Hosts on a bridge that nobody else is on.

    Use it as a context; inside, the calling thread is in the bridge's network, so that clients that
    it makes reach the hosts.

    Args:
        directory: For disks and logs.

    Attributes:
        shared: A directory that all hosts see.
        disk_at: Where processes of a host find its disk.
        hosts: The hosts, by their names.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shared = directory / "shared"
        self.disk_at = directory / "disk"
        self.names = self.shared / "hosts"
        self.hosts: dict[str, Host] = {}
        self._bridge: subprocess.Popen[bytes] | None = None
        self._number = 10
        self._stack = ExitStack()

    @property
    def kept(self) -> list[Path]:
        """What the hosts see of this machine's /tmp: what all of them install, and share."""
        roots = {Path(__file__).parents[2], Path(sys.prefix), Path(sys.base_prefix)}
        roots |= {find_java().home, SPARK}
        hidden = (Path("/tmp"), Path("/dev/shm"))
        below = [one for one in sorted(roots) if any(one.is_relative_to(it) for it in hidden)]
        return [self.shared, *below]

    @property
    def bridge_pid(self) -> int:
        """A process in the bridge's network."""
        assert self._bridge is not None
        return self._bridge.pid

    def __enter__(self) -> Self:
        """Build the bridge, and what is on it from the beginning."""
        self.shared.mkdir()
        self.names.write_text("127.0.0.1 localhost\n", encoding="ascii")
        try:
            self._stack.callback(self._end_bridge)
            # It lives as long as its input is open, and that is as long as the run.
            self._bridge = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self._bridge.stdout is not None
            assert self._bridge.stdout.readline() == b"ready\n"
            ip(self.bridge_pid, "link", "set", "lo", "up")
            # One of its own, or it has that of some host, and another one when that is cut off.
            ip(self.bridge_pid, "link", "add", "bridge", "address", _hardware(1), "type", "bridge")
            ip(self.bridge_pid, "address", "add", f"{BROKER_ADDRESS}/{_BITS}", "dev", "bridge")
            ip(self.bridge_pid, "link", "set", "bridge", "up")
            self._stack.enter_context(entered(self.bridge_pid))
            self._settle()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Take everything down."""
        self._stack.close()

    def _settle(self) -> None:
        """Start what is there from the beginning: nothing."""

    def _end_bridge(self) -> None:
        if self._bridge is not None:
            assert self._bridge.stdin is not None
            self._bridge.stdin.close()
            self._bridge.wait()
            assert self._bridge.stdout is not None
            self._bridge.stdout.close()

    def add(self, name: str) -> Host:
        """Add a host and start it; nothing runs on it yet."""
        host = Host(self, name, self._number)
        self._number += 1
        # In place: hosts that are up have the file itself.
        with self.names.open("a", encoding="ascii") as names:
            names.write(f"{host.address} {name}\n")
        self._stack.callback(host.kill)
        host.boot()
        self.hosts[name] = host
        return host


class Cluster(Hosts):
    """Spark's master and workers on hosts, and a broker that all of them reach.

    Attributes:
        master: The address of Spark's master.
        broker: The broker, on the bridge: it demands TLS and a login.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        class_path()  # fetched while there is a way to it: the bridge leads nowhere else
        self.master = _MASTER
        self.broker = DevelopmentBroker(
            self.shared / "broker",
            heap_mb=HEAP_MB,
            properties=PROPERTIES,
            options=BrokerOptions(fast_start=True, listen=BROKER_ADDRESS),
        )

    def _settle(self) -> None:
        self._stack.enter_context(self.broker)
        self.add("master").start_master()
        assert any(looks(self.answers)), self.hosts["master"].said("master.log")

    def add_workers(self, *names: str) -> list[Host]:
        """Add hosts with a worker each, and wait until the master knows them."""
        hosts = [self.add(name) for name in names]
        for host in hosts:
            host.start_worker()
        added = {host.address for host in hosts}
        known = looks(lambda: added.issubset(self.workers()))
        assert any(known), hosts[-1].said("worker.log")
        return hosts

    def status(self) -> Any:
        """Return what Spark's master says of itself."""
        with urlopen(f"http://{_NET}.10:{_WEB_PORT}/json/", timeout=5) as page:
            return json.load(page)

    def answers(self) -> bool:
        """Return whether Spark's master is there."""
        try:
            return self.status()["status"] == "ALIVE"
        except (OSError, ValueError):  # it listens before it has something to say
            return False

    def workers(self) -> list[str]:
        """Return the addresses of the workers that the master counts on."""
        return [one["host"] for one in self.status()["workers"] if one["state"] == "ALIVE"]

    @contextmanager
    def running(
        self, host: Host, command: Sequence[str], **how: Any
    ) -> Generator[subprocess.Popen[bytes]]:
        """Run a program on a host for as long as the block lasts, then ask it to stop."""
        process = host.popen(command, **how)
        try:
            yield process
        finally:
            signal_inside(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOPS_S)
            signal_inside(process, signal.SIGKILL)
            process.kill()
            process.wait()


def _hardware(number: int) -> str:
    """Return the hardware address of a host's card."""
    return f"02:00:00:00:00:{number:02x}"


def signal_inside(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to the program that a process let into a host, not to that process."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with suppress(OSError):
        for child in children.read_text(encoding="ascii").split():
            os.kill(int(child), number)
