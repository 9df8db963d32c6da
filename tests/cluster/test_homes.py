"""Key groups at home: what the loss of an executor costs, and what one gets that comes back."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.program import Program
from tests.cluster.rig import Cluster, Host
from tests.cluster.test_state import home_on
from tests.cluster.test_word_count import FILES, TOPICS, Lines, pytestmark
from tests.patience import looks

__all__ = ["pytestmark"]

RUN = "counting.app:app"
GROUPS = 32
EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.fixture
def program(cluster: Cluster) -> Program:
    return Program(cluster, cluster.add("driver"), FILES, TOPICS)


def said(program: Program, text: str) -> list[str]:
    return [one["says"] for one in program.events("said") if text in one["says"]]


def counted(program: Program) -> Counter[str]:
    """Return the counts of all epochs so far."""
    counts = Counter[str]()
    for epoch in program.events("epoch"):
        counts.update(epoch["counters"])
    return counts


def copies_on(host: Host) -> set[str]:
    """Return the key groups that a host has on its disk."""
    return {f"{path.parent.name}/{path.name}" for path in home_on(host).glob("*/0*")}


def more_epochs(lines: Lines, program: Program) -> None:
    for _ in range(2):
        lines.send(100)
        program.until_epochs(1)


def until_copied(lines: Lines, program: Program, *hosts: Host) -> None:
    """Send lines until each of the hosts has all key groups that there are."""

    def copied() -> bool:
        lines.send(50)
        first, *others = (copies_on(host) for host in hosts)
        return len(first) > GROUPS // 2 and all(one == first for one in others)

    assert any(looks(copied)), program.log()
    more_epochs(lines, program)


def test_a_lost_executor_restores_nothing_and_gets_its_share_when_it_is_back(
    cluster: Cluster, program: Program
) -> None:
    """Each host has all key groups: half of them at home, and the others as copies."""
    a, b = cluster.add_workers("a", "b")
    lines = Lines(program)
    with program.running(RUN, "--master", cluster.master):
        program.until_running()
        until_copied(lines, program, a, b)
        assert a.kill_program(EXECUTOR) == 1
        more_epochs(lines, program)
        (lost,) = said(program, "gone")
        assert "none of them" in lost
        back = looks(lambda: lines.send(50) or said(program, "had caught up"))
        assert any(back), program.log()
        b.partition()
        more_epochs(lines, program)
        assert len(said(program, "none of them")) == 2, said(program, "gone")
        assert counted(program)["groups_restored"] == 0
        program.until_latest("counts", lines.expected)


def test_a_host_that_comes_back_without_its_disk_reads_before_it_gets_anything(
    cluster: Cluster, program: Program
) -> None:
    """As a pod that was replaced: what the driver knew of its disk is nothing any more."""
    a, b = cluster.add_workers("a", "b")
    lines = Lines(program)
    with program.running(RUN, "--master", cluster.master):
        program.until_running()
        until_copied(lines, program, a, b)
        b.reboot(disk_kept=False)
        more_epochs(lines, program)
        back = looks(lambda: lines.send(50) or said(program, "had caught up"))
        assert any(back), program.log()
        more_epochs(lines, program)
        assert counted(program)["groups_restored"] == 0
        program.until_latest("counts", lines.expected)
