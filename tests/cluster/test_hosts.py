"""Word count while hosts come, go, and are cut off, and the master is started anew."""

from __future__ import annotations

from tests.cluster.program import Program
from tests.cluster.rig import Cluster
from tests.cluster.test_state import life_on
from tests.cluster.word_count import FILES, RUN, TOPICS, Lines, counting, marks
from tests.patience import looks

pytestmark = marks


def said(program: Program) -> list[str]:
    return [one["says"] for one in program.events("said")]


def test_hosts_come_and_go_and_the_last_one_too(cluster: Cluster) -> None:
    """One that comes has work and lanes; when nobody is left the program says so and waits."""
    (a,) = cluster.add_workers("a")
    with counting(cluster) as lines:
        program = lines.program
        lines.send(300)
        program.until_epochs(1)
        (b,) = cluster.add_workers("b")
        assert any(looks(lambda: lines.send(100) or life_on(b))), program.log()
        assert any("there are 4 lanes" in text for text in said(program)), program.log()
        lines.send(3000)
        a.kill()
        b.kill()
        waits = looks(lambda: any("waiting for executors" in text for text in said(program)))
        assert any(waits), program.log()
        cluster.add_workers("c")
        lines.send(300)


def test_a_host_that_was_cut_off_and_one_that_lost_its_memory_do_no_harm(cluster: Cluster) -> None:
    """A zombie's writes are nobody's; a boot empties memory and keeps what is on the disk."""
    a, b = cluster.add_workers("a", "b")
    with counting(cluster) as lines:
        lines.send(1000)
        lines.program.until_epochs(1)
        lines.send(3000)
        a.partition()
        lines.until_counted()
        a.heal()
        lines.send(1000)
        lines.program.until_epochs(1)
        b.reboot()
        for _ in range(3):
            lines.send(300)
            lines.program.until_epochs(1)


def test_a_program_is_submitted_as_any_other(cluster: Cluster) -> None:
    """The file is Mustela's, the master is the submitter's, and the rows are the same."""
    cluster.add_workers("a")
    program = Program(cluster, cluster.add("driver"), FILES, TOPICS)
    lines = Lines(program)
    assert "run.py" in program.command("submit-script")
    with program.submitted("--master", cluster.master, "run.py", RUN, "--json"):
        program.until_running()
        for _ in range(3):
            lines.send(300)
            program.until_epochs(1)
        lines.until_counted()


def test_a_master_that_is_started_anew_finds_its_workers_and_the_program(cluster: Cluster) -> None:
    """Epochs need no master; a host that comes after its return has work from the program."""
    cluster.add_workers("a")
    with counting(cluster) as lines:
        lines.send(300)
        lines.program.until_epochs(1)
        cluster.hosts["master"].reboot()
        lines.send(300)
        lines.program.until_epochs(1)
        assert any(looks(cluster.answers)), cluster.hosts["master"].said("master.log")
        assert any(looks(lambda: len(cluster.workers()) == 1))
        (b,) = cluster.add_workers("b")
        assert any(looks(lambda: lines.send(100) or life_on(b))), lines.program.log()
