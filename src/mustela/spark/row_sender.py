"""The sink rows of one task, sent by the task itself: at_least_once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from mustela.connectors.kafka.errors import KafkaRetryable, RefusedRow, RowsRefused
from mustela.connectors.kafka.plain import PlainSink
from mustela.connectors.kafka.production import SEARCHES_MAX, letters_of, production_error
from mustela.connectors.kafka.row_checks import RowChecks
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.spark.frames import FrameColumns

__all__ = ["RowSender"]


class RowSender:
    """Sends rows, and sees to those that the broker refuses.

    The broker refuses whole batches, and what was sent behind one of them overtook it. So where
    rows are left out all others are sent again, in order: they may be there twice, which is what
    at_least_once says, and each key's last row is the right one.

    Args:
        sink: The process's producer.
        checks: Finds rows that the broker would refuse before they are sent.
        handler: What to do with them.
        header: A header that each row gets besides its own.
        claim: Raises where another instance has taken over: nothing is sent then.
    """

    def __init__(
        self,
        sink: PlainSink,
        checks: RowChecks,
        handler: RowHandler,
        header: tuple[str, bytes] | None,
        claim: Callable[[], None] = lambda: None,
    ) -> None:
        self._claim = claim
        self._sink = sink
        self._checks = checks
        self._handler = handler
        self._header = header
        self._kept: list[FrameColumns] = []
        self._refused: dict[int, dict[int, RefusedRow]] = {}
        self._buried: set[tuple[object, int]] = set()
        self._count = 0

    def send(self, columns: FrameColumns) -> None:
        """Send rows, but for those that would be refused.

        Raises:
            ProductionError: If there are some, and the handler says to fail.
            MissingTopicError: If a topic does not exist.
            TransactionFenced: If another instance took over.
        """
        number, self._count = self._count, self._count + 1
        found = self._checks.refused(number, columns)
        if found:
            self._leave_out(RowsRefused.of(found), columns)
        batch_bytes = self._checks.batch_bytes(columns.topics)
        if batch_bytes < self._sink.batch_bytes:
            self.finish()
            self._sink.fit(batch_bytes)
        if not self._handler.fails:  # else nothing is ever sent again
            self._kept.append(columns)
        self._produce(number, columns)

    def finish(self) -> Counter[str]:
        """Wait until the broker has every row that it takes.

        Returns:
            How many rows were left out, by topic.

        Raises:
            ProductionError: If the broker refuses rows, and the handler says to fail.
            EnvironmentFault: If rows could not be sent. Where they only have to be sent in smaller
                batches, from now on they are.
        """
        for _ in range(SEARCHES_MAX):
            try:
                self._sink.flush()
            except RowsRefused as error:
                self._leave_out(error)
                for number, columns in enumerate(self._kept):
                    self._produce(number, columns)
            else:
                break
        else:
            self._sink.flush()
        return Counter(row.topic for row in self._rows())

    def letters(self) -> FrameColumns | None:
        """Return what was left out as dead letters; None if there are none."""
        refused = [row for row in self._rows() if (row.tag, row.row) in self._buried]
        if not refused:
            return None
        letters = letters_of(refused, self._columns_of, "")
        return FrameColumns("", letters.keys, letters.values, None, letters.headers, None)

    def give_up(self) -> None:
        """Forget what is not sent yet: the task failed, and its epoch will run again."""
        self._sink.close()
        self._kept.clear()

    def _produce(self, number: int, columns: FrameColumns) -> None:
        skip: Collection[int] = self._refused.get(number, ())
        self._claim()
        self._sink.produce_columns(*columns, header=self._header, tag=number, skip=skip)

    def _leave_out(self, error: RowsRefused, columns: FrameColumns | None = None) -> None:
        """Apply the production handlers.

        Args:
            error: What was refused.
            columns: The rows, where they are not kept yet.
        """
        if self._handler.fails and not error.known:
            raise KafkaRetryable(error.what, evidence=error.evidence, why=error.why) from error
        for row in error.rows:
            word = "fail"
            if not self._handler.fails:
                word = self._handler.judge(row, columns or self._columns_of(row))
            if word == "fail":
                raise production_error(error.rows, error) from error
            if word == "dead_letter":
                self._buried.add((row.tag, row.row))
            self._refused.setdefault(_part(row), {})[row.row] = row

    def _rows(self) -> list[RefusedRow]:
        return [row for rows in self._refused.values() for row in rows.values()]

    def _columns_of(self, row: RefusedRow) -> FrameColumns:
        return self._kept[_part(row)]


def _part(row: RefusedRow) -> int:
    assert isinstance(row.tag, int), "rows are tagged with the number of their part"
    return row.tag
