"""The rows that the last epochs wrote to changelogs, for those who follow a store.

Only the application's own thread adds epochs, and it replaces whole values: so a reader needs no
lock, and never makes an epoch wait. Rows are kept only of stores that somebody follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mustela.clock import Clock
from mustela.connectors.kafka.columns import RowColumns

__all__ = ["ChangeRing", "ChangedRows", "EpochChanges"]

EPOCHS_MAX: Final = 1_000
"""So many epochs are kept at most."""
BYTES_MAX: Final = 32 << 20
"""So many bytes of keys and values are kept at most; one epoch with more is not kept at all."""
FOLLOWED_S: Final = 300.0
"""For so long after the last look, in seconds, the changes of a store are kept."""

ChangedRows = Sequence[tuple[bytes, bytes | None]]
"""Stored keys with their new rows, None for a deletion, in the order of the changelog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochChanges:
    """What one committed epoch changed in stores that are followed.

    Attributes:
        epoch: The epoch.
        rows: By store, the rows of each key group that it wrote.
        size: The bytes of keys and rows.
    """

    epoch: int
    rows: Mapping[str, Mapping[int, ChangedRows]]
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Kept:
    """All that is kept, replaced as a whole.

    Attributes:
        epochs: The epochs, the oldest first.
        since: By store, the epoch after which every change is in ``epochs``.
        epoch: The last committed epoch.
    """

    epochs: tuple[EpochChanges, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict[str, int])
    epoch: int = 0


class ChangeRing:
    """Keeps the changes of the last epochs, of stores that are followed.

    Args:
        clock: Monotonic time.
        epochs_max: How many epochs are kept.
        bytes_max: How many bytes are kept.

    Example:
        >>> from types import SimpleNamespace
        >>> from mustela.clock import ManualClock
        >>> ring = ChangeRing(ManualClock(0))
        >>> ring.follow("counts")
        >>> rows = SimpleNamespace(keys=[b"a"], values=[b"1"], partitions=0)
        >>> ring.committed(7, [("counts", rows), ("others", rows)])
        >>> [(each.epoch, dict(each.rows)) for each in ring.after("counts", 6)]
        [(7, {'counts': {0: [(b'a', b'1')]}})]
        >>> ring.after("counts", 5) is None
        True
    """

    def __init__(
        self, clock: Clock, *, epochs_max: int = EPOCHS_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self._clock = clock
        self._epochs_max = epochs_max
        self._bytes_max = bytes_max
        self._followed: Mapping[str, float] = {}
        self._kept = _Kept()

    @property
    def epoch(self) -> int:
        """The last committed epoch that was added."""
        return self._kept.epoch

    def follow(self, store: str) -> None:
        """Keep the changes of a store from the next epoch on, for `FOLLOWED_S`; any thread may."""
        # Two threads at once may lose one of them, which says it again at its next look.
        self._followed = {**self._followed, store: self._clock.monotonic()}

    def after(self, store: str, epoch: int) -> tuple[EpochChanges, ...] | None:
        """Return the epochs after one that changed a store; None if some of them are not kept."""
        kept = self._kept
        if epoch < kept.since.get(store, kept.epoch):
            return None
        return tuple(each for each in kept.epochs if each.epoch > epoch and store in each.rows)

    def committed(self, epoch: int, changelogs: Iterable[tuple[str, RowColumns]]) -> None:
        """Add a committed epoch; only the application's own thread does.

        Args:
            epoch: The epoch.
            changelogs: Its changelog rows, by store.
        """
        followed = self.followed()
        new = _changes_of(epoch, changelogs, followed)
        self.add(new, followed, after=epoch - 1)

    def add(self, new: EpochChanges, followed: Collection[str], *, after: int) -> None:
        """Add what several epochs changed, under the last of them; one thread does.

        Args:
            new: The changes.
            followed: The stores of which it has all changes.
            after: The epoch after which they begin.
        """
        kept, epoch = self._kept, new.epoch
        if after != kept.epoch:
            kept = _Kept()  # another instance committed epochs in between
        if not followed:
            self._kept = _Kept(epoch=epoch)
            return
        since = {store: kept.since.get(store, after) for store in followed}
        epochs = [*kept.epochs, new] if new.rows else [*kept.epochs]
        size = sum(each.size for each in epochs)
        dropped = 0
        while epochs and (len(epochs) > self._epochs_max or size > self._bytes_max):
            oldest = epochs.pop(0)
            size -= oldest.size
            dropped = oldest.epoch
        since = {store: max(known, dropped) for store, known in since.items()}
        self._kept = _Kept(tuple(epochs), since, epoch)

    def lose(self, epoch: int) -> None:
        """Keep nothing: what changed up to an epoch is not known."""
        self._kept = _Kept(epoch=epoch)

    def followed(self) -> frozenset[str]:
        """Return the stores whose changes are kept."""
        if not self._followed:
            return frozenset()
        now, known = self._clock.monotonic(), self._followed
        found = frozenset(store for store, at in known.items() if now - at <= FOLLOWED_S)
        if len(found) < len(known):
            self._followed = {store: at for store, at in self._followed.items() if store in found}
        return found


def _changes_of(
    epoch: int, changelogs: Iterable[tuple[str, RowColumns]], followed: frozenset[str]
) -> EpochChanges:
    found: dict[str, dict[int, list[tuple[bytes, bytes | None]]]] = {}
    size = 0
    for store, columns in changelogs:
        if store not in followed:
            continue
        group = columns.partitions
        assert isinstance(group, int), "a changelog frame is for one partition"
        rows = found.setdefault(store, {}).setdefault(group, [])
        for key, value in zip(columns.keys, columns.values, strict=True):
            assert key is not None, "a changelog row has a key"
            rows.append((key, value))
            size += len(key) + len(value or b"")
    return EpochChanges(epoch=epoch, rows=found, size=size)
