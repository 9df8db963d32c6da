"""The rows of a key group by record key, with more rows beside them: an index, a count, times.

Layout: ``01`` and the record key, then what the kind keeps before a row, and the row. What other
first bytes mean is the kind's own; see layout.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mustela.state.kinds.layout import KEY_ROW, RowView, key_row, key_rows
from mustela.state.ordered import prefix_end
from mustela.state.overlay import StoreOverlay

__all__ = ["RecordRows"]


class RecordRows:
    """The rows of one key group by record key, whatever else the kind keeps.

    A kind says in `put_many` how a row is written, and what is written beside it; that is also
    what deletes. All else is here.

    Args:
        view: The rows of the store, as they are on disk and in the changelog.

    Attributes:
        head_bytes: How many bytes the kind keeps before a row.
    """

    head_bytes = 0

    def __init__(self, view: RowView) -> None:
        self.view = view

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        stored = self.view.get(key_row(key))
        return None if stored is None else stored[self.head_bytes :]

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        return self._rows(self.view.getmulti(key_rows(keys)))

    def load(self, keys: Sequence[bytes]) -> None:
        """Fetch what will be read; over an overlay."""
        assert isinstance(self.view, StoreOverlay), self.view
        self.view.load(key_rows(keys))

    def before_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values that ``keys`` had before the epoch; over an overlay."""
        assert isinstance(self.view, StoreOverlay), self.view
        return self._rows(self.view.before_many(key_rows(keys)))

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self.put_many({key: value})

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys, in their order; None deletes."""
        raise NotImplementedError

    def delete(self, key: bytes) -> None:
        """Remove ``key``; an absent key is fine."""
        self.put_many({key: None})

    def expire(self, keys: Iterable[bytes]) -> None:
        """Remove keys, in the changelog too."""
        self.put_many(dict.fromkeys(keys))

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        return self._stored(low, high, reverse=reverse, cut=self.head_bytes)

    def first(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would give."""
        return next(self.range(low, high, reverse=reverse), None)

    def count(self) -> int:
        """Return the number of keys."""
        return sum(1 for _ in self.range())

    def _rows(self, stored: Sequence[bytes | None]) -> list[bytes | None]:
        head = self.head_bytes
        return [None if row is None else row[head:] for row in stored]

    def _stored(
        self, low: bytes | None, high: bytes | None, *, reverse: bool, cut: int = 0
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over record keys and what is stored for them, without its first bytes."""
        last = prefix_end(KEY_ROW) if high is None else key_row(high)
        for place, stored in self.view.range(key_row(low or b""), last, reverse=reverse):
            if place.startswith(KEY_ROW):
                yield place[1:], stored[cut:]
