"""What transactions offer to other writers where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from mustela.plan.sealed import SealedRows

__all__ = ["OneWriter"]


class OneWriter:
    """Transactions of a client that hands no ticket out: all rows are the driver's to write."""

    @property
    def takes_sealed(self) -> bool:
        """Whether tasks may put sink rows together; see `Transactions`."""
        return False

    def produce_sealed(self, sealed: Sequence[SealedRows]) -> NoReturn:
        """Refuse: nobody was asked to put rows together."""
        raise AssertionError(sealed)

    def lend(self) -> None:
        """Return None: nobody but this process writes."""
