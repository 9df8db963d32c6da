"""Iterating over ordered keys: bounds, prefixes and merging of layers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["OrderedLayer", "key_slice", "merge_layers", "prefix_end", "prefix_slice"]


def prefix_end(prefix: bytes) -> bytes | None:
    r"""Return the smallest key above every key that starts with ``prefix``; None if there is none.

    Example:
        >>> prefix_end(b"ab"), prefix_end(b"a\xff"), prefix_end(b"\xff"), prefix_end(b"")
        (b'ac', b'b', None, None)
    """
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return None
    return stem[:-1] + bytes([stem[-1] + 1])


def key_slice(keys: Sequence[bytes], low: bytes | None, high: bytes | None) -> tuple[int, int]:
    """Return start and stop of low <= key <= high among sorted keys.

    Example:
        >>> key_slice([b"a", b"b", b"c"], b"b", None)
        (1, 3)
    """
    start = 0 if low is None else bisect_left(keys, low)
    stop = len(keys) if high is None else bisect_right(keys, high)
    return start, max(start, stop)


def prefix_slice(keys: Sequence[bytes], prefix: bytes) -> tuple[int, int]:
    """Return start and stop of those among sorted keys that start with ``prefix``.

    Example:
        >>> prefix_slice([b"a", b"ab", b"b"], b"a")
        (0, 2)
    """
    start, end = bisect_left(keys, prefix), prefix_end(prefix)
    return start, len(keys) if end is None else bisect_left(keys, end, start)


def merge_layers(
    below: Iterator[tuple[bytes, bytes]],
    above: Sequence[tuple[bytes, bytes | None]],
    *,
    reverse: bool = False,
) -> Iterator[tuple[bytes, bytes]]:
    """Merge two sorted runs of rows; where both have a key, ``above`` wins and None deletes.

    Both runs are ascending, or both descending when ``reverse`` is set.

    Example:
        >>> list(merge_layers(iter([(b"a", b"1"), (b"b", b"2")]), [(b"a", None), (b"c", b"3")]))
        [(b'b', b'2'), (b'c', b'3')]
    """
    index = 0
    size = len(above)
    for row in below:
        key = row[0]
        hidden = False
        while index < size:
            other, value = above[index]
            if other == key:
                hidden = True
            elif (other < key) == reverse:
                break
            if value is not None:
                yield other, value
            index += 1
            if hidden:
                break
        if not hidden:
            yield row
    for other, value in above[index:]:
        if value is not None:
            yield other, value


class OrderedLayer:
    """Rows that overlay others, in key order; a store's keys are sorted on first use.

    Args:
        layer: The rows by store, None for a deletion; they do not change.

    Example:
        >>> layer = OrderedLayer({"s": {b"b": b"2", b"a": b"1"}})
        >>> layer.rows("s", None, b"a")
        [(b'a', b'1')]
    """

    __slots__ = ("_keys", "_layer")

    def __init__(self, layer: Mapping[str, Mapping[bytes, bytes | None]]) -> None:
        self._layer = layer
        self._keys: dict[str, list[bytes]] = {}

    def rows(
        self, store: str, low: bytes | None, high: bytes | None
    ) -> list[tuple[bytes, bytes | None]]:
        """Return the rows with low <= key <= high."""
        rows = self._layer.get(store)
        if not rows:
            return []
        keys = self._keys.get(store)
        if keys is None:
            keys = self._keys[store] = sorted(rows)
        start, stop = key_slice(keys, low, high)
        return [(key, rows[key]) for key in keys[start:stop]]
