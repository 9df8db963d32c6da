"""Calls to external services: how a slow function is called, and how a step asks by topic."""

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
"""What happens to a record whose call failed for good: the application stops, or the record is
dropped and counted, with or without a copy in the dead-letter topic."""
_WORDS = ("fail", "dead_letter", "continue")
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
    """What a function with a parameter named ``call`` learns about the call that it makes.

    Attributes:
        idempotency_key: Identifies the record and the step: it is the same for each attempt, and
            when the call is repeated after a crash. Pass it to services that accept such keys.
        attempt: 1 for the first attempt of this call, and one more for each retry. A call that is
            repeated after a crash starts at 1 again.
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
    """How often a failed call or record is retried, and how long to wait before each retry.

    The waits double from ``initial`` to ``maximum``; each is extended by a random part of up to
    ``jitter``.

    Attributes:
        attempts: How many attempts are made in total.
        initial: The first wait.
        maximum: The longest wait.
        jitter: The largest random part of a wait.
        on: The errors after which it is retried; any other error is final at once.
        then: What happens to the record when all attempts have failed, if this is a handler of a
            step or an application; calls have ``on_failure`` for that.

    Example:
        >>> Retry(attempts=5, on=(TimeoutError, ConnectionError)).attempts
        5
    """

    attempts: int = 3
    initial: timedelta = timedelta(milliseconds=100)
    maximum: timedelta = timedelta(seconds=5)
    jitter: timedelta = timedelta(milliseconds=100)
    on: tuple[type[Exception], ...] = (Exception,)
    then: Literal["fail", "dead_letter", "continue"] = "fail"

    def __post_init__(self) -> None:
        """Check the values."""
        _at_least_one("Retry", "attempts", self.attempts)
        for name in ("initial", "maximum", "jitter"):
            milliseconds("Retry", name, getattr(self, name))
        if self.then not in _WORDS:
            msg = f"Retry(then={self.then!r}) is not a word that it takes"
            raise BadOptionError(
                msg, fix=f"use one of {', '.join(_WORDS)}", fields={"then": self.then}
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """How many attempts each worker process may begin in a span of time.

    An application has as many worker processes as Spark has cores, so the service sees at most that
    many times the rate.

    Attributes:
        calls: The number of attempts.
        per: The span of time.

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
    """Stops calling a service that keeps failing; each worker process has one breaker per step.

    After ``failures`` failed attempts in a row, no attempt is made for ``open_for``, and records
    wait. Then one attempt tests whether the service is back: if it succeeds, all records go on; if
    it fails, the wait starts again.

    Attributes:
        failures: The number of failed attempts in a row after which the breaker opens.
        open_for: How long no attempts are made then.

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
    """How a step calls an external service.

    Attributes:
        ordered: True: results of one key are passed on in the order of its records, and its calls
            are made one at a time. False: all calls are made at once, and results are passed on as
            they arrive.
        capacity: How many calls a worker process makes at the same time.
        timeout: How long one attempt may take.
        retry: How a failed attempt is retried; None: not at all.
        rate_limit: How many attempts may begin in a span of time; None: any number.
        circuit_breaker: When calls to a failing service are suspended; None: never.
        on_failure: What happens to a record whose call failed for good: a word, or a function of
            the record (`mustela.Record`) and the error, which returns the result to use instead.
            None: what the setting ``processing_handler`` says.
        wait: How long an epoch waits for results before it parks unfinished calls and commits
            without them. None: half the commit interval, shared by all calls of an epoch.
        max_parked: How many records may be parked, over all lanes. At this limit the application
            stops reading: records wait in their topics until calls have ended. What an epoch has
            already read is kept, so there may be as many more as one epoch reads.
        event_time_lag: How far event time is held back for the steps after this one, so that
            windows there wait for records that were parked for up to this long.

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
    """Say whether a function wants to know about the call that it makes.

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
    msg = f"{holder}({name}={value!r}) is not a whole number of at least 1"
    raise BadOptionError(msg, fix=f"write {holder}({name}=10)", fields={name: value})


def check_on_failure(holder: str, name: str, value: object) -> None:
    """Check what is to happen to a record whose call failed.

    Raises:
        BadOptionError: If it is neither a word nor a function.
    """
    if value is None or value in _WORDS or callable(value):
        return
    msg = f"{holder}({name}={value!r}) is neither a word that it takes nor a function"
    raise BadOptionError(
        msg,
        fix=f"use {', '.join(map(repr, _WORDS))}, or a function of (record, error)",
        fields={name: value},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReply:
    """How a step sends requests to a topic and waits for replies.

    Attributes:
        topic: The topic of the requests.
        timeout: How long to wait for a reply, by the wall clock.
        key: Type or serde of the requests' keys; the stream's if not given.
        value: Type or serde of the requests' values; the stream's if not given.
        header: Name of the header whose value a reply must share with its request.
        on_timeout: What happens to a record without a reply: a word, or a function of the record
            and the error, which returns the result to use instead. None: what the setting
            ``processing_handler`` says.

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
