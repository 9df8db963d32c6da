"""The fold of combiners: of reduces and aggregates, with and without windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mustela.kernel.aggregates.aggregate import NO_PARTIAL_DELETES
from mustela.kernel.core.failures import Failures
from mustela.kernel.core.isolate import copy_value
from mustela.plan.batch import Batch

__all__ = ["PartialFold"]


class PartialFold:
    """Folds records into partial results, which are never null.

    Args:
        fold: Takes a key, a value and a partial result, None if there is none; returns the new one.
        failures: Decides what happens to a record whose fold raises.
        careful: Whether the fold gets a copy: one that changes its argument and then raises must
            not damage the partial result when the application goes on.
    """

    def __init__(
        self,
        fold: Callable[[Any, Any, Any], Any],
        failures: Failures,
        *,
        careful: bool,
    ) -> None:
        self._fold = fold
        self._failures = failures
        self._careful = careful

    def add(self, partials: dict[Any, Any], places: Iterable[Any], batch: Batch) -> set[int]:
        """Fold records into partial results; return the rows of those that failed for good.

        Args:
            partials: The partial results by place.
            places: The place of each record.
            batch: The records.
        """
        fold, careful = self._fold, self._careful
        failed: set[int] = set()
        rows = zip(places, batch.keys, batch.values, strict=True)
        for row, (place, key, value) in enumerate(rows):
            old = partials.get(place)
            try:
                new = fold(key, value, copy_value(old) if careful else old)
                if new is None:
                    raise TypeError(NO_PARTIAL_DELETES)
            except Exception as error:  # noqa: BLE001 - the function is the user's
                new = self._again((key, value, old), batch, row, error)
                if new is None:
                    failed.add(row)
                    continue
            partials[place] = new
        return failed

    def _again(
        self, arguments: tuple[Any, Any, Any], batch: Batch, row: int, error: Exception
    ) -> Any:
        """Fold a row that failed as often as its handler wants; return None if that is in vain."""
        key, value, old = arguments

        def folded() -> Any:
            new = self._fold(key, value, copy_value(old))
            if new is None:
                raise TypeError(NO_PARTIAL_DELETES)
            return new

        return self._failures.retried(batch, row, error, folded)
