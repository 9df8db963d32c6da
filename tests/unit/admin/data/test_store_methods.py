"""The query methods of custom stores over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.processors import ContextualProcessor, Record
from mustela.stores import CustomStore, query_method
from tests.unit.admin.data.shown import QUERY, Served


class Notes(CustomStore):
    """Lines by key."""

    def write(self, key: str, line: str) -> None:
        """Keep a line."""
        self.rows(key).put(line.encode(), b"")

    @query_method
    def lines(self, key: str, most: int = 10) -> list[str]:
        """The first lines of a key."""
        return [line.decode() for line, _ in self.rows(key).range()][:most]

    @query_method
    def each(self, key: str) -> Iterator[str]:
        """The lines of a key, one by one."""
        return (line.decode() for line, _ in self.rows(key).range())

    @query_method
    def count(self, key: Any) -> int:
        """How many lines a key has."""
        return len(self.lines(key))

    @query_method
    def about(self) -> complex:
        """What JSON has not."""
        return 1j


class Write(ContextualProcessor):
    """Keeps what comes."""

    def process(self, record: Record) -> None:
        """Keep a record."""
        self.context.state_store("notes").write(record.key, record.value)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(Write, stores=[Notes().builder("notes", key=str)], name="written")
    with TopologyTestDriver(builder, key_groups=4) as driver:
        topic = driver.create_input_topic("in", key=str, value=str)
        for line in ("x", "y", "z"):
            topic.pipe_input("a", line)
        yield Served(driver)


def test_a_method_is_called_with_typed_parameters(served: Served) -> None:
    """In the address or in the body; iterators become lists; each answer has its epoch."""
    path = "/stores/notes/methods"
    listed = served.json(path)["methods"]
    assert [(each["query"], each["doc"]) for each in listed] == [
        ("about", "What JSON has not."),
        ("count", "How many lines a key has."),
        ("each", "The lines of a key, one by one."),
        ("lines", "The first lines of a key."),
    ]
    found = served.json(f"{path}/lines?key=a&most=2")
    assert (found["result"], found["epoch"]) == (["x", "y"], served.epoch)
    assert served.json(f"{path}/each?key=a")["result"] == ["x", "y", "z"]
    assert served.json(f"{path}/count?key=a")["result"] == 3
    posted = served.client.post(f"{path}/lines", QUERY.query, json={"key": "a", "most": 1})
    assert posted.json()["result"] == ["x"]


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ("lines", 400, "QUERY_PARAMETER"),
        ("lines?key=a&most=many", 400, "QUERY_PARAMETER"),
        ("lines?key=a&more=1", 400, "QUERY_PARAMETER"),
        ("write?key=a&line=b", 404, "QUERY_PATH"),
        ("rows?key=a", 404, "QUERY_PATH"),
        ("about", 500, "QUERY_RESULT"),
    ],
)
def test_what_is_no_method_or_no_parameter_is_refused(
    served: Served, asked: str, status: int, code: str
) -> None:
    """What writes is not reached, and who asks as of other stores is told of the methods."""
    assert served.json(f"/stores/notes/methods/{asked}", status)["code"] == code
    assert "methods" in served.json("/stores/notes/a", 400)["fix"]
    assert served.json("/stores/notes/methods/lines?key=a")["result"] == ["x", "y", "z"]
