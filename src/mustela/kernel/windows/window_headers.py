"""The headers of each window's last record, kept until the window is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mustela.kernel.core.lane_state import LaneStore
from mustela.model import Headers
from mustela.state.kinds.layout import first_row

__all__ = ["WindowHeaders"]

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...]).decode


class WindowHeaders:
    """Headers by the key of the window's row; a window whose last record had none has no row.

    Args:
        store: The store of the rows; its keys begin with the start of the window.
    """

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
