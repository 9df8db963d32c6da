"""External calls in the test driver: made at once, or held until the test releases them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from mustela.api.option import Answering
from mustela.clock import Clock, ManualClock
from mustela.connectors.calls.attempts import Attempts
from mustela.connectors.calls.pool import LoopThread
from mustela.plan.calls import CallOutcome, CallRequest, Fate
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.testing.cluster import MemoryCluster
from mustela.topology.async_calls import AsyncNode

__all__ = ["DriverCalls", "HeldCall", "HoldsCalls"]

_FAR_MS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCall:
    """A call that the test driver holds.

    Attributes:
        step: The name of the step that makes it.
        idempotency_key: Identifies record and step.
        key: The record's key.
        value: The record's value.
        attempt: The number of the attempt, counted from 1.
    """

    step: str
    idempotency_key: str
    key: Any
    value: Any
    attempt: int


@dataclass(slots=True, eq=False)
class _Call:
    request: CallRequest
    begun_ms: int  # of the monotonic clock
    attempt: int = 1
    parked: bool = False


class DriverCalls:
    """The calls of all steps under test; see `mustela.plan.calls.CallDesk`.

    Args:
        clock: The driver's clock.
        held: Whether calls wait until the test releases them.
    """

    def __init__(self, clock: Clock, *, held: bool) -> None:
        self.clock = clock
        self.held = held
        self.lives = 0
        self._steps: dict[str, DriverStepCalls] = {}
        self._thread: LoopThread | None = None

    def elapsed_ms(self) -> int:
        """Milliseconds since some fixed moment, unaffected by changes of the wall clock."""
        return int(self.clock.monotonic() * 1000)

    def step(self, node: AsyncNode) -> DriverStepCalls:
        """Return the calls of one step."""
        found = self._steps.get(node.name)
        if found is None:
            found = self._steps[node.name] = DriverStepCalls(self, node)
        return found

    def result(self, work: Any) -> Any:
        """Run a coroutine to its end."""
        if self._thread is None:
            self._thread = LoopThread("test-calls")
        return self._thread.result(work)

    def waiting(self) -> list[HeldCall]:
        """Return the held calls, in the order in which they were started."""
        return [call for step in self._steps.values() for call in step.waiting()]

    def end(self, calls: Iterable[HeldCall], error: BaseException | None = None) -> set[str]:
        """Make calls, or fail them; return the steps that wait for them."""
        chosen = list(calls)
        for call in chosen:
            self._steps[call.step].end(call.idempotency_key, error)
        return {call.step for call in chosen}

    def crash(self, *, keep_outcomes: bool) -> bool:
        """Forget the running calls, as when their process dies.

        Args:
            keep_outcomes: Whether the host survives, with the outcomes that it keeps.

        Returns:
            Whether there were any.
        """
        self.lives += 1
        lost = [step.crash(keep_outcomes=keep_outcomes) for step in self._steps.values()]
        return any(lost)

    def close(self) -> None:
        """Stop the thread that makes calls."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None


class HoldsCalls(Answering):
    """The methods of the test driver for held calls."""

    _cluster: MemoryCluster
    _clock: ManualClock
    _calls: DriverCalls

    def held_calls(self) -> list[HeldCall]:
        """Return the calls that wait for the test, in the order in which they were started.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str)
            >>> words.map_values_async(str.upper, name="shout").to("loud", value=str)
            >>> with TopologyTestDriver(builder, hold_calls=True) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "hey")
            ...     [(call.step, call.key, call.value) for call in driver.held_calls()]
            ...     driver.complete_calls()
            ...     driver.create_output_topic("loud").read_values_to_list()
            [('shout', 'a', 'hey')]
            1
            ['HEY']
        """
        return self._calls.waiting()

    def complete_calls(self, calls: Iterable[HeldCall] | None = None) -> int:
        """Make held calls, and forward their results.

        Records that waited behind them then start their own calls, which are held in turn.

        Args:
            calls: The calls; default: all held calls.

        Returns:
            The number of calls made.
        """
        return self._end(calls, None)

    def fail_calls(self, error: BaseException, calls: Iterable[HeldCall] | None = None) -> int:
        """Make held calls fail permanently.

        Args:
            error: The error that they fail with.
            calls: The calls; default: all held calls.

        Returns:
            The number of failed calls.
        """
        return self._end(calls, error)

    def _end(self, calls: Iterable[HeldCall] | None, error: BaseException | None) -> int:
        chosen = self._calls.waiting() if calls is None else list(calls)
        stages = {step.name: at.index for at in self._cluster.plan.stages for step in at.steps}
        ended = {stages[step] for step in self._calls.end(chosen, error)}
        groups = range(self._cluster.key_groups)  # calls may wait for capacity in any of them
        places = [(stage, group) for stage in ended for group in groups]
        self._cluster.due.wake(places, self._clock.now_ms())
        self._tick()
        return len(chosen)

    def _tick(self) -> None:
        raise NotImplementedError


class DriverStepCalls:
    """The calls of one step under test; see `mustela.plan.calls.StepCalls`.

    Args:
        desk: All calls.
        node: The step.
    """

    def __init__(self, desk: DriverCalls, node: AsyncNode) -> None:
        self._desk = desk
        self._node = node
        self._attempts = Attempts(node, desk.clock, threads=None, pauses=False)
        self._key: Serde[Any] = node.key or ValueSerde(sort_keys=True)
        self._value: Serde[Any] = node.value or ValueSerde()
        self._timeout_ms = int(node.rules.timeout.total_seconds() * 1000)
        self._calls: dict[str, _Call] = {}
        self._ended: dict[str, tuple[int, CallOutcome]] = {}

    @property
    def owner(self) -> str:
        """The incarnation of the driver that makes the calls."""
        return f"driver-{self._desk.lives}"

    def begin(self, wait_ms: int) -> None:
        """Note that a task begins; calls that no task has parked belong to a failed one."""
        del wait_ms
        self._calls = {name: call for name, call in self._calls.items() if call.parked}

    def start(self, request: CallRequest) -> bool:
        """Accept a call; return False if the limit of concurrent calls is reached."""
        if request.call_id in self._ended or request.call_id in self._calls:
            return True
        if len(self._calls) >= self._node.rules.capacity:
            return False
        self._calls[request.call_id] = _Call(request, self._desk.elapsed_ms())
        return True

    def completed(self, *, wait: bool) -> list[CallOutcome]:
        """Make the calls, unless they are held or the circuit breaker is open."""
        del wait
        if self._desk.held:
            return []
        found: list[CallOutcome] = []
        for name, call in list(self._calls.items()):
            if not call.parked and not self._pause_ms():
                del self._calls[name]
                found.append(self._desk.result(self._attempts.make(call.request)))
        return found

    def park(self, call_id: str) -> CallOutcome | None:
        """Leave a call to later epochs."""
        if call_id in self._calls:
            self._calls[call_id].parked = True
        found = self._ended.get(call_id)
        return None if found is None else found[1]

    def fate(self, call_id: str, owner: str) -> Fate:
        """Return whether a call is still running, or has ended."""
        known = call_id in self._calls or call_id in self._ended
        return "running" if known and owner == self.owner else "lost"

    def arrived(self, call_ids: Collection[str]) -> list[CallOutcome]:
        """Return the outcomes of calls that have ended or timed out."""
        now = self._desk.elapsed_ms()
        if self._desk.held:
            for name, call in list(self._calls.items()):
                if call.begun_ms + self._timeout_ms <= now:
                    self._time_out(name, call)
        else:
            for name in [name for name in self._calls if name in call_ids]:
                if not self._pause_ms():
                    self.end(name, None)
        return [outcome for name, (_, outcome) in self._ended.items() if name in call_ids]

    def sweep(self, groups: Collection[int], wanted: Collection[str]) -> None:
        """Forget outcomes that no record waits for."""
        self._ended = {
            name: ended
            for name, ended in self._ended.items()
            if ended[0] not in groups or name in wanted
        }

    def poll_ms(self, age_ms: int | None) -> int:
        """Return when the first call times out, or the circuit breaker lets one through."""
        if age_ms is None and not self._pause_ms():
            return 1
        if not self._desk.held:
            return max(1, self._pause_ms())
        now = self._desk.elapsed_ms()
        ends = [call.begun_ms + self._timeout_ms for call in self._calls.values()]
        return max(1, min(ends, default=now + _FAR_MS) - now)

    def waiting(self) -> list[HeldCall]:
        """Return the held calls."""
        return [
            HeldCall(
                step=self._node.name,
                idempotency_key=name,
                key=self._key.deserialize(call.request.key),
                value=self._value.deserialize(call.request.value),
                attempt=call.attempt,
            )
            for name, call in self._calls.items()
        ]

    def end(self, call_id: str, error: BaseException | None) -> None:
        """Make a call, or fail it."""
        call = self._calls.pop(call_id)
        if error is None:
            outcome = self._desk.result(self._attempts.make(call.request))
        else:
            outcome = CallOutcome(call_id, call.attempt, None, type(error).__name__, str(error))
        self._ended[call_id] = (call.request.group, outcome)

    def crash(self, *, keep_outcomes: bool) -> bool:
        """Forget the running calls; return whether there were any."""
        had = bool(self._calls)
        self._calls.clear()
        if not keep_outcomes:
            self._ended.clear()
        return had

    def _time_out(self, name: str, call: _Call) -> None:
        """Fail an attempt that took too long; start the next one, if any."""
        retry = self._node.rules.retry
        if retry is not None and call.attempt < retry.attempts:
            call.attempt += 1
            call.begun_ms = self._desk.elapsed_ms()
            return
        self.end(name, TimeoutError("the call took longer than its timeout"))

    def _pause_ms(self) -> int:
        breaker = self._attempts.breaker
        if breaker is None or (pause := breaker.closed_in(self._desk.clock.monotonic())) <= 0:
            return 0
        return int(pause * 1000) + 1
