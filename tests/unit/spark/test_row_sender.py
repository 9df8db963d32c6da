"""The rows that tasks send themselves, and those that the broker does not take."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.connectors.kafka.errors import KafkaRetryable, RefusedRow, RowsRefused
from mustela.connectors.kafka.production import SEARCHES_MAX, ProductionError
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.spark.frames import FrameColumns
from mustela.spark.row_sender import RowSender
from tests.unit.runtime.fakes import FakeChecks, FakeSink

LATER = RowsRefused.later("MSG_SIZE_TOO_LARGE", "the batch is too large")


def bad(part: int, row: int) -> RefusedRow:
    return RefusedRow(part, row, "out", "MSG_SIZE_TOO_LARGE", "too large")


def rows(first: int, count: int = 3) -> FrameColumns:
    keys: list[bytes | None] = [b"%d" % (first + n) for n in range(count)]
    return FrameColumns("out", keys, keys, [7] * count, None, None)


def sender(handler: Any, sink: FakeSink, *known: RefusedRow, largest: int = 1_000_000) -> RowSender:
    checks: Any = FakeChecks(*known, largest=largest)
    given: Any = sink
    return RowSender(given, checks, RowHandler(handler), ("epoch", b"4"))


def arrived(sink: FakeSink) -> list[bytes]:
    """Return the keys of all that was sent, in order."""
    return [
        key
        for part in sink.sent
        for row, key in enumerate(part["keys"])
        if row not in part.get("skip", ())
    ]


def test_rows_that_fit_are_sent_once_in_batches_that_fit() -> None:
    """And nothing is left out."""
    sink = FakeSink()
    mine = sender("continue", sink, largest=2_000)
    mine.send(rows(0))
    mine.send(rows(3))
    assert mine.finish() == {}
    assert mine.letters() is None
    assert arrived(sink) == [b"%d" % n for n in range(6)]
    assert sink.batch_bytes == 2_000
    assert sink.calls == ["flush", "rows", "rows", "flush"]
    assert sink.sent[0]["header"] == ("epoch", b"4")


@pytest.mark.parametrize("handler", ["continue", "dead_letter"])
def test_rows_known_to_be_refused_are_not_sent(handler: str) -> None:
    """One flush is enough."""
    sink = FakeSink()
    mine = sender(handler, sink, bad(1, 2))
    mine.send(rows(0))
    mine.send(rows(3))
    assert mine.finish() == {"out": 1}
    assert arrived(sink) == [b"0", b"1", b"2", b"3", b"4"]
    assert sink.calls[-3:] == ["rows", "rows", "flush"]
    letters = mine.letters()
    assert (None if letters is None else letters.keys) == (
        [b"5"] if handler == "dead_letter" else None
    )


def test_what_the_broker_refuses_is_left_out_and_all_else_is_sent_again_in_order() -> None:
    """What stood in the batches of a refused row came late, or never."""
    sink = FakeSink(flush=[RowsRefused.of([bad(0, 1)]), LATER, RowsRefused.of([bad(1, 0)])])
    mine = sender("dead_letter", sink)
    mine.send(rows(0))
    mine.send(rows(3))
    assert mine.finish() == {"out": 2}
    assert arrived(sink)[-4:] == [b"0", b"2", b"4", b"5"]
    letters = mine.letters()
    assert letters is not None
    assert letters.keys == [b"1", b"3"]
    assert letters.headers is not None
    assert dict(letters.headers[0])["mustela.error.class"] == b"MSG_SIZE_TOO_LARGE"


@pytest.mark.parametrize("beforehand", [False, True])
def test_a_refused_row_fails_the_task_by_default(beforehand: bool) -> None:
    """Whoever finds it."""
    sink = FakeSink(flush=[RowsRefused.of([bad(0, 1)])])
    mine = sender("fail", sink, *([bad(0, 1)] if beforehand else []))
    with pytest.raises(ProductionError, match="1 row"):
        _ = mine.send(rows(0)), mine.finish()
    assert (arrived(sink) == []) is beforehand


def test_batches_that_are_too_large_are_no_fault_of_their_rows() -> None:
    """By default no rows are kept to be sent again: the epoch is run again, with smaller ones."""
    mine = sender("fail", FakeSink(flush=[LATER]))
    mine.send(rows(0))
    with pytest.raises(KafkaRetryable) as caught:
        mine.finish()
    assert caught.value.retryable


def test_the_search_for_refused_rows_ends() -> None:
    """A broker that refuses for ever does not keep the task for ever."""
    sink = FakeSink(flush=[LATER] * 50)
    mine = sender("continue", sink)
    mine.send(rows(0))
    with pytest.raises(RowsRefused):
        mine.finish()
    assert sink.calls.count("flush") == SEARCHES_MAX + 1
