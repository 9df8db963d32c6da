"""Changes to keys of other lanes: what a processor asks for, and the replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["Operation", "Updated", "reply_output", "update_output"]

K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)


def update_output(store: str) -> str:
    """Return the name of the side output to which a processor's changes to a store go.

    Example:
        >>> update_output("balances")
        '~update balances'
    """
    return f"~update {store}"


def reply_output(step: str, reply: str) -> str:
    """Return the name of the output to which replies for a processor's step go.

    Example:
        >>> reply_output("pay", "paid")
        'pay/paid'
    """
    return f"{step}/{reply}"


class Updated(NamedTuple, Generic[K_co, V_co]):
    """The result of `ProcessorContext.update`; the value of a reply.

    Attributes:
        key: The key that was changed.
        old: Its value before, None if there was none.
        new: Its value after, None if it was deleted.

    Example:
        >>> Updated("ann", 3, 5).new
        5
    """

    key: K_co
    old: V_co | None
    new: V_co | None


class Operation(NamedTuple):
    """A change on its way to the lane of its key; it lives for one epoch, and is never stored.

    Attributes:
        fn: (old value or None, *args) -> new value, or None to delete.
        args: Its further arguments.
        reply: The output to which the result goes, or None.
        reply_key: The reply's key.
        at: Which window, session or version of the key is meant.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    reply: str | None = None
    reply_key: Any = None
    at: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Operation:
        """Return itself: what can change in it was copied when it was made."""
        return self
