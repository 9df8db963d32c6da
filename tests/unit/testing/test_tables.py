"""Rows written as tables: what is piped, and how a difference is shown."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from mustela import StreamsBuilder
from mustela.model import Windowed
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.text import from_text, to_text
from mustela.testing import TopologyTestDriver
from mustela.testing.faults import TableError
from mustela.testing.plugin import topology_test_driver
from mustela.windows import TimeWindows

__all__ = ["topology_test_driver"]  # the plugin's fixture, also where its entry point is not known

Driver = Callable[..., TopologyTestDriver]


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    customer: str
    amount: int
    day: date | None = None
    tags: list[str] | None = None


class Model(BaseModel):
    name: str
    size: float


def copies(key: Any = str, value: Any = str) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", key=key, value=value).to("out", key=key, value=value)
    return builder


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (str, "12", "12"),
        (str, '" a"', " a"),
        (int, "-3", -3),
        (float, "2.5", 2.5),
        (bool, "true", True),
        (bytes, "ab", b"ab"),
        (Decimal, "1.50", Decimal("1.50")),
        (date, "2026-01-31", date(2026, 1, 31)),
        (datetime, "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (timedelta, "PT1M", timedelta(minutes=1)),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678" * 2 + "12345678" * 2)),
        (Colour, "red", Colour.RED),
        (list[int], "[1, 2]", [1, 2]),
        ("json", '{"a": null}', {"a": None}),
        ("json", "word", "word"),
        (Model, '{"name": "a", "size": 2}', Model(name="a", size=2)),
    ],
)
def test_a_text_is_read_as_the_type_that_a_topic_has(kind: Any, text: str, value: object) -> None:
    """Cells are text; the serde says what they stand for."""
    if kind is UUID:
        value = UUID(text)
    found = from_text(text, resolve_serde(kind))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", [int, Decimal, date, Colour, UUID, list[int], Order])
def test_a_text_that_is_no_such_value_is_refused(kind: Any) -> None:
    """It is never taken for something else."""
    with pytest.raises(ValueError, match=r"."):
        from_text("seven", resolve_serde(kind))


@given(
    st.one_of(
        st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_what_is_written_as_text_is_read_again(value: object) -> None:
    """A table that a test prints can be pasted into the test."""
    assert from_text(to_text(value), resolve_serde(type(value))) == value


def test_columns_are_fields_of_the_value(topology_test_driver: Driver) -> None:
    """Dataclasses, times and headers are written in columns of their own."""
    driver = topology_test_driver(copies(value=Order))
    driver.create_input_topic("in").pipe_table(
        """
        | time                 | key | customer | amount | tags  | header.from |
        |----------------------|-----|----------|--------|-------|-------------|
        | 5                    | ann | 12       | 3      | ["a"] | web         |
        | 1970-01-01T00:00:01Z | eve | eve      | 4      |       |             |
        |                      | off |          |        |       |             |
        """
    )
    records = driver.create_output_topic("out").read_records_to_list()
    assert [record.value for record in records] == [
        Order("12", 3, tags=["a"]),
        Order("eve", 4),
        None,
    ]
    assert [record.timestamp for record in records[:2]] == [5, 1000]
    assert records[0].headers == (("from", b"web"),)


def test_only_columns_of_the_table_are_compared(topology_test_driver: Driver) -> None:
    """A test says what it is about."""
    driver = topology_test_driver(copies(value=Order))
    driver.create_input_topic("in").pipe_input("ann", Order("ann", 3, date(2026, 1, 31)))
    driver.create_output_topic("out").expect_table("key | day\n ann | 2026-01-31")
    driver.create_output_topic("out").expect_table("key")  # and nothing more


def test_windowed_keys_have_columns_for_their_times(topology_test_driver: Driver) -> None:
    """Key, start and end of a window."""
    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str).group_by_key()
    windows = TimeWindows(size=timedelta(seconds=1), grace=timedelta(0))
    lines.windowed_by(windows).count(store="counts").to_stream().to("out")
    driver = topology_test_driver(builder)
    driver.create_input_topic("in").pipe_table("time | key | value\n 1500 | ann | a")
    assert isinstance(driver.create_output_topic("out").read_record().key, Windowed)
    driver.create_input_topic("in").pipe_table("time | key | value\n 1600 | ann | a")
    driver.create_output_topic("out").expect_table(
        "key | start | end | value \n ann | 1000 | 2000 | 2"
    )


def test_a_difference_is_shown_row_by_row(topology_test_driver: Driver) -> None:
    """Rows that are as expected are shown too: they are what one looks for."""
    driver = topology_test_driver(copies(value=int))
    driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    with pytest.raises(AssertionError) as caught:
        driver.create_output_topic("out").expect_table(
            """
            key | value
            a   | 1
            b   | 20
            d   | 4
            """
        )
    assert str(caught.value).splitlines() == [
        "topic 'out' differs (- expected, + written):",
        "  key | value",
        "  a   | 1",
        "- b   | 20",
        "+ b   | 2",
        "+ c   | 3",
        "  d   | 4",
    ]


def test_order_counts_unless_a_test_says_otherwise(topology_test_driver: Driver) -> None:
    """Rows of different keys may come in any order from several lanes."""
    driver = topology_test_driver(copies(value=int))
    rows = [("a", 1), ("b", 2)]
    driver.create_input_topic("in").pipe_key_value_list(rows)
    swapped = "key | value\n b | 2\n a | 1"
    driver.create_output_topic("out").expect_table(swapped, in_any_order=True)
    driver.create_input_topic("in").pipe_key_value_list(rows)
    with pytest.raises(AssertionError):
        driver.create_output_topic("out").expect_table(swapped)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the table is empty"),
        ("key | key\n a | b", "same name"),
        ("key | value\n a", "row 1 of the table has 1 cells in 2 columns"),
        ("key | value\n a | x", "'x' is no value of type int"),
        ("key | value\n a | 1\n b | x", "row 2"),
        ("time | key | value\n noon | a | 1", "'noon' is no point in time"),
        ("key | value | amount\n a | 1 | 2", "a column 'value' and fields of the value: amount"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(
    text: str, what: str, topology_test_driver: Driver
) -> None:
    """Before anything is piped: a row with a mistake leaves no rows behind."""
    driver = topology_test_driver(copies(value=int))
    with pytest.raises(TableError, match=what):
        driver.create_input_topic("in").pipe_table(text)
    assert driver.create_output_topic("out").is_empty


def test_a_column_that_no_value_has_is_a_mistake(topology_test_driver: Driver) -> None:
    """A misspelt column cannot make a test pass."""
    driver = topology_test_driver(copies(value=Order))
    driver.create_input_topic("in").pipe_input("ann", Order("ann", 3))
    with pytest.raises(TableError, match="Order has no field 'amonut'"):
        driver.create_output_topic("out").expect_table("key | amonut\n ann |")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("", "key | value"),
        ("key | value\n a | b|c", r"key | value" + "\n" + r"a | b\|c"),
        ("time | key | value\n noon | a | b", "time | key | value\n 2026-01-31T12:00:00Z | a | b"),
    ],
)
def test_a_table_is_read_when_its_fix_is_followed(
    wrong: str, right: str, topology_test_driver: Driver
) -> None:
    """Column names first, a bar with a backslash, a moment in one of two forms."""
    topic = topology_test_driver(copies()).create_input_topic("in")
    with pytest.raises(TableError):
        topic.pipe_table(wrong)
    topic.pipe_table(right)
