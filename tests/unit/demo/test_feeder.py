"""The feeder: every line once, in its place, and never far ahead of what is committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from mustela.model import Headers
from mustela_dev.demo.corpus import Corpus, Line
from mustela_dev.demo.feeder import SLICES, WINDOW, Feeder, slices_of
from tests.patience import PATIENCE_S


class MemorySink:
    """Keeps what it is given, and says when something came."""

    def __init__(self, broken: bool = False) -> None:
        self.rows: list[tuple[str, bytes | None, bytes | None, Headers, object]] = []
        self.flushed = threading.Semaphore(0)
        self.broken = broken
        self.closed = threading.Event()

    def produce_columns(
        self,
        topics: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
        partitions: Sequence[int | None] | int | None = None,
    ) -> None:
        if self.broken:
            raise OSError("no broker")
        assert headers is not None
        assert isinstance(partitions, list)
        self.rows += [(topics, *row) for row in zip(keys, values, headers, partitions, strict=True)]

    def flush(self) -> None:
        self.flushed.release()

    @contextmanager
    def opened(self) -> Iterator[MemorySink]:
        try:
            yield self
        finally:
            self.closed.set()


def corpus_of(size: int) -> Corpus:
    return Corpus([Line(n, f"f{n % 3}", f"line {n}", n % 2) for n in range(size)], 2)


@pytest.mark.parametrize("size", [1, 10, SLICES, SLICES + 1, 1_000])
def test_slices_hold_every_line_once(size: int) -> None:
    """Up to 64 slices of almost the same size, in order."""
    lines = corpus_of(size).lines
    parts = list(slices_of(lines))
    assert [line for part in parts for line in part] == lines
    sizes = {len(part) for part in parts}
    assert len(parts) == min(SLICES, size)
    assert max(sizes) - min(sizes) <= 1


def test_the_feeder_waits_for_what_is_committed() -> None:
    """Three slices go out; each that is committed lets one more go."""
    corpus, sink = corpus_of(SLICES * 10), MemorySink()
    feeder = Feeder(corpus, "lines", sink.opened)
    feeder.start()
    for _ in range(WINDOW):
        assert sink.flushed.acquire(timeout=PATIENCE_S)
    assert not sink.flushed.acquire(timeout=0.2)
    assert feeder.sent == WINDOW * 10
    for done in range(1, SLICES - WINDOW + 1):
        feeder.note_committed(done * 10)
        assert sink.flushed.acquire(timeout=PATIENCE_S)
        assert feeder.sent <= (done + WINDOW) * 10
    assert feeder.sent == len(corpus.lines)
    assert sink.closed.wait(PATIENCE_S)
    feeder.stop()
    assert [row[2] for row in sink.rows] == [line.text.encode() for line in corpus.lines]
    assert [row[4] for row in sink.rows] == [line.partition for line in corpus.lines]
    assert {row[0] for row in sink.rows} == {"lines"}
    ids = [row[3] for row in sink.rows]
    assert ids[:2] == [(("line", b"0"),), (("line", b"1"),)]
    assert len(set(ids)) == len(ids)


def test_a_window_of_one_waits_for_everything() -> None:
    """Before a kill inside a transaction one slice goes out at a time."""
    corpus, sink = corpus_of(SLICES * 2), MemorySink()
    feeder = Feeder(corpus, "lines", sink.opened)
    feeder.window = 1
    feeder.start()
    assert sink.flushed.acquire(timeout=PATIENCE_S)
    feeder.note_committed(1)
    assert not sink.flushed.acquire(timeout=0.2)
    feeder.note_committed(2)
    assert sink.flushed.acquire(timeout=PATIENCE_S)
    feeder.stop()
    assert sink.closed.is_set()
    assert feeder.sent == 4


def test_a_failure_reaches_whoever_watches() -> None:
    """The thread ends and its error is kept."""
    sink = MemorySink(broken=True)
    feeder = Feeder(corpus_of(10), "lines", sink.opened)
    feeder.start()
    assert sink.closed.wait(PATIENCE_S)
    feeder.stop()
    assert isinstance(feeder.error, OSError)


def test_a_feeder_that_never_began_can_be_stopped() -> None:
    """Cleaning up may come before the start."""
    Feeder(corpus_of(10), "lines", MemorySink().opened).stop()
