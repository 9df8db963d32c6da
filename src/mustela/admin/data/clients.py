"""How many clients a stream has at the same time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mustela.admin.data.asked import DataRefusal

__all__ = ["Clients"]


class Clients:
    """Counts the clients of one kind of stream, and refuses one too many.

    Args:
        most: So many at the same time.
        what: What they do, such as ``follow changes``.

    Example:
        >>> clients = Clients(1, "follow changes")
        >>> with clients.one():
        ...     try:
        ...         with clients.one():
        ...             pass
        ...     except DataRefusal as refusal:
        ...         print(refusal.what)
        too many clients follow changes at the same time
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._count = 0

    @contextmanager
    def one(self) -> Generator[None]:
        """Count a client while the block runs.

        Raises:
            DataRefusal: If there are as many already.
        """
        if self._count >= self._most:
            what = f"too many clients {self._what} at the same time"
            raise DataRefusal(503, "QUERY_CLIENTS", what, "ask again later")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
