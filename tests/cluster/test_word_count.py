"""Word count on a cluster, exact whatever happens to its hosts."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from tests.cluster.program import Program
from tests.cluster.rig import Cluster

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.skipif("MUSTELA_CLUSTER_TEST" not in os.environ, reason="./dev cluster runs it"),
]

FILES = {
    "counting/__init__.py": "",
    "counting/app.py": """
from mustela import App, StreamsBuilder
from words import words_of

app = App(application_id="words")

@app.topology
def build(builder: StreamsBuilder) -> None:
    words = builder.stream("lines", key=str, value=str).flat_map_values(words_of, name="split")
    counted = words.group_by(lambda _key, word: word, key=str, name="by-word").count(store="counts")
    counted.to_stream().to("counts", key=str, value=int)
""",
    "words.py": "def words_of(line):\n    return line.split()\n",
}
TOPICS = {"lines": 4, "counts": 2}
_WORDS = [f"w{number}" for number in range(40)]


class Lines:
    """Sends lines of random words, and knows how often each word was in them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._random = Random(17)
        self.expected = Counter[str]()

    def send(self, count: int) -> None:
        lines = [" ".join(self._random.choices(_WORDS, k=5)) for _ in range(count)]
        for line in lines:
            self.expected.update(line.split())
        self._program.send("lines", [(str(number), line) for number, line in enumerate(lines)])


def test_words_are_counted_once_while_the_host_of_an_executor_is_killed(cluster: Cluster) -> None:
    """No setting but the master: the program, its helper module and its address are found."""
    a, _ = cluster.add_workers("a", "b")
    program = Program(cluster, cluster.add("driver"), FILES, TOPICS)
    lines = Lines(program)
    with program.running("counting.app:app", "--master", cluster.master):
        program.until_running()
        for _ in range(3):
            lines.send(300)
            program.until_epochs(1)
        lines.send(3000)
        a.kill()
        for _ in range(3):
            lines.send(300)
            program.until_epochs(1)
        program.until_latest("counts", lines.expected)
