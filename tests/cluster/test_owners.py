"""Output rows that do not pass the driver: owners of partitions write them, exactly once."""

from __future__ import annotations

from collections import Counter

from benchmarks.cluster import COPYING
from tests.cluster.program import Program
from tests.cluster.rig import Cluster
from tests.cluster.word_count import TOPICS, Lines, counting, marks
from tests.patience import looks

pytestmark = marks

OWNERS = ("--set", "commit.owner_bytes=1")
EXECUTOR = "CoarseGrainedExecutorBackend"


def bytes_by_owners(program: Program) -> int:
    return sum(one["counters"].get("bytes_by_owners", 0) for one in program.events("epoch"))


def test_lines_are_copied_once_by_owners_while_their_executors_are_killed(cluster: Cluster) -> None:
    """No stage keeps state, so all of an epoch but the writing is done ahead."""
    workers = cluster.add_workers("a", "b")
    program = Program(cluster, cluster.add("driver"), COPYING, TOPICS)
    lines = Lines(program, vocabulary=1_000, width=40)
    with program.running("copying:app", "--master", cluster.master, *OWNERS):
        program.until_running()
        for number in range(6):
            lines.send(4_000)
            if number % 2:
                workers[number // 2 % 2].kill_program(EXECUTOR)
            program.until_epochs(1)
        assert any(looks(lambda: copied(program).total() >= lines.expected.total()))
        assert copied(program) == lines.expected
        assert bytes_by_owners(program) > 0


def copied(program: Program) -> Counter[str]:
    return Counter(word for _, line in program.rows("counts") for word in line.split())


def test_words_are_counted_once_by_lanes_and_owners_that_write(cluster: Cluster) -> None:
    """Changelogs come from lanes, output rows from owners, and the driver ends the transaction."""
    a, _ = cluster.add_workers("a", "b")
    with counting(cluster, *OWNERS, "--set", "commit.lane_rows=1") as lines:
        for _ in range(3):
            lines.send(3_000)
            lines.program.until_epochs(1)
        a.kill_program(EXECUTOR)
        lines.send(3_000)
        lines.program.until_epochs(1)
        lines.until_counted()
        assert bytes_by_owners(lines.program) > 0
