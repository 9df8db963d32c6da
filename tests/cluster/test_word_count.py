"""Word count on a cluster, exact whatever happens to its hosts."""

from __future__ import annotations

from tests.cluster.rig import Cluster
from tests.cluster.word_count import counting, marks

pytestmark = marks


def test_words_are_counted_once_while_the_host_of_an_executor_is_killed(cluster: Cluster) -> None:
    """No setting but the master: the program, its helper module and its address are found."""
    a, _ = cluster.add_workers("a", "b")
    with counting(cluster) as lines:
        for _ in range(3):
            lines.send(300)
            lines.program.until_epochs(1)
        lines.send(3000)
        a.kill()
        for _ in range(3):
            lines.send(300)
            lines.program.until_epochs(1)
