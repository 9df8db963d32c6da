"""Calls to the outside: how a slow function is called, and how a step asks by topic."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from mustela.api.errors import BadOptionError
from mustela.api.spans import milliseconds
from mustela.errors import DataError
from mustela.model import Headers

__all__ = [
    "AsyncCall",
    "AsyncOptions",
    "CallFailedError",
    "CircuitBreaker",
    "OnFailure",
    "RateLimit",
    "RequestReply",
    "Retry",
    "check_on_failure",
    "takes_call",
]

OnFailure = Literal["fail", "dead_letter", "continue"]
"""What becomes of a record whose call failed for good: the application stops, or the record is
dropped and counted, with or without a copy in the dead-letter topic."""
_NOTHING = timedelta(0)
_CALL = "call"


class CallFailedError(DataError):
    """An external call failed permanently.

    ``fields`` holds ``cause`` (the class name of the last error), ``attempts`` and
    ``idempotency_key``.
    """

    code = "CALL_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncCall:
    """What a function is told of the call that it makes, if it has a parameter named ``call``.

    Attributes:
        idempotency_key: Names the record and the step: the same for each attempt, and for each
            call that is made again behind a crash. Hand it to a service that knows such keys.
        attempt: 1 for the first attempt of this call, then one more for each retry. A call that is
            made again behind a crash begins anew.
        key: The record's key.
        headers: The record's headers.
        timestamp: The record's timestamp in milliseconds.

    Example:
        >>> call = AsyncCall(idempotency_key="5f1c", attempt=1, key="o-1")
        >>> call.attempt
        1
    """

    idempotency_key: str
    attempt: int
    key: Any = None
    headers: Headers = ()
    timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a call that fails is made again, and how long is waited before.

    The waits double from ``initial`` to ``maximum``, each with a random part of up to ``jitter``.

    Attributes:
        attempts: How often it is made in all.
        initial: The first wait.
        maximum: The longest wait.
        jitter: The largest random part of a wait.
        on: The errors after which the call is made again; others are final at once.

    Example:
        >>> Retry(attempts=5, on=(TimeoutError, ConnectionError)).attempts
        5
    """

    attempts: int = 3
    initial: timedelta = timedelta(milliseconds=100)
    maximum: timedelta = timedelta(seconds=5)
    jitter: timedelta = timedelta(milliseconds=100)
    on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        """Check the values."""
        _at_least_one("Retry", "attempts", self.attempts)
        for name in ("initial", "maximum", "jitter"):
            milliseconds("Retry", name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """How many attempts each worker process begins in a span of time.

    An application has as many worker processes as Spark has cores, so the service sees at most
    that many times the rate.

    Attributes:
        calls: Attempts.
        per: The span.

    Example:
        >>> RateLimit(calls=50).per
        datetime.timedelta(seconds=1)
    """

    calls: int
    per: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        """Check the values."""
        _at_least_one("RateLimit", "calls", self.calls)
        milliseconds("RateLimit", "per", self.per, sign="positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """Leaves a service alone that fails again and again; each worker process has one for a step.

    After so many failures in a row no attempt is made for a time: the records wait. Then one
    attempt tries whether the service is back. If it succeeds all go on, else the time begins anew.

    Attributes:
        failures: Attempts that fail in a row before it opens.
        open_for: How long no attempt is made then.

    Example:
        >>> CircuitBreaker(failures=10).open_for
        datetime.timedelta(seconds=30)
    """

    failures: int = 5
    open_for: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        """Check the values."""
        _at_least_one("CircuitBreaker", "failures", self.failures)
        milliseconds("CircuitBreaker", "open_for", self.open_for, sign="positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncOptions:
    """How a step calls the outside.

    Attributes:
        ordered: Results of one key go on in the order of its records, and its calls are made one
            after the other. False: all at once, and results go on as they come.
        capacity: How many calls a worker process makes at the same time.
        timeout: How long one attempt may take.
        retry: Whether a failed attempt is made again; None: never.
        rate_limit: How many attempts begin in a span of time; None: any number.
        circuit_breaker: When a failing service is left alone; None: never.
        on_failure: What becomes of a record whose call failed for good: a word, or a function of
            the record (`mustela.Record`) and the error that gives what the call should have given.
            None: what ``processing_handler`` of the settings says.
        wait: How long an epoch waits for results before it parks what is not done and commits
            without it. None: half the commit interval, shared by all that waits in an epoch.
        max_parked: How many records may be parked, over all lanes. While there are so many the
            application reads nothing: records wait in their topics until calls have ended. What an
            epoch has read it keeps, so there may be as many more as an epoch reads.
        event_time_lag: How far event time is held back for the steps behind, so that windows there
            wait for records that were parked so long.

    Example:
        >>> options = AsyncOptions(timeout=timedelta(seconds=2), retry=Retry(attempts=3))
        >>> options.ordered, options.capacity
        (True, 100)
    """

    ordered: bool = True
    capacity: int = 100
    timeout: timedelta = timedelta(seconds=30)
    retry: Retry | None = None
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None
    on_failure: OnFailure | Callable[[Any, CallFailedError], Any] | None = None
    wait: timedelta | None = None
    max_parked: int = 1_000_000
    event_time_lag: timedelta = _NOTHING

    def __post_init__(self) -> None:
        """Check the values."""
        _at_least_one("AsyncOptions", "capacity", self.capacity)
        _at_least_one("AsyncOptions", "max_parked", self.max_parked)
        milliseconds("AsyncOptions", "timeout", self.timeout, sign="positive")
        milliseconds("AsyncOptions", "event_time_lag", self.event_time_lag)
        if self.wait is not None:
            milliseconds("AsyncOptions", "wait", self.wait)
        check_on_failure("AsyncOptions", "on_failure", self.on_failure)


def takes_call(function: Callable[..., Any]) -> bool:
    """Say whether a function asks to be told of the call that it makes.

    Example:
        >>> takes_call(lambda value, *, call: value), takes_call(lambda value: value)
        (True, False)
    """
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return _CALL in parameters and parameters[_CALL].kind in kinds


def _at_least_one(holder: str, name: str, value: object) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return
    msg = f"{holder}({name}={value!r}) is not a number from 1 up"
    raise BadOptionError(msg, fix=f"write {holder}({name}=10)", fields={name: value})


def check_on_failure(holder: str, name: str, value: object) -> None:
    """Check what shall become of a record whose call failed.

    Raises:
        BadOptionError: If it is neither a word nor a function.
    """
    words = ("fail", "dead_letter", "continue")
    if value is None or value in words or callable(value):
        return
    msg = f"{holder}({name}={value!r}): there is no such word"
    raise BadOptionError(
        msg,
        fix=f"use {', '.join(map(repr, words))}, or a function of (record, error)",
        fields={name: value},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReply:
    """How a step asks by topic.

    Attributes:
        topic: Where requests go.
        timeout: How long a reply is waited for, by the clock.
        key: Type or serde of the requests' keys; the stream's if not given.
        value: Type or serde of the requests' values; the stream's if not given.
        header: Name of the header that a reply must have like its request.
        on_timeout: What becomes of a record without a reply: a word, or a function of the record
            and the error that gives its result. None: what ``processing_handler`` of the settings
            says.

    Example:
        >>> RequestReply(topic="price-requests", timeout=timedelta(seconds=30)).header
        'correlation-id'
    """

    topic: str
    timeout: timedelta
    key: Any = None
    value: Any = None
    header: str = "correlation-id"
    on_timeout: OnFailure | Callable[[Any, CallFailedError], Any] | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        milliseconds("RequestReply", "timeout", self.timeout, sign="positive")
        check_on_failure("RequestReply", "on_timeout", self.on_timeout)
