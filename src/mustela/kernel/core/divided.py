"""Batches whose rows go different ways, and how two of them become one."""

from __future__ import annotations

from mustela.plan.batch import Batch

__all__ = ["DividedBatch", "SplitBatch", "joined"]


class SplitBatch(Batch):
    """Rows with the branch of each: only `BranchOperator` reads them.

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
    """Rows that are not for every reader: only `ChildOperator` and `OutputOperator` read them.

    Args:
        batch: All rows.
        targets: For each row the one reader that gets it; None where all children do.
    """

    __slots__ = ("targets",)

    def __init__(self, batch: Batch, targets: list[str | None]) -> None:
        super().__init__(batch.keys, batch.values, batch.origins)
        self.targets = targets


def joined(first: Batch, second: Batch) -> Batch:
    """Return the rows of two batches of one place, one batch behind the other.

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
