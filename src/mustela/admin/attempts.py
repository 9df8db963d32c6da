"""How often an address may offer a wrong token: a few at once, then one now and then."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

__all__ = ["WRONG_AT_ONCE", "WRONG_EVERY_S", "Attempts"]

WRONG_AT_ONCE: Final = 10
"""So many wrong tokens an address may offer one after the other."""
WRONG_EVERY_S: Final = 1.0
"""Then one in this time, in seconds."""
_ADDRESSES_MAX: Final = 1_000


class Attempts:
    """Counts wrong tokens by address.

    While an address has used up its own, no token of it is looked at: else it would learn, at any
    speed, which one is right.

    Args:
        now: Monotonic time, in seconds.

    Example:
        >>> attempts = Attempts(lambda: 0.0)
        >>> for _ in range(10):
        ...     attempts.failed("10.0.0.7")
        >>> attempts.may("10.0.0.7"), attempts.may("10.0.0.8")
        (False, True)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def may(self, address: str) -> bool:
        """Whether a token of this address is looked at."""
        return self._left(_place(address)) < WRONG_AT_ONCE

    def failed(self, address: str) -> None:
        """Note a wrong one."""
        place = _place(address)
        self._used[place] = (self._left(place) + 1, self._now())
        self._used.move_to_end(place)
        if len(self._used) > _ADDRESSES_MAX:
            self._used.popitem(last=False)

    def _left(self, place: str) -> float:
        """Return how many of its wrong ones still count."""
        count, at = self._used.get(place, (0.0, 0.0))
        return max(0.0, count - (self._now() - at) / WRONG_EVERY_S)


def _place(address: str) -> str:
    """Return what counts as one address: of version 6 the network, which one host has to itself."""
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
