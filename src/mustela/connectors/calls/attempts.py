"""One call from its first attempt to its outcome."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import stamina

from mustela.api.calls import AsyncCall, Retry
from mustela.clock import Clock
from mustela.connectors.calls.limits import Breaker, Rate
from mustela.model import Record
from mustela.plan.calls import CallOutcome, CallRequest, write_results
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.async_calls import AsyncNode

__all__ = ["Attempts"]

_TEXT_MAX: Final = 2_000


class Attempts:
    """Makes the calls of one step, each as often as its rules say.

    Args:
        node: The step.
        clock: Monotonic time, for rate and breaker.
        threads: Where plain functions run; None: where the calls are made.
        pauses: Whether retries are waited for, and rate and breaker obeyed.
    """

    def __init__(
        self, node: AsyncNode, clock: Clock, *, threads: Executor | None, pauses: bool = True
    ) -> None:
        self._node = node
        self._clock = clock
        self._threads = threads
        self._pauses = pauses
        self._key: Serde[Any] = node.key or ValueSerde(sort_keys=True)
        self._value: Serde[Any] = node.value or ValueSerde()
        self._timeout = node.rules.timeout.total_seconds()
        rules = node.rules
        self._rate = None if rules.rate_limit is None else Rate(rules.rate_limit)
        self.breaker = None if rules.circuit_breaker is None else Breaker(rules.circuit_breaker)
        called: Any = getattr(node.function, "__call__", None)  # noqa: B004 - of an object's class
        self._is_coroutine = inspect.iscoroutinefunction(_bare(node.function)) or (
            inspect.iscoroutinefunction(called)
        )

    async def make(self, request: CallRequest) -> CallOutcome:
        """Make a call; the outcome says what it gave, or why it failed for good."""
        made = 0
        try:
            async for attempt in self._attempts():
                with attempt:
                    made = attempt.num
                    given = await self._one(request, made)
                    return CallOutcome(request.call_id, made, given)
        except Exception as error:  # noqa: BLE001 - the function is the user's
            return _failure(request.call_id, made, error, self._node.function)
        raise AssertionError(request.call_id)

    def _attempts(self) -> Any:
        retry = self._node.rules.retry
        rule = Retry(attempts=1) if retry is None else retry
        wait = 1.0 if self._pauses else 0.0
        return stamina.retry_context(
            on=rule.on,
            attempts=rule.attempts,
            timeout=None,
            wait_initial=rule.initial.total_seconds() * wait,
            wait_max=rule.maximum.total_seconds() * wait,
            wait_jitter=rule.jitter.total_seconds() * wait,
        )

    async def _one(self, request: CallRequest, attempt: int) -> bytes | None:
        if self._pauses:
            await self._admitted()
        breaker = self.breaker
        try:
            call = self._bound(request, attempt)
            given = await asyncio.wait_for(self._given(call), self._timeout)
            written = write_results(self._node, given)
        except asyncio.CancelledError:
            if breaker is not None:
                breaker.given_up()
            raise
        except Exception:
            if breaker is not None:
                breaker.failed(self._clock.monotonic())
            raise
        if breaker is not None:
            breaker.succeeded()
        return written

    async def _admitted(self) -> None:
        for gate in (self.breaker, self._rate):
            while gate is not None and (pause := gate.admit(self._clock.monotonic())) > 0:
                await asyncio.sleep(pause)

    async def _given(self, call: Callable[[], Any]) -> Any:
        """Return what the function gives, wherever it runs."""
        if self._is_coroutine or self._threads is None:
            given = call()
        else:
            given = await asyncio.get_running_loop().run_in_executor(
                self._threads, copy_context().run, call
            )
        if inspect.isawaitable(given):
            waited: Awaitable[Any] = given
            return await waited
        return given

    def _bound(self, request: CallRequest, attempt: int) -> Callable[[], Any]:
        """Return the function with its arguments."""
        node = self._node
        key = self._key.deserialize(request.key)
        value = self._value.deserialize(request.value)
        options: dict[str, Any] = {}
        if node.with_call:
            options["call"] = AsyncCall(
                idempotency_key=request.call_id,
                attempt=attempt,
                key=key,
                headers=request.headers,
                timestamp=request.timestamp,
            )
        if node.gives == "records":
            record = Record(key, value, max(0, request.timestamp), request.headers)
            return partial(node.function, record, **options)
        arguments = (key, value) if node.with_key else (value,)
        return partial(node.function, *arguments, **options)


def _bare(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return function  # pyright: ignore[reportUnknownVariableType]


def _failure(
    call_id: str, made: int, error: BaseException, function: Callable[..., Any]
) -> CallOutcome:
    """Return the outcome of a call that failed, with the line of the user's that raised."""
    code = getattr(_bare(function), "__code__", None)
    file: str | None = getattr(code, "co_filename", None)
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename == file]
    where = f"{mine[-1].filename}:{mine[-1].lineno}" if mine else ""
    text = getattr(error, "what", None) or str(error)
    if isinstance(error, TimeoutError) and not text:
        text = "the call took longer than its timeout"
    return CallOutcome(call_id, made, None, type(error).__name__, text[:_TEXT_MAX], where)
