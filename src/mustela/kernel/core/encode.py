"""Encoding columns of values as bytes; only a bad value goes to the handler."""

from __future__ import annotations

from typing import Any

from mustela.errors import EnvironmentFault
from mustela.kernel.core.each import call_each
from mustela.kernel.core.failures import Failures
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde

__all__ = ["FailingRows", "encode_column", "failing", "known_key_bytes"]


def encode_column(
    serde: Serde[Any], column: list[Any], batch: Batch, failures: Failures
) -> tuple[list[bytes | None], list[int]]:
    """Encode a column of ``batch``.

    Returns:
        The bytes, None where a value failed, and the rows that failed, ascending.
    """
    try:
        return serde.serialize_many(column), []
    except EnvironmentFault:
        raise  # no row is to blame
    except Exception:  # noqa: BLE001 - a serde of the user's may raise anything
        return call_each(serde.serialize, (column,), failing(batch, failures))


class FailingRows:
    """Hands failing rows of a batch to the handler; see `mustela.kernel.core.each.Repeating`.

    Args:
        batch: The rows.
        failures: The handler.
    """

    __slots__ = ("_failures", "batch")

    def __init__(self, batch: Batch, failures: Failures) -> None:
        self.batch = batch
        self._failures = failures

    def __call__(self, row: int, error: Exception) -> None:
        """Handle the failure of a row that is not tried again."""
        self._failures.one(self.batch, row, error)

    def again(self, row: int, error: Exception) -> bool:
        """Handle the failure of a row; return whether it is tried again."""
        return self._failures.one(self.batch, row, error, repeats=True)


def failing(batch: Batch, failures: Failures) -> FailingRows:
    """Return a callback that passes a failing row of ``batch`` to the handler."""
    return FailingRows(batch, failures)


def known_key_bytes(
    batch: Batch, known: Serde[Any] | None, wanted: Serde[Any]
) -> list[bytes | None] | None:
    """Return the key bytes that a batch carries, if they are those of the wanted serde."""
    if batch.key_bytes is None or known is None or known != wanted:
        return None
    return batch.key_bytes  # pyright: ignore[reportReturnType] - null keys have None there
