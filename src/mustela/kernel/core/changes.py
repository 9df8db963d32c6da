"""The changes of a table: ordered by the record that caused each of them."""

from __future__ import annotations

from collections.abc import Sequence

from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.keygroups import key_groups_of

__all__ = ["ChangeOrigins", "latest_only"]


def latest_only(batch: Batch) -> Batch:
    """Return the changes to the newest version of their key; only versioned tables have others.

    Steps that put a table's rows together with others know the newest rows alone.
    """
    latest = batch.latest
    return batch if latest is None or all(latest) else batch.select(latest)


class ChangeOrigins(Origins):
    """Origins of changes: their order is made when somebody asks for it.

    A change comes right after the last record that touched its key; the key group and a running
    number tell changes of equal order apart, the same way for any number of lanes. Where the
    records' order was given up for a combined aggregation, a change takes the place of its
    timestamp.

    Args:
        timestamps: Milliseconds, one per change.
        source: The batch whose records caused the changes.
        rows: The row of ``source`` behind each change.
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
        """Order per change; made when first asked for."""
        order = self._order
        if order is None:
            groups = key_groups_of(self._key_bytes, self._key_groups)
            known = self._source.order
            causes: list[Order]
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
