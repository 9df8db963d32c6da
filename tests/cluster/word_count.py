"""Word count on a cluster, and how often each word was sent to it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from random import Random

import pytest

from tests.cluster.program import Program
from tests.cluster.rig import Cluster

__all__ = ["FILES", "RUN", "TOPICS", "Lines", "counting", "marks"]

marks = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.skipif("MUSTELA_CLUSTER_TEST" not in os.environ, reason="./dev cluster runs it"),
]
"""Marks of the tests that have a cluster of their own."""

RUN = "counting.app:app"
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
_AT_ONCE = 50_000


class Lines:
    """Sends lines of random words, and knows how often each word was in them.

    Args:
        program: Who is sent them.
        vocabulary: How many words there are.
        width: How long they are at least.
    """

    def __init__(self, program: Program, vocabulary: int = 40, width: int = 0) -> None:
        self.program = program
        self._words = [f"w{number:0{width}}" for number in range(vocabulary)]
        self._random = Random(17)
        self.sent = 0
        self.expected = Counter[str]()

    def send(self, count: int) -> None:
        """Send so many lines."""
        self.send_these(self.random(count))

    def random(self, count: int) -> list[str]:
        """Return so many lines of random words, which nobody has been sent."""
        return [" ".join(self._random.choices(self._words, k=5)) for _ in range(count)]

    def send_all(self) -> None:
        """Send each word once."""
        words = self._words
        self.send_these([" ".join(words[n : n + 5]) for n in range(0, len(words), 5)])

    def send_these(self, lines: list[str]) -> None:
        """Send lines."""
        self.sent += len(lines)
        for line in lines:
            self.expected.update(line.split())
        rows = [(str(number), line) for number, line in enumerate(lines)]
        for begin in range(0, len(rows), _AT_ONCE):  # what the producer has room for
            self.program.send("lines", rows[begin : begin + _AT_ONCE])

    def until_counted(self) -> None:
        """Wait until every word has been counted as often as it was sent, and never more."""
        self.program.until_latest("counts", self.expected)


@contextmanager
def counting(
    cluster: Cluster,
    *words: str,
    vocabulary: int = 40,
    width: int = 0,
    master: str | None = None,
) -> Generator[Lines]:
    """Count words on the hosts that there are, exactly, for as long as the block lasts.

    Args:
        cluster: The cluster.
        words: Further words of the command.
        vocabulary: How many words there are.
        width: How long they are at least.
        master: Spark's master, if it is not that of the cluster.
    """
    program = Program(cluster, cluster.add("driver"), FILES, TOPICS)
    lines = Lines(program, vocabulary, width)
    with program.running(RUN, "--master", master or cluster.master, *words):
        program.until_running()
        yield lines
        lines.until_counted()
