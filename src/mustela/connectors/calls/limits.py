"""When the next attempt may be made: a rate, and a breaker for a service that fails."""

from __future__ import annotations

from mustela.api.calls import CircuitBreaker, RateLimit

__all__ = ["Breaker", "Rate"]

_PROBE_PAUSE_S = 0.05


class Rate:
    """Spreads attempts over time.

    Args:
        limit: The rate.

    Example:
        >>> from mustela.api.calls import RateLimit
        >>> rate = Rate(RateLimit(calls=2))
        >>> rate.admit(10.0), rate.admit(10.0), rate.admit(10.0)
        (0.0, 0.0, 0.5)
        >>> rate.admit(10.5)
        0.0
    """

    def __init__(self, limit: RateLimit) -> None:
        self._burst = float(limit.calls)
        self._per_second = limit.calls / limit.per.total_seconds()
        self._tokens = self._burst
        self._then: float | None = None

    def admit(self, now: float) -> float:
        """Return 0 if an attempt may be made now, else after how many seconds to ask again."""
        if self._then is not None:
            grown = self._tokens + (now - self._then) * self._per_second
            self._tokens = min(self._burst, grown)
        self._then = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_second


class Breaker:
    """Opens after failures in a row, and lets one attempt try before it closes again.

    Args:
        rule: When it opens, and for how long.

    Example:
        >>> from datetime import timedelta
        >>> from mustela.api.calls import CircuitBreaker
        >>> breaker = Breaker(CircuitBreaker(failures=2, open_for=timedelta(seconds=3)))
        >>> breaker.failed(1.0)
        >>> breaker.failed(1.0)
        >>> breaker.admit(2.0), breaker.admit(4.0), breaker.admit(4.0) > 0
        (2.0, 0.0, True)
        >>> breaker.succeeded()
        >>> breaker.admit(4.1)
        0.0
    """

    def __init__(self, rule: CircuitBreaker) -> None:
        self._failures_max = rule.failures
        self._open_s = rule.open_for.total_seconds()
        self._failures = 0
        self._until: float | None = None
        self._probing = False

    def admit(self, now: float) -> float:
        """Return 0 if an attempt may be made now, else after how many seconds to ask again."""
        if self._until is None:
            return 0.0
        if now < self._until:
            return self._until - now
        if self._probing:
            return _PROBE_PAUSE_S
        self._probing = True
        return 0.0

    def closed_in(self, now: float) -> float:
        """Return the seconds until an attempt may be made."""
        return 0.0 if self._until is None else self._until - now

    def failed(self, now: float) -> None:
        """Note that an attempt failed."""
        self._failures += 1
        if self._probing or (self._until is None and self._failures >= self._failures_max):
            self._until = now + self._open_s
            self._probing = False

    def succeeded(self) -> None:
        """Note that an attempt succeeded."""
        self._failures, self._until, self._probing = 0, None, False

    def given_up(self) -> None:
        """Note that an attempt ended without an answer, because nobody waits for it any more."""
        self._probing = False
