"""Metadata that lags: for how long an answer that lacks a topic or partition is not believed."""

from __future__ import annotations

from time import perf_counter, sleep

__all__ = ["AGREED_LAG_S", "METADATA_LAG_S", "UNKNOWN_PAUSE_S", "Doubt"]

METADATA_LAG_S = 10.0
"""How long clients and brokers may differ on which topics and partitions there are."""
AGREED_LAG_S = 1.0
"""The same where two of them agree that one is missing, as both may ask a broker that lags."""
UNKNOWN_PAUSE_S = 0.02
UNKNOWN_PAUSE_MAX_S = 0.5


class Doubt:
    """How long a client has been told of topics or partitions that it does not find.

    It begins with the first answer: a call may have waited for a broker for longer than any doubt,
    and a broker that has just come up is the one that lags.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause = UNKNOWN_PAUSE_S

    def is_over(self, *, agreed: bool) -> bool:
        """Say whether to believe it; wait a moment if not.

        Args:
            agreed: Whether somebody else does not find them either.
        """
        now = perf_counter()
        if self._since is None:
            self._since = now
        if now - self._since >= (AGREED_LAG_S if agreed else METADATA_LAG_S):
            return True
        sleep(self._pause)
        self._pause = min(2 * self._pause, UNKNOWN_PAUSE_MAX_S)
        return False
