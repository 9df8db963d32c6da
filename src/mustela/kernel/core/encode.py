"""Encoding columns of values as bytes; only a bad value goes to the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mustela.errors import EnvironmentFault
from mustela.kernel.core.each import call_each
from mustela.kernel.core.failures import Failures
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde

__all__ = ["encode_column", "known_key_bytes"]


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


def failing(batch: Batch, failures: Failures) -> Callable[[int, Exception], None]:
    """Return a callback that passes a failing row of ``batch`` to the handler."""

    def on_failure(row: int, error: Exception) -> None:
        failures.one(batch, row, error)

    return on_failure


def known_key_bytes(
    batch: Batch, known: Serde[Any] | None, wanted: Serde[Any]
) -> list[bytes | None] | None:
    """Return the key bytes that a batch carries, if they are those of the wanted serde."""
    if batch.key_bytes is None or known is None or known != wanted:
        return None
    return batch.key_bytes  # pyright: ignore[reportReturnType] - null keys have None there
