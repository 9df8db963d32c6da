"""Custom stores, in every way in which a topology runs."""

from __future__ import annotations

from typing import Any

from mustela import Record, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.stores import CountMin, CustomStore, Intervals, Leaderboard, query_method
from mustela.topology.graph import TopologyGraph
from tests.conformance.conftest import RunTopology
from tests.conformance.script import Sent


class Trail(CustomStore):
    """The last words of a key; a class of the test's own, with a parameter."""

    kept: int = 2

    def walk(self, key: str, word: str) -> None:
        """Add a word, and drop the oldest one."""
        rows = self.rows(key)
        last = rows.first(reverse=True)
        number = 0 if last is None else 1 + int.from_bytes(last[0], "big")
        rows.put(number.to_bytes(8, "big"), word.encode())
        if number >= self.kept:
            rows.delete((number - self.kept).to_bytes(8, "big"))

    @query_method
    def words(self, key: str) -> list[str]:
        """Return the last words, the oldest first."""
        return [word.decode() for _, word in self.rows(key).range()]


class Shapes(ContextualProcessor[str, str, str, str]):
    """Writes a word into four stores and tells what they know then."""

    def process(self, record: Record[str, str]) -> None:
        key, word = record.key, record.value
        board: Leaderboard = self.context.state_store("board")
        seen: CountMin = self.context.state_store("seen")
        busy: Intervals = self.context.state_store("busy")
        trail: Trail = self.context.state_store("trail")
        board.add(key, word, len(word))
        seen.add(key, word)
        busy.put(key, record.timestamp, record.timestamp + 3, word)
        trail.walk(key, word)
        told = (
            board.rank(key, word),
            seen.estimate(key, word),
            [one.value for one in busy.at(key, record.timestamp)],
            trail.words(key),
        )
        self.context.forward(record.with_value(repr(told)))


class Look(ContextualProcessor[str, str, str, str]):
    """Tells of any key, as it was before the epoch."""

    def process(self, record: Record[str, str]) -> None:
        board: Any = self.context.any_key_store("board")
        trail: Any = self.context.any_key_store("trail")
        told = ([one.member for one in board.page(record.value, 1, 2)], trail.words(record.value))
        self.context.forward(record.with_value(repr(told)))


def topology() -> TopologyGraph:
    """One step writes, another one reads other keys."""
    builder = StreamsBuilder()
    stores = [
        Leaderboard().builder("board", key=str),
        CountMin(width=100).builder("seen", key=str),
        Intervals().builder("busy", key=str, value=str),
        Trail(kept=2).builder("trail", key=str),
    ]
    words = builder.stream("in", key=str, value=str)
    words.process(Shapes, stores=stores, name="shapes").to("out", key=str, value=str)
    asked = builder.stream("asked", key=str, value=str)
    looked = asked.process(Look, reads=["board", "trail"], name="look")
    looked.to("told", key=str, value=str)
    return builder.build()


SENT = [
    *(Sent("in", "ann", "fig", 1), Sent("in", "ann", "pear", 2), Sent("in", "cid", "nut", 2)),
    *(Sent("in", "ann", "fig", 3), Sent("asked", "x", "ann", 4), Sent("in", "ann", "plum", 9)),
    *(Sent("asked", "y", "cid", 10), Sent("asked", "z", "nil", 11)),
]


def test_custom_stores_are_kept_as_all_stores_are(run_topology: RunTopology) -> None:
    """Written in a processor, read by any key, restored from their changelogs after a crash."""
    produced = run_topology(topology(), SENT)
    assert sorted(produced["out"], key=lambda row: row[0]) == [
        ("ann", "(1, 1, ['fig'], ['fig'])"),
        ("ann", "(1, 1, ['fig', 'pear'], ['fig', 'pear'])"),
        ("ann", "(1, 2, ['fig', 'pear', 'fig'], ['pear', 'fig'])"),
        ("ann", "(3, 1, ['plum'], ['fig', 'plum'])"),
        ("cid", "(1, 1, ['nut'], ['nut'])"),
    ]
    assert sorted(produced["told"]) == [
        ("x", "(['fig', 'pear'], ['pear', 'fig'])"),
        ("y", "(['nut'], ['nut'])"),
        ("z", "([], [])"),
    ]
