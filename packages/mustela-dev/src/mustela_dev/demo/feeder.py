"""Feeds the input in slices, never far ahead of what the application has committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from mustela.model import Headers
from mustela_dev.demo.corpus import Corpus, Line

__all__ = ["SLICES", "WINDOW", "Feeder", "RowSink", "slices_of"]

SLICES = 64
"""Number of slices of the input."""
WINDOW = 3
"""How many slices may be uncommitted: an epoch cannot read more, so there are over 20 epochs."""
ID_HEADER = "line"
_WAIT_S = 0.05


class RowSink(Protocol):
    """What the feeder needs from a producer."""

    def produce_columns(
        self,
        topics: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
        partitions: Sequence[int | None] | int | None = None,
    ) -> None:
        """Produce rows."""
        ...

    def flush(self) -> None:
        """Wait until all have arrived."""
        ...


class Feeder:
    """Sends the lines of the corpus to a topic, from a separate thread.

    A line's id is sent as a header. Each line goes to the partition that Kafka's own partitioner
    would choose, so the demonstration knows the offset of each line without asking.

    Args:
        corpus: The lines.
        topic: Their topic.
        open_sink: Returns a producer for the duration of the feeding.
    """

    def __init__(
        self, corpus: Corpus, topic: str, open_sink: Callable[[], AbstractContextManager[RowSink]]
    ) -> None:
        self._corpus = corpus
        self._topic = topic
        self._open_sink = open_sink
        self._changed = threading.Condition()
        self._committed = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="demo-feeder", daemon=True)
        self.window = WINDOW
        self.sent = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def note_committed(self, lines: int) -> None:
        """Note how many lines the application has committed, so that more may be sent."""
        with self._changed:
            self._committed = lines
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop sending, and wait until the thread has ended."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            with self._open_sink() as sink:
                for part in slices_of(self._corpus.lines):
                    if not self._wait_for_room(len(part)):
                        return
                    self._send(sink, part)
        except Exception as error:  # noqa: BLE001 - whoever watches raises it
            self.error = error

    def _send(self, sink: RowSink, part: Sequence[Line]) -> None:
        sink.produce_columns(
            self._topic,
            [line.key.encode() for line in part],
            [line.text.encode() for line in part],
            None,
            [((ID_HEADER, str(line.number).encode()),) for line in part],
            [line.partition for line in part],
        )
        # Sent lines may be read, and committed, before the flush returns.
        self.sent += len(part)
        sink.flush()

    def _wait_for_room(self, size: int) -> bool:
        """Wait until a slice may be sent; return False if sending should stop."""
        with self._changed:
            while not self._stopped and not self._has_room(size):
                self._changed.wait(_WAIT_S)
            return not self._stopped

    def _has_room(self, size: int) -> bool:
        on_their_way = self.sent - self._committed
        return on_their_way == 0 or on_their_way + size <= self.window * size


def slices_of(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Cut the lines into `SLICES` parts of almost the same size."""
    parts = min(SLICES, len(lines))
    for number in range(parts):
        start, end = (len(lines) * at // parts for at in (number, number + 1))
        yield lines[start:end]
