"""Handing columns to a producer, with a producer that only remembers."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from mustela.connectors.kafka import columns as module
from mustela.connectors.kafka.columns import Columns, feed


class Remembers:
    """A producer whose queue is full now and then, and that refuses rows by their value."""

    def __init__(self, *, full_at: tuple[int, ...] = (), refused: tuple[bytes, ...] = ()) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.polls = 0
        self._full_at = list(full_at)
        self._refused = refused

    def produce(self, topic: str, value: bytes, *rest: Any) -> None:
        if self._full_at and len(self.rows) == self._full_at[0]:
            del self._full_at[0]
            raise BufferError
        if value in self._refused:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if value == b"fatal":
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.rows.append((topic, value, *rest))

    def poll(self, _timeout: float) -> int:
        self.polls += 1
        return 0


def fed(producer: Remembers, columns: Columns, **options: Any) -> list[int]:
    refused: list[int] = []
    feed(
        cast("Producer", producer),
        columns,
        options.get("callback"),
        lambda row, _error: refused.append(row),
    )
    return refused


def test_every_row_goes_out_once_and_in_order_when_the_queue_is_full() -> None:
    """The row that met the full queue is the one that is tried again."""
    producer = Remembers(full_at=(0, 3, 9, 9, 17_500))
    values = [b"%d" % number for number in range(25_000)]
    assert fed(producer, Columns(topics="t", keys=[None] * 25_000, values=values)) == []
    assert [row[1] for row in producer.rows] == values


def test_a_row_that_the_client_refuses_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused rows are named by their index, over slices too."""
    monkeypatch.setattr(module, "SLICE_ROWS", 4)
    producer = Remembers(refused=(b"0", b"3", b"9"))
    values = [b"%d" % number for number in range(10)]
    assert fed(producer, Columns(topics="t", keys=[None] * 10, values=values)) == [0, 3, 9]
    assert [row[1] for row in producer.rows] == [b"1", b"2", b"4", b"5", b"6", b"7", b"8"]


def test_a_client_that_takes_no_more_rows_raises() -> None:
    """Only what is wrong with a row is a row's fault."""
    with pytest.raises(KafkaException):
        fed(Remembers(), Columns(topics="t", keys=[None], values=[b"fatal"]))


def test_columns_become_arguments() -> None:
    """Times before 1970, partitions that are not known, and a header for all."""
    producer = Remembers()
    columns = Columns(
        topics=["a", "b"],
        keys=[b"k", None],
        values=[None, b"v"],
        timestamps=[0, 1_700_000_000_000],
        headers=[(("h", b"1"),), ()],
        partitions=[None, 3],
        header=("epoch", b"7"),
    )
    fed(producer, columns)
    assert producer.rows == [
        ("a", None, b"k", -1, None, None, 1, [("h", b"1"), ("epoch", b"7")]),
        ("b", b"v", None, 3, None, None, 1_700_000_000_000, [("epoch", b"7")]),
    ]


def test_rows_that_are_left_out_keep_the_numbers_of_the_others() -> None:
    """The caller knows a row by its index in what it gave."""
    columns = Columns(topics="t", keys=[b"a", b"b", b"c"], values=[b"1", b"2", b"3"])
    left = columns.without({0}).without({0})
    assert list(left.values) == [b"3"]
    assert left.original(0) == 2


def test_columns_of_different_lengths_are_a_mistake() -> None:
    """A column that is short would end the loop early, without a word."""
    with pytest.raises(AssertionError):
        fed(Remembers(), Columns(topics="t", keys=[b"k"], values=[b"1", b"2"]))
