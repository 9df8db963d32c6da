"""Transactions that a processor asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

__all__ = ["REQUESTS", "Request"]

REQUESTS: Final = "~transact"
"""The side output to which a processor's requests for transactions go."""


class Request(NamedTuple):
    """A transaction that a processor asks for; it lives for one epoch, and is never stored.

    Attributes:
        keys: The keys that it may touch.
        fn: (transaction, *args) -> None, or the value of a record to send on.
        args: Its further arguments.
    """

    keys: Any
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Request:
        """Return itself: what can change in it was copied when it was made."""
        return self
