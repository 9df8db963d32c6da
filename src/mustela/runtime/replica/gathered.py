"""What a replica changes while it goes to a later epoch, for those who follow a store."""

from __future__ import annotations

from collections.abc import Mapping

from mustela.runtime.status.change_ring import ChangedRows, ChangeRing, EpochChanges

__all__ = ["GatheredChanges"]


class GatheredChanges:
    """Gathers the rows of key groups until all of them show one epoch.

    A replica may go over several epochs at once: those who follow it see the last of them.

    Args:
        ring: Gets them; None drops them.
    """

    def __init__(self, ring: ChangeRing | None = None) -> None:
        self._ring = ring
        self._rows: dict[str, dict[int, ChangedRows]] = {}
        self._size = 0
        self._followed: frozenset[str] | None = None
        self._is_whole = True

    def begin(self) -> None:
        """Note whose changes are gathered from here on, unless some are already."""
        if self._followed is None and self._ring is not None:
            self._followed = self._ring.followed()

    def take(self, group: int, changes: Mapping[str, ChangedRows]) -> None:
        """Add the rows of a key group, by store."""
        for store, rows in changes.items():
            if self._followed and store in self._followed:
                known = self._rows.setdefault(store, {})
                known[group] = [*known.get(group, ()), *rows]
                self._size += sum(len(key) + len(row or b"") for key, row in rows)

    def miss(self) -> None:
        """Note that a key group was changed by rows that nobody saw."""
        self._is_whole = False

    def show(self, epoch: int) -> None:
        """Hand over what was gathered: an epoch is shown now."""
        ring, followed = self._ring, self._followed
        new = EpochChanges(epoch=epoch, rows=self._rows, size=self._size)
        is_whole = self._is_whole and followed is not None
        self._rows, self._size, self._followed, self._is_whole = {}, 0, None, True
        if ring is None:
            return
        if is_whole and followed is not None:
            ring.add(new, followed, after=ring.epoch)
        else:
            ring.lose(epoch)
