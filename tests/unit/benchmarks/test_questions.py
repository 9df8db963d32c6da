"""The benchmark of queries: its ways of asking, without a broker and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import answers
from benchmarks.answers import Right, key_of, row_of, told
from benchmarks.peers.mustela_programs import PROGRAMS, Order
from benchmarks.peers.store_asker import StoreAsker
from benchmarks.questions import QUESTIONS, answered, compared
from benchmarks.trial import WrongOutputError
from benchmarks.ways import Asked, Plain
from mustela import StreamsBuilder, TopologyTestDriver

ROWS = 60


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "RANGE_ROWS", 20)


class Driver:
    """The ways inside of a process, over the test driver instead of an application."""

    name = "driver"

    def __init__(self, driver: TopologyTestDriver, way: str) -> None:
        self.asker: Any = StoreAsker(driver)  # pyright: ignore[reportArgumentType]
        self.way = way

    def knows(self, question: str) -> bool:
        return hasattr(self.asker, f"_{self.way}_{question}")

    def ask(self, question: str, keys: list[str]) -> Asked:
        found = [getattr(self.asker, f"_{self.way}_{question}")(key) for key in keys]
        told_by = getattr(self.asker, f"_told_{self.way}")
        return Asked([1.0] * len(keys), [told_by(question, each) for each in found])


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    PROGRAMS["orders"]("orders", "out")(builder)
    with TopologyTestDriver(builder) as made:
        rows = [(key.decode(), Order(**json.loads(value))) for key, value in answers.records(ROWS)]
        made.create_input_topic("orders").pipe_key_value_list(rows)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("way", ["process", "sql", "duckdb"])
def test_each_question_has_the_right_answer_in_each_way(
    driver: TopologyTestDriver, way: str
) -> None:
    """Single keys, ranges, sums and everything, as the oracle says."""
    asked = Plain(ROWS) if way == "duckdb" else Driver(driver, way)
    for question in QUESTIONS:
        assert asked.knows(question)
        assert answered(asked, question, [key_of(3), key_of(17)], Right(ROWS)) > 0


def test_a_wrong_answer_has_no_time(driver: TopologyTestDriver) -> None:
    """A row too few, or another total, ends the benchmark."""
    for rows in (ROWS + 1, ROWS - 1):
        for question in ("sums", "scan"):
            with pytest.raises(WrongOutputError, match=question):
                answered(Driver(driver, "process"), question, [""], Right(rows))
    key, city, total = row_of(5)
    assert len({told([]), told([(key, city, total)]), told([(key, city, total + 1)])}) == 3


def test_ratios_are_those_of_turns() -> None:
    """Each time is held against the other's of the same turn."""
    found = compared(
        {"kafka streams": [1.0, 4.0, 2.0], "duckdb": [0.5] * 3, "sql": [2.0, 4.0, 6.0]}
    )
    assert found["sql"]["to_kafka_streams"] == 2.0
    assert found["sql"]["to_duckdb"] == 8.0
    assert found["sql"]["seconds"] == 4.0
