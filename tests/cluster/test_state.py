"""State on the hosts of executors: of which life it is, and what is cleaned away."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.program import Program
from tests.cluster.rig import Cluster, Host
from tests.cluster.word_count import FILES, RUN, TOPICS, Lines, marks
from tests.patience import looks

pytestmark = marks


def home_on(host: Host) -> Path:
    return host.disk / "mustela" / "words"


def life_on(host: Host) -> str:
    note = home_on(host) / "tenant"
    return note.read_text(encoding="utf-8").splitlines()[1] if note.exists() else ""


def test_after_a_reset_no_host_counts_from_what_it_had(cluster: Cluster) -> None:
    """A reset deletes on the driver's host; executors find out that a new life has begun.

    So what they kept of the old one is neither read nor left on their disks, nor is that of stores
    that the program no longer has, nor shared memory of programs that were killed.
    """
    hosts = cluster.add_workers("a", "b")
    program = Program(cluster, cluster.add("driver"), FILES, TOPICS)
    lines = Lines(program)
    with program.running(RUN, "--master", cluster.master):
        program.until_running()
        for _ in range(3):
            lines.send(300)
            program.until_epochs(1)
        lines.until_counted()
    before = {host.name: life_on(host) for host in hosts}
    assert before["a"] == before["b"] != ""
    program.command("reset", "words", "--yes")
    orphan = f"/dev/shm/mustela-{os.geteuid()}-gone"
    for host in hosts:
        (home_on(host) / "0ld57a7e" / "00001").mkdir(parents=True)
        host.put(f"{orphan}/owner", "1:1:another boot:1")
    with program.running(RUN, "--master", cluster.master):
        program.until_running()
        for _ in range(3):
            lines.send(300)
            program.until_epochs(1)
        lines.until_counted()
        for host in hosts:
            assert any(looks(lambda host=host: life_on(host) not in ("", before[host.name])))
            assert not (home_on(host) / "0ld57a7e").exists()
            assert not Path(f"/proc/{host.pid}/root{orphan}").exists()
