"""The headers of each window's last record, kept until the window is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mustela.kernel.core.lane_state import LaneState, LaneStore
from mustela.model import Headers
from mustela.state.kinds.layout import TIME_BYTES, first_row
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["WindowHeaders"]

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...]).decode


class WindowHeaders:
    """Headers by the key of the window's row; a window whose last record had none has no row.

    Args:
        store: The store of the rows; its keys are a time of the window, that no other window of
            the record key has, and the record key.
    """

    @classmethod
    def opened(cls, node: WindowAggregateNode, state: LaneState | None) -> WindowHeaders | None:
        """Return those of an aggregation, if it keeps any."""
        if node.headers is None or state is None:
            return None
        serde = node.store.key_serde
        suffix = 0 if serde is None else serde.group_suffix
        return cls(state.store(node.headers.name, prefix=TIME_BYTES, suffix=suffix))

    def __init__(self, store: LaneStore) -> None:
        self._store = store

    def keep(self, windows: Sequence[bytes], headers: Sequence[Headers] | None) -> None:
        """Note the headers of windows' last records; None if no record has any."""
        if headers is None or not any(headers):
            if any(self._is_used(group) for group in self._store.groups):
                self._store.put_many(windows, [None] * len(windows))
            return
        self._store.put_many(windows, [_ENCODE(mine) if mine else None for mine in headers])

    def take(self, group: int, windows: Sequence[bytes]) -> list[Headers]:
        """Return the headers of windows of a key group, and forget them."""
        if not self._is_used(group):
            return [()] * len(windows)
        view = self._store.group(group)
        found = view.getmulti(windows)
        view.put_many(
            (window, None)
            for window, stored in zip(windows, found, strict=True)
            if stored is not None
        )
        return [() if stored is None else _DECODE(stored) for stored in found]

    def _is_used(self, group: int) -> bool:
        return first_row(self._store.group(group)) is not None
