"""The judge of clients' answers: what epochs left is decoded rightly, and what is wrong is told."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.runtime.record.epoch_record import PartitionState
from tests.faults.reads.book import Book
from tests.faults.reads.expiry import FRESH, wrongly_kept
from tests.faults.reads.judge import Judge
from tests.faults.reads.program import RELEASES, SHAPES, draw, maker
from tests.faults.reads.served import rows_of_all
from tests.faults.watch import Row

Look = dict[str, Any]
GROUPS = 4
EPOCH_MS = 150
SEEDS = (1, 7, 8)
"""Their programs have stores of all kinds."""


class Ends(NamedTuple):
    """What a book reads of an epoch's record."""

    epoch: int
    changelog_ends: Mapping[str, list[int]]
    global_ends: Mapping[str, tuple[str, list[int]]]
    partitions: list[PartitionState]
    watermark: int


class Played(NamedTuple):
    """What came of a program: its book, what a reader saw after each epoch, and its input."""

    book: Book
    looks: list[Look]
    records: list[Ends]
    input: dict[str, list[Row]]


def played(seed: int) -> tuple[Book, list[Look]]:
    """Run a program in the test driver; return its book, and what a reader saw after each epoch."""
    found = _played(seed)
    return found.book, deepcopy(found.looks)


@cache
def _played(seed: int) -> Played:
    program = draw(seed, RELEASES - 1)
    rng = random.Random(seed)
    make = maker(program.topics)
    records: list[Ends] = []
    looks: list[Look] = []
    builder = StreamsBuilder()
    program.build(builder, "t")
    sent_rows: dict[str, list[Row]] = {topic: [] for topic in program.topics}
    settings = {"event_time": "watermark"}
    with TopologyTestDriver(builder, key_groups=GROUPS, settings=settings) as driver:
        inputs = {topic: driver.create_input_topic(f"t.{topic}") for topic in program.topics}
        logs = driver._cluster.changelogs  # pyright: ignore[reportPrivateUsage]
        for number in range(60):
            with driver.epoch():
                for part in range(4):
                    sent = make(rng, 4 * number + part)
                    value: Any = sent.value
                    if sent.topic == "documents" and value is not None:
                        value = json.loads(value)
                    inputs[sent.topic].pipe_input(sent.key, value, timestamp=EPOCH_MS * number)
                    sent_rows[sent.topic].append(
                        Row(
                            0,
                            len(sent_rows[sent.topic]),
                            sent.key.encode(),
                            None if sent.value is None else sent.value.encode(),
                            None,
                            EPOCH_MS * number,
                        )
                    )
            driver.advance_wall_clock_time(EPOCH_MS)
            with driver.snapshot() as snapshot:
                rows = rows_of_all(snapshot, program)
                looks.append({"client": "c", "epoch": snapshot.epoch, "stores": rows})
                ends = {
                    name: [len(logs.get((name, group), ())) for group in range(GROUPS)]
                    for name in program.shapes
                }
                read = {topic: len(rows) for topic, rows in sent_rows.items()}
                records.append(
                    Ends(
                        snapshot.epoch,
                        ends,
                        {topic: ("", [end]) for topic, end in read.items()},
                        [PartitionState(topic, 0, end) for topic, end in read.items()],
                        -1 if driver.watermark is None else driver.watermark,
                    )
                )
        kept = {
            name: {
                group: [
                    Row(group, at, key, row, None, 0)
                    for at, (key, row) in enumerate(logs.get((name, group), ()))
                ]
                for group in range(GROUPS)
            }
            for name in program.shapes
        }
    copied = {name: s.topic for name, s in program.shapes.items() if s.layout == "global"}
    kept |= {name: {0: sent_rows[topic]} for name, topic in copied.items()}
    book = Book(records, kept, program.shapes, copied)  # type: ignore[arg-type]
    return Played(book, looks, records, sent_rows)


def judged(book: Book, looks: list[Look]) -> list[str]:
    """Return what is wrong with looks."""
    judge = Judge(book, SHAPES)
    judge.take(looks)
    return judge.violations


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_reader_sees_is_what_changelogs_add_up_to(seed: int) -> None:
    """Stores of all kinds, decoded here and by the library; the programs have all shapes."""
    book, looks = played(seed)
    assert len(book) > len(looks) == 60
    assert judged(book, looks) == []
    assert all(looks[-1]["stores"].values())


def test_the_programs_of_few_seeds_have_stores_of_all_kinds() -> None:
    """Each release has one store more, and keeps those that were there."""
    assert {name for seed in SEEDS for name, _ in draw(seed, RELEASES - 1).stores} == {*SHAPES}
    for seed in range(20):
        sizes = [draw(seed, release).stores for release in range(RELEASES)]
        assert all(after[:-1] == before for before, after in pairwise(sizes))


Spoil = Callable[[list[Look]], None]


def _older(looks: list[Look]) -> None:
    looks[30], looks[40] = looks[40], looks[30]


def _torn(looks: list[Look]) -> None:
    looks[30]["stores"]["counts"] = looks[31]["stores"]["counts"]


def _never(looks: list[Look]) -> None:
    looks[30]["epoch"] = 1_000


def _asked(looks: list[Look]) -> None:
    looks[30]["least"] = looks[30]["epoch"] + 1


def _short(looks: list[Look]) -> None:
    looks[30]["stores"]["sessions"].pop()


def _twice(looks: list[Look]) -> None:
    rows = looks[30]["stores"]["versions"]
    rows.append(rows[0])


def _unnamed(looks: list[Look]) -> None:
    looks[30] |= {"epoch": None, "least": 40, "stores": {"counts": looks[20]["stores"]["counts"]}}


def _page(looks: list[Look]) -> None:
    rows = [row for row in sorted(looks[30]["stores"]["counts"]) if row[0] > "k05"]
    del rows[2]
    page = {"store": "counts", "after": "k05", "rows": rows[:5], "last": False}
    looks[30] |= {"stores": {}, "page": page}


def _some(looks: list[Look]) -> None:
    looks[30] |= {"stores": {}, "some": {"store": "counts", "keys": ["k01"], "found": {"k01": -1}}}


def _sums(looks: list[Look]) -> None:
    looks[30] |= {"stores": {}, "sums": {"counts": [1, 1]}}


def _held(looks: list[Look]) -> None:
    rows = [row for row in looks[25]["stores"]["fresh"] if row[0].startswith("k0")]
    held = {"store": "fresh", "prefix": "k0", "rows": rows, "before": None}
    looks[30] |= {"stores": {}, "held": held}


def _left_out(looks: list[Look]) -> None:
    held = {"store": "fresh", "prefix": "", "rows": looks[30]["stores"]["fresh"], "before": 20}
    looks[30] |= {"stores": {}, "place": "app", "held": held}


def _copied(looks: list[Look]) -> None:
    looks[30]["stores"]["shops"] = looks[33]["stores"]["shops"]


@pytest.mark.parametrize(
    "spoil",
    [
        _older,
        _torn,
        _never,
        _asked,
        _short,
        _twice,
        _unnamed,
        _page,
        _some,
        _sums,
        _held,
        _left_out,
        _copied,
    ],
)
def test_a_wrong_answer_is_told(spoil: Spoil) -> None:
    """Whatever is wrong with one of many."""
    book, looks = played(7)
    spoil(looks)
    found = judged(book, looks)
    assert len(found) == (10 if spoil is _older else 1), found


def test_rows_are_there_as_long_as_they_are_younger_than_their_ttl() -> None:
    """What epochs left agrees with the input and the watermark; one epoch earlier it would not."""
    found = _played(7)
    log = {0: found.input[FRESH]}
    records: Any = found.records
    assert wrongly_kept(found.book, records, FRESH, log) == []
    sizes = {len(look["stores"][FRESH]) for look in found.looks[20:]}
    assert len(sizes) > 2, "rows expire and come"
    early: Any = [each._replace(watermark=each.watermark - EPOCH_MS) for each in found.records]
    assert len(wrongly_kept(found.book, early, FRESH, log)) > 10
