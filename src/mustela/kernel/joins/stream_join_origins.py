"""Where the results of a stream-stream join come from, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mustela.model import Headers
from mustela.plan.batch import Batch, Order, Origins

__all__ = ["JoinOrigins"]


class JoinOrigins(Origins):
    """Origins of results; their order is computed on demand.

    A result comes right after the record that caused it. The result of a window that no record
    closed is ordered by its closing time, before the records of that time.

    Args:
        timestamps: Milliseconds, one per result.
        source: The records.
        rows: The row of ``source`` that caused each result; for a closed window, -1 minus its place
            in ``closes``.
        closes: When each closed window closed, and the row that closed it, or -1.
        groups: Gives the key group of each result.
    """

    __slots__ = ("_closes", "_groups", "_rows", "_source")
    _order: list[Order] | None

    def __init__(
        self,
        timestamps: list[int],
        source: Batch,
        rows: Sequence[int],
        *,
        closes: Sequence[tuple[int, int]],
        groups: Callable[[], list[int]],
    ) -> None:
        headers = source.headers
        picked: list[Headers] | None = None
        if headers is not None:
            causes = rows if not closes else [_cause(row, closes) for row in rows]
            picked = [headers[row] if row >= 0 else () for row in causes]
        super().__init__(timestamps, picked, None, source.origins.topics)
        self._source = source
        self._rows = rows
        self._closes = closes
        self._groups = groups

    @property
    def order(self) -> list[Order] | None:
        """Order per result; computed on first use."""
        if self._order is None:
            self._order = [
                (*place, group, number)
                for number, (place, group) in enumerate(
                    zip(self._places(), self._groups(), strict=True)
                )
            ]
        return self._order

    def _places(self) -> list[Order]:
        known, closes, places = self._source.order, self._closes, list[Order]()
        for row, time in zip(self._rows, self.timestamps, strict=True):
            cause = row if row >= 0 else _cause(row, closes)
            if cause < 0:
                places.append((closes[-row - 1][0], -1, -1, -1))
            elif known is None:
                places.append((time, -1, -1, -1))
            else:
                places.append(known[cause])
        return places


def _cause(row: int, closes: Sequence[tuple[int, int]]) -> int:
    return row if row >= 0 else closes[-row - 1][1]
