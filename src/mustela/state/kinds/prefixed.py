"""A view of the rows of a store whose keys begin with the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mustela.state.kinds.layout import RowView
from mustela.state.ordered import prefix_end

__all__ = ["PrefixedView"]


class PrefixedView:
    """The rows whose keys begin with a prefix, as if they were a store without it.

    Args:
        view: The rows of the whole store.
        prefix: The prefix of their keys.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="t", kind="timer"),))
        >>> whole = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("t")
        >>> part = PrefixedView(whole, b"p")
        >>> part.put(b"apple", b"1")
        >>> whole.put(b"qear", b"2")
        >>> list(part.range()), whole.get(b"papple")
        ([(b'apple', b'1')], b'1')
    """

    __slots__ = ("_cut", "_end", "_prefix", "_view")

    def __init__(self, view: RowView, prefix: bytes) -> None:
        self._view = view
        self._prefix = prefix
        self._cut = len(prefix)
        self._end = prefix_end(prefix)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._view.get(self._prefix + key)

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        prefix = self._prefix
        return self._view.getmulti([prefix + key for key in keys])

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self._view.put(self._prefix + key, value)

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys."""
        prefix = self._prefix
        self._view.put_many({prefix + key: value for key, value in dict(rows).items()})

    def expire(self, keys: Iterable[bytes]) -> None:
        """Remove expired rows, without writing to the changelog."""
        self._view.expire([self._prefix + key for key in keys])

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        prefix, cut = self._prefix, self._cut
        rows = self._view.range(prefix + (low or b""), self._high(high), reverse=reverse)
        return ((key[cut:], value) for key, value in rows if key.startswith(prefix))

    def first(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would yield."""
        row = self._view.first(self._prefix + (low or b""), self._high(high), reverse=reverse)
        if row is not None and row[0].startswith(self._prefix):
            return row[0][self._cut :], row[1]
        # The end of the prefix is in the range of the whole store: a row there hides no other,
        # unless the range is read from its end.
        return next(self.range(low, high, reverse=True), None) if reverse else None

    def count(self) -> int:
        """Return the number of keys."""
        return sum(1 for _ in self.range())

    def _high(self, high: bytes | None) -> bytes | None:
        return self._end if high is None else self._prefix + high
