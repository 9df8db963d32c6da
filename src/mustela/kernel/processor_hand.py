"""What a processor step is working on: a row, or a timer."""

from __future__ import annotations

from typing import NamedTuple

from mustela.model import Headers
from mustela.plan.batch import Batch, Order

__all__ = ["Hand", "RowColumns"]


class Hand(NamedTuple):
    """What is being worked on.

    Attributes:
        timestamp: Its time.
        headers: Its headers.
        order: Its order, which all that is forwarded has too; None where order was given up.
        batch: The batch that it is a row of; None for a timer.
        row: Which row.
    """

    timestamp: int
    headers: Headers = ()
    order: Order | None = None
    batch: Batch | None = None
    row: int = -1


class RowColumns:
    """The columns of a batch, drawn once, so that rows can be taken one by one.

    Args:
        batch: The rows.
    """

    __slots__ = ("batch", "headers", "order", "timestamps")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.timestamps = batch.timestamps
        self.headers: list[Headers] | None = batch.headers
        self.order: list[Order] | None = batch.order
