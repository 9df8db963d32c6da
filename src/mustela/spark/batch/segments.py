"""Records in order, written to the files that epochs read; and the times that are in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from mustela.plan.files import Segment
from mustela.spark.arrow import arrow as pa, compute as pc
from mustela.spark.files import BATCH_ROWS, RECORDS, FileReader

__all__ = ["PartitionIndex", "Written", "write_records"]


class Written(NamedTuple):
    """A file of records.

    Attributes:
        partition: Their partition.
        path: The file.
        rows: How many there are.
        tops: The largest time in each batch of the file.
    """

    partition: int
    path: str
    rows: int
    tops: list[int]


class _File:
    """A file that is written; each batch of it is full, except for the last."""

    def __init__(self, partition: int, path: str) -> None:
        self.partition = partition
        self.path = path
        self.rows = 0
        self.tops: list[int] = []
        self._waiting: list[Any] = []
        self._count = 0
        self._sink = pa.OSFile(path, "wb")
        self._writer = pa.ipc.new_file(self._sink, RECORDS)

    def add(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._count += batch.num_rows
        if self._count >= BATCH_ROWS:
            self._flush(final=False)

    def _flush(self, *, final: bool) -> None:
        table = pa.Table.from_batches(self._waiting, RECORDS).combine_chunks()
        whole = self._count if final else self._count - self._count % BATCH_ROWS
        for start in range(0, whole, BATCH_ROWS):
            part = table.slice(start, min(BATCH_ROWS, whole - start)).combine_chunks()
            self.tops.append(pc.max(part.column("time")).as_py())
            self._writer.write_batch(part.to_batches()[0])
        rest = table.slice(whole)
        self._waiting = [batch for batch in rest.to_batches() if batch.num_rows]
        self.rows += whole
        self._count -= whole

    def close(self) -> Written:
        if self._count:
            self._flush(final=True)
        self._writer.close()
        self._sink.close()
        return Written(self.partition, self.path, self.rows, self.tops)


def write_records(
    batches: Iterator[tuple[int, Any]], path: Callable[[int], str]
) -> Iterator[Written]:
    """Write records to one file for each partition.

    Args:
        batches: Partitions with records, in order, those of a partition together.
        path: The file for a partition.
    """
    file: _File | None = None
    for partition, batch in batches:
        if file is not None and file.partition != partition:
            yield file.close()
            file = None
        if batch.num_rows:
            file = file or _File(partition, path(partition))
            file.add(batch)
    if file is not None:
        yield file.close()


class PartitionIndex:
    """The times of a partition's records, as far as they are known without reading it.

    A record's order time is the largest time of the partition so far.

    Args:
        files: The partition's files, in order.
    """

    def __init__(self, files: Sequence[Written]) -> None:
        self.segments: list[Segment] = []
        self._batches: list[tuple[int, int]] = []
        self._starts: list[int] = []
        tops: list[int] = []
        start = 0
        for file in files:
            for number, top in enumerate(file.tops):
                self._batches.append((len(self.segments), number))
                self._starts.append(start + number * BATCH_ROWS)
                tops.append(top)
            self.segments.append(Segment(file.path, start, file.rows))
            start += file.rows
        self.size = start
        self.tops = list(accumulate(tops, max))
        self._reader = FileReader({})
        self._known: tuple[int, list[int]] = -1, []

    def about(self, time: int) -> int:
        """Return an offset, at most a batch before that of the first record of a time or later."""
        batch = bisect_left(self.tops, time)
        return self._starts[batch] if batch < len(self._starts) else self.size

    def offset_at(self, time: int) -> int:
        """Return the offset of the first record whose order time is ``time`` or later."""
        batch = bisect_left(self.tops, time)
        if batch == len(self.tops):
            return self.size
        return self._starts[batch] + bisect_left(self._times(batch), time)

    def time_at(self, offset: int) -> int:
        """Return the order time of a record."""
        batch = bisect_right(self._starts, offset) - 1
        return self._times(batch)[offset - self._starts[batch]]

    def _times(self, batch: int) -> list[int]:
        if self._known[0] != batch:
            segment, number = self._batches[batch]
            floor = self.tops[batch - 1] if batch else -1
            times = self._reader.times(self.segments[segment], number)
            running = list(accumulate(times, max, initial=floor))
            self._known = batch, running[1:]
        return self._known[1]
