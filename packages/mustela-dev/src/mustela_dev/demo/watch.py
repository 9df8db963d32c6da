"""Reads what the application writes: its epochs while it runs, all its output at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mustela.cli.clients import Follower
from mustela.errors import EnvironmentFault
from mustela.serdes.primitives import IntSerde
from mustela_dev.demo.checks import CountRow, Epoch, SideRow, fold_epochs
from mustela_dev.demo.feeder import ID_HEADER

if TYPE_CHECKING:
    from mustela.model import Headers

__all__ = ["EpochWatch", "read_counts", "read_side"]

EPOCH_HEADER = "mustela.epoch"


class EpochWatch:
    """Reads every epoch record as it is committed, before the broker compacts the topic.

    Args:
        application_id: The application.
        source: The source topic.
        bootstrap_servers: The broker.
    """

    def __init__(self, application_id: str, source: str, bootstrap_servers: str) -> None:
        from mustela.runtime.record.epoch_record import epochs_topic
        from mustela.runtime.record.record_rows import RecordFold

        self._source = source
        self._follower = Follower(epochs_topic(application_id), bootstrap_servers)
        self._fold = RecordFold()
        self._there = False
        self._records: list[tuple[int, int, int, dict[int, int]]] = []
        self.incarnation = 0
        self.lanes = 0

    @property
    def epoch(self) -> int:
        """Number of the last committed epoch."""
        return self._records[-1][1] if self._records else 0

    @property
    def ends(self) -> dict[int, int]:
        """By partition, the offset after what is committed."""
        return self._records[-1][3] if self._records else {}

    @property
    def committed(self) -> int:
        """How many lines are committed: the source's offsets begin at 0 and have no gaps."""
        return sum(self.ends.values())

    def poll(self) -> None:
        """Read new records."""
        if not self._there:
            self._there = self._follower.exists()
            if not self._there:
                return
        for value in self._values():
            record = self._fold.take(value)
            if record is None:
                continue
            ends = {p.partition: p.end for p in record.partitions if p.topic == self._source}
            self._records.append((record.incarnation, record.epoch, record.attempt, ends))
            self.incarnation, self.lanes = record.incarnation, record.lanes

    def _values(self) -> Iterator[bytes]:
        try:
            for chunk in self._follower.read():
                yield from (value for value in chunk.rows.values if value is not None)
        except EnvironmentFault as error:
            # A newly created topic may have no leader yet: the next poll continues.
            if not error.retryable:
                raise

    def epochs(self) -> tuple[list[Epoch], list[str]]:
        """Return all epochs, and the faults in their sequence."""
        return fold_epochs(self._records)

    def close(self) -> None:
        """Close the connections."""
        self._follower.close()


def read_counts(topic: str, bootstrap_servers: str) -> list[CountRow]:
    """Read every change of a count that a read_committed consumer sees."""
    decode = IntSerde().deserialize
    known: dict[bytes, str] = {}
    rows: list[CountRow] = []
    for key, value, headers in _rows(topic, bootstrap_servers):
        word = known.get(key or b"")
        if word is None:
            word = known[key or b""] = (key or b"").decode()
        rows.append(CountRow(word, decode(value), _number(headers, EPOCH_HEADER)))
    return rows


def read_side(topic: str, bootstrap_servers: str) -> list[SideRow]:
    """Read every row of the side stream that a read_committed consumer sees."""
    return [
        SideRow(
            _number(headers, ID_HEADER), _text(key), _text(value), _number(headers, EPOCH_HEADER)
        )
        for key, value, headers in _rows(topic, bootstrap_servers)
    ]


def _rows(
    topic: str, bootstrap_servers: str
) -> Iterator[tuple[bytes | None, bytes | None, Headers]]:
    follower = Follower(topic, bootstrap_servers)
    try:
        for chunk in follower.read():
            rows = chunk.rows
            headers = rows.headers if rows.headers is not None else [()] * len(rows)
            yield from zip(rows.keys, rows.values, headers, strict=True)
    finally:
        follower.close()


def _number(headers: Headers, name: str) -> int | None:
    """Return the number in a header; None for a repeated header or one without a number."""
    found = [value for header, value in headers if header == name]
    if len(found) != 1 or found[0] is None or not found[0].isdigit():
        return None
    return int(found[0])


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", errors="replace")
