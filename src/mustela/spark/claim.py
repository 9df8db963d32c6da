"""Whether the instance that gave an order still is the one that goes on.

A transaction is fenced by the broker; rows that tasks send by themselves are not. A task that stood
still, or whose driver did, while another instance took over would send old rows after newer ones.
So a task that has been at work for a while looks for a newer claim before it sends anything more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from time import perf_counter

import msgspec

from mustela.connectors.kafka.errors import TransactionFenced

__all__ = ["CLAIM_EVERY_S", "ClaimCheck", "claimed_by"]

CLAIM_EVERY_S = 0.5
"""Younger knowledge is believed. Another instance takes longer to its first rows: it restores its
state and runs a job after its claim."""

_HEAD = 4
_DECODER = msgspec.msgpack.Decoder()


def claimed_by(row: bytes) -> int:
    """Return the incarnation that wrote a row of the epochs topic: the first that each row says."""
    return int(_DECODER.decode(zlib.decompress(row[_HEAD:]))[0])


class ClaimCheck:
    """Looks for a newer claim, but not more often than is worth it.

    Args:
        incarnation: Of the instance that gave the order.
        last_row: Reads the last committed row of the epochs topic, None if there is none.
        clock: Seconds that go on while a process stands still.
    """

    def __init__(
        self,
        incarnation: int,
        last_row: Callable[[], bytes | None],
        *,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._incarnation = incarnation
        self._last_row = last_row
        self._clock = clock
        self._sure_at = clock()

    def look(self) -> None:
        """Look, if the last look is a while ago.

        Raises:
            TransactionFenced: If there is a claim of a newer instance.
            EnvironmentFault: If no broker says.
        """
        if self._clock() - self._sure_at < CLAIM_EVERY_S:
            return
        begun = self._clock()
        row = self._last_row()
        if row is not None and claimed_by(row) > self._incarnation:
            what = "another instance took over while a task was running: it sends nothing more"
            raise TransactionFenced(what)
        self._sure_at = begun
