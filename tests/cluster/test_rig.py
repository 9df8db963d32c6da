"""The rig itself: hosts that share nothing, and nothing of which stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.network import why_not
from tests.cluster.rig import Host, Hosts
from tests.patience import PATIENCE_S, looks

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or "it can be made"),
]

REACHES = "import socket, sys; socket.create_connection((sys.argv[1], 4000), 2).close()"
SERVES = """
import socket
server = socket.create_server(("", 4000))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path) as made:
        yield made


def told(host: Host, script: str) -> str:
    """Return what a line of shell prints on a host."""
    before = len(host.said("told.log"))
    process = host.popen(["sh", "-c", script], log="told.log")
    assert process.wait(PATIENCE_S) == 0, host.said("told.log")
    return host.said("told.log")[before:]


def reaches(host: Host, other: Host) -> bool:
    """Whether a program on one host can connect to another."""
    process = host.popen([sys.executable, "-c", REACHES, other.name], log="reaches.log")
    return process.wait(PATIENCE_S) == 0


def test_hosts_share_neither_disk_nor_memory_nor_processes(hosts: Hosts) -> None:
    """What one writes the other does not see; each has another name, boot and address."""
    a, b = hosts.add("a"), hosts.add("b")
    note = f"note-{uuid4()}"
    for place in ("/tmp", "/dev/shm", str(hosts.disk_at)):
        told(a, f"echo here > {place}/{note}")
        assert told(b, f"ls {place}/{note} 2>/dev/null; true") == ""
        assert told(a, f"cat {place}/{note}") == "here\n"
    boot = "cat /proc/sys/kernel/random/boot_id; hostname; hostname -i 2>/dev/null; true"
    assert told(a, boot).splitlines()[:2] != told(b, boot).splitlines()[:2]
    a.popen([sys.executable, "-c", SERVES], log="serves.log")
    assert "create_server" not in told(b, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert not Path("/tmp", note).exists()


def test_a_reboot_keeps_the_disk_and_nothing_else(hosts: Hosts) -> None:
    a = hosts.add("a")
    told(a, f"echo kept > {hosts.disk_at}/note; echo gone > /tmp/note; echo gone > /dev/shm/note")
    boot = told(a, "cat /proc/sys/kernel/random/boot_id")
    server = a.popen([sys.executable, "-c", SERVES], log="serves.log")
    a.reboot()
    assert server.wait(PATIENCE_S) != 0
    assert told(a, f"cat {hosts.disk_at}/note; ls /tmp/note /dev/shm/note 2>/dev/null; true") == (
        "kept\n"
    )
    assert told(a, "cat /proc/sys/kernel/random/boot_id") != boot


def test_a_host_that_is_cut_off_runs_on_and_is_reached_again(hosts: Hosts) -> None:
    """Its programs do not end, and nobody is told anything: packets are lost, both ways."""
    a, b = hosts.add("a"), hosts.add("b")
    server = b.popen([sys.executable, "-c", SERVES], log="serves.log")
    assert any(looks(lambda: "listening" in b.said("serves.log")))
    assert reaches(a, b)
    b.partition()
    assert not reaches(a, b)
    assert server.poll() is None
    b.heal()
    assert any(looks(lambda: reaches(a, b)))
    b.kill()
    assert server.wait(PATIENCE_S) != 0
    assert not reaches(a, b)


def test_nothing_stays_behind_of_a_run_that_is_killed(tmp_path: Path) -> None:
    """No process of the hosts and no network: the kernel takes them when the run ends."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.cluster.rig import Hosts\n"
        f"with Hosts(Path({str(tmp_path)!r})) as hosts:\n"
        "    host = hosts.add('a')\n"
        "    host.popen(['sleep', '100000'], log='sleep.log')\n"
        "    print(host.pid, hosts.bridge_pid, flush=True)\n"
        "    time.sleep(100000)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert run.stdout is not None
    first, bridge = (int(word) for word in run.stdout.readline().split())
    links = {os.readlink(f"/proc/{pid}/ns/net") for pid in (first, bridge)}
    assert len(links) == 2
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert any(looks(lambda: not (links & set(networks()))))


def networks() -> Iterator[str]:
    """Yield the network of each process of this machine."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            yield os.readlink(entry / "ns/net")
        except OSError:
            continue
