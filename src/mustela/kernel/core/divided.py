"""Batches whose rows go to different readers, and how two of them are joined."""

from __future__ import annotations

from mustela.plan.batch import Batch

__all__ = ["DividedBatch", "SplitBatch", "joined"]


class SplitBatch(Batch):
    """Rows divided into branches; only `BranchOperator` reads them.

    Args:
        whole: All rows.
        parts: The rows of each branch.
    """

    __slots__ = ("parts",)

    def __init__(self, whole: Batch, parts: list[Batch]) -> None:
        super().__init__(
            whole.keys, whole.values, whole.origins, rows=whole.rows, key_bytes=whole.key_bytes
        )
        self.parts = parts


class DividedBatch(Batch):
    """Rows that are not for every reader; only `ChildOperator` and `OutputOperator` read them.

    Args:
        batch: All rows.
        targets: The one reader of each row; None for a row that all children get.
    """

    __slots__ = ("targets",)

    def __init__(self, batch: Batch, targets: list[str | None]) -> None:
        super().__init__(batch.keys, batch.values, batch.origins)
        self.targets = targets


def joined(first: Batch, second: Batch) -> Batch:
    """Return the rows of two batches of the same place, the first batch's rows first.

    Example:
        >>> from mustela.plan.batch import Origins
        >>> rows = Batch(["a"], [1], Origins([0]))
        >>> joined(DividedBatch(rows, ["x"]), DividedBatch(rows, [None])).targets
        ['x', None]
    """
    both = Batch.concatenate([first, second])
    match first, second:
        case DividedBatch(), DividedBatch():
            return DividedBatch(both, [*first.targets, *second.targets])
        case SplitBatch(), SplitBatch():
            pairs = zip(first.parts, second.parts, strict=True)
            return SplitBatch(both, [Batch.concatenate(pair) for pair in pairs])
        case _:
            return both
