"""The changes of a table, ordered by the records that caused them."""

from __future__ import annotations

from collections.abc import Sequence

from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.keygroups import key_groups_of

__all__ = ["ChangeOrigins", "latest_only"]


def latest_only(batch: Batch) -> Batch:
    """Return the changes to the newest version of their key; only versioned tables have others too.

    Steps that combine a table's rows with other rows use only the newest ones.
    """
    latest = batch.latest
    return batch if latest is None or all(latest) else batch.select(latest)


class ChangeOrigins(Origins):
    """Origins of changes; their order is computed on demand.

    A change comes right after the last record that touched its key; the key group and a sequence
    number break ties, in the same way for any number of lanes. Where a combined aggregation has
    given up the records' order, a change is ordered by its timestamp.

    Args:
        timestamps: Milliseconds, one per change.
        source: The batch whose records caused the changes.
        rows: The row of ``source`` that caused each change.
        key_bytes: The changed keys.
        key_groups: Number of key groups.
    """

    __slots__ = ("_key_bytes", "_key_groups", "_rows", "_source")
    _order: list[Order] | None

    def __init__(
        self,
        timestamps: list[int],
        source: Batch,
        rows: Sequence[int],
        *,
        key_bytes: Sequence[bytes],
        key_groups: int,
    ) -> None:
        headers = source.headers
        picked = None if headers is None else [headers[row] for row in rows]
        super().__init__(timestamps, picked, None, source.origins.topics)
        self._source = source
        self._rows = rows
        self._key_bytes = key_bytes
        self._key_groups = key_groups

    @property
    def order(self) -> list[Order] | None:
        """Order per change; computed on first use."""
        order = self._order
        if order is None:
            groups = key_groups_of(self._key_bytes, self._key_groups)
            known = self._source.order
            causes: list[Order]
            numbers: Sequence[int]
            if known is None:
                causes = [(timestamp, -1, -1, -1) for timestamp in self.timestamps]
                numbers = _ranks(self._key_bytes)
            else:
                causes = [known[row] for row in self._rows]
                numbers = range(len(causes))
            order = self._order = [
                (*cause, group, number)
                for cause, group, number in zip(causes, groups, numbers, strict=True)
            ]
        return order


def _ranks(keys: Sequence[bytes]) -> list[int]:
    ranks = [0] * len(keys)
    for rank, place in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
        ranks[place] = rank
    return ranks
