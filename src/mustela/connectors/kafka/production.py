"""What becomes of rows that the broker refuses: an error, nothing, or dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mustela.connectors.kafka.columns import RowColumns
from mustela.connectors.kafka.errors import RefusedRow, RowsRefused
from mustela.errors import DataError
from mustela.model import Headers

__all__ = ["SEARCHES_MAX", "Letters", "ProductionError", "letters_of", "production_error"]

SEARCHES_MAX = 8
"""How often rows are sent again to find out which of them the broker refuses."""
_SHOWN_MAX = 3


class ProductionError(DataError):
    """The broker refuses an output row."""

    code = "PRODUCTION"


@dataclass(slots=True)
class Letters:
    """Dead letters as columns; they get the time of sending."""

    topics: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int] | None
    headers: list[Headers] | None
    partitions: None = None


def letters_of(
    refused: Iterable[RefusedRow], columns_of: Callable[[RefusedRow], RowColumns], topic: str
) -> Letters:
    """Return refused rows as dead letters: their own bytes, and why they were refused.

    Args:
        refused: The rows.
        columns_of: Finds the columns that a row is in.
        topic: Where dead letters go.
    """
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    for row in refused:
        columns = columns_of(row)
        facts = {"class": row.reason, "message": row.text, "topic": row.topic}
        errors = tuple((f"mustela.error.{name}", text.encode()) for name, text in facts.items())
        keys.append(columns.keys[row.row])
        values.append(columns.values[row.row])
        headers.append((columns.headers[row.row] if columns.headers else ()) + errors)
    return Letters(topic, keys, values, None, headers)


def production_error(rows: Sequence[RefusedRow], cause: RowsRefused) -> ProductionError:
    """Make the error that ends an application whose rows the broker refuses."""
    evidence: dict[str, Any] = {
        f"row {row.row}": f"topic {row.topic}, {row.reason}: {row.text}"
        for row in rows[:_SHOWN_MAX]
    }
    return ProductionError(
        cause.what,
        evidence=evidence or cause.evidence,
        why="an output row that the broker refuses would stop the epoch for ever",
        fix="make the rows fit the topic, or set production_handler to continue or dead_letter",
        fields=cause.fields,
    )
