"""Which rows of the table with a ``ttl`` an epoch must have, by the table's topic and event time.

That changelogs say the same of it is one thing, that it is right another: a row is there if and
only if its record is younger than the ttl by the watermark with which the epoch ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.reads.book import Book
from tests.faults.reads.program import TTL_MS
from tests.faults.watch import Row

__all__ = ["FRESH", "wrongly_kept"]

FRESH = "fresh"
"""The store, and the last part of its topic."""


def wrongly_kept(
    book: Book, records: Iterable[EpochRecord], topic: str, rows: Mapping[int, Sequence[Row]]
) -> list[str]:
    """Return what is wrong with what epochs left in the table.

    Args:
        book: What they left.
        records: Their records, in order.
        topic: The topic of the table.
        rows: The committed records of the topic, by partition.
    """
    last: dict[str, Row] = {}
    taken = dict.fromkeys(rows, 0)
    found: list[str] = []
    for record in records:
        for part in record.partitions:
            if part.topic != topic:
                continue
            log = rows[part.partition]
            while taken[part.partition] < len(log):
                row = log[taken[part.partition]]
                if row.offset >= part.end:
                    break
                assert row.key is not None
                last[row.key.decode()] = row
                taken[part.partition] += 1
        over = record.watermark - TTL_MS
        wanted = {
            (key, None, None): row.value.decode()
            for key, row in last.items()
            if row.value is not None and row.timestamp > over
        }
        left = book.at(record.epoch, FRESH)
        if left != wanted:
            differ = sorted(k for k in {**left, **wanted} if left.get(k) != wanted.get(k))
            ages = [(key, record.watermark - last[key].timestamp) for key, _, _ in differ]
            found.append(
                f"epoch {record.epoch} left {len(left)} rows in {FRESH}, not {len(wanted)}; these"
                f" differ, with their age in milliseconds: {ages[:4]}"
            )
    return found
