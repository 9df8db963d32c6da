"""The calls of one worker process: a thread with a loop makes them, beside the tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final

import stamina

from mustela.clock import Clock
from mustela.connectors.calls.attempts import Attempts
from mustela.connectors.calls.spool import CallSpool, Owner, Spooled, host_of, living_owners
from mustela.logs.form import bind
from mustela.plan.calls import CallersSeen, CallOutcome, CallRequest, Fate
from mustela.topology.async_calls import AsyncNode

__all__ = ["CallPool", "LoopThread"]

_QUEUE_FACTOR: Final = 4
"""A process takes on so many times the calls that it makes at once: it has something to do until
the next epoch brings more."""

_LATENCY_SHARE: Final = 0.2
"""How much the last call counts in the usual time of a call."""

_POLL_SHARE: Final = 4
_ROOM_MS: Final = 100
"""After so long there may be room for calls that had none."""

_CLOSE_S: Final = 1.0


@dataclass(slots=True, eq=False)
class _Call:
    request: CallRequest
    parked: bool = False
    task: asyncio.Task[None] | None = None


class LoopThread:
    """A thread that runs coroutines."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def result(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end, and return what it gave."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        """Cancel everything and end."""

        async def stop() -> None:
            mine = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not mine]
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_CLOSE_S) if others else None
            self.loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), self.loop)
        self._thread.join(2 * _CLOSE_S)


class CallPool:
    """Makes the calls of all steps in one process; see `mustela.plan.calls.CallDesk`.

    Args:
        root: Where outcomes of parked calls are left for other processes.
        clock: Monotonic time.
        watched: Whether the driver looks into ``root`` by itself, so that a task need not.
    """

    def __init__(self, root: Path, clock: Clock, *, watched: bool) -> None:
        self._root = root
        self._clock = clock
        self._watched = watched
        # Its hooks would print a line for each retry into Spark's log; a counter tells of them.
        stamina.instrumentation.set_on_retry_hooks(())
        self._thread = LoopThread("calls")
        self._owner = Owner(root)
        self._steps: dict[str, ProcessCalls] = {}
        self._host = host_of(root)
        self._elsewhere: frozenset[str] = frozenset()
        self._outcomes: Mapping[str, Sequence[CallOutcome]] = {}

    def step(self, node: AsyncNode) -> ProcessCalls:
        """Return the calls of one step."""
        found = self._steps.get(node.name)
        if found is None:
            found = self._steps[node.name] = ProcessCalls(self, node)
        return found

    def tell(
        self, callers: frozenset[str] | None, outcomes: Mapping[str, Sequence[CallOutcome]]
    ) -> None:
        """Note what the driver knows of other hosts; a task begins.

        Args:
            callers: The processes that make calls there.
            outcomes: By step, what has become of calls that they made.
        """
        self._elsewhere = callers or frozenset()
        self._outcomes = outcomes
        for calls in self._steps.values():
            calls.waits = False

    def seen(self) -> CallersSeen:
        """Return who makes calls on this host, and whether the task waits for any."""
        waits = any(calls.waits for calls in self._steps.values())
        return CallersSeen(self._host, living_owners(self._root), waits)

    def is_elsewhere(self, owner: str) -> bool | None:
        """Return whether a process of another host makes calls; None if it is of this one."""
        if owner.startswith(f"{self._host}."):
            return None
        return owner in self._elsewhere

    def told(self, step: str) -> Sequence[CallOutcome]:
        """Return what has become of calls that other hosts made for a step."""
        return self._outcomes.get(step, ())

    def close(self) -> None:
        """Give all calls up."""
        self._thread.close()
        self._owner.close()

    @property
    def root(self) -> Path:
        """Where outcomes of parked calls are."""
        return self._root

    @property
    def clock(self) -> Clock:
        """Monotonic time."""
        return self._clock

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where calls are made."""
        return self._thread.loop

    @property
    def owner(self) -> str:
        """The process, by a name that no other ever has."""
        return self._owner.name

    def renew(self) -> None:
        """Become another owner: what was parked under the old name is to be called again."""
        self._owner.close()
        self._owner = Owner(self._root)

    def poll_ms(self, age_ms: int | None) -> int:
        """Return after how long to look again: soon for young calls, later for old ones.

        Where the driver sees outcomes by itself, a task only has to find out whether a process has
        died.
        """
        if age_ms is None:
            return _ROOM_MS
        least, most = (1_000, 10_000) if self._watched else (50, 2_000)
        return min(most, max(least, age_ms // _POLL_SHARE))


class ProcessCalls:
    """The calls of one step in one process; see `mustela.plan.calls.StepCalls`.

    Args:
        pool: The process's calls.
        node: The step.

    Attributes:
        waits: Whether a task has met calls that go on beyond it.
    """

    def __init__(self, pool: CallPool, node: AsyncNode) -> None:
        self._pool = pool
        self._step = node.name
        self._capacity = node.rules.capacity
        threads = ThreadPoolExecutor(self._capacity, thread_name_prefix=f"call-{node.name}")
        self._attempts = Attempts(node, pool.clock, threads=threads)
        self._spool = CallSpool(pool.root, node.name)
        self._calls: dict[str, _Call] = {}
        self._ended: list[CallOutcome] = []
        self._changed = Condition()
        self._slots = asyncio.Semaphore(self._capacity)
        self._deadline = 0.0
        self._wait_s = 0.0
        self._usual_s = 0.0
        self._alive: dict[str, bool] = {}
        self.waits = False

    @property
    def owner(self) -> str:
        """The process."""
        return self._pool.owner

    def begin(self, wait_ms: int) -> None:
        """Note that a task begins."""
        self._wait_s = wait_ms / 1000
        self._deadline = self._pool.clock.monotonic() + self._wait_s
        self._alive.clear()

    def start(self, request: CallRequest) -> bool:
        """Take a call on; False if there are enough already."""
        with self._changed:
            if request.call_id in self._calls:
                return True
            if any(outcome.call_id == request.call_id for outcome in self._ended):
                return True
            if len(self._calls) >= self._capacity * _QUEUE_FACTOR:
                return False
            call = self._calls[request.call_id] = _Call(request)
        self._pool.loop.call_soon_threadsafe(self._begin, call)
        return True

    def completed(self, *, wait: bool) -> list[CallOutcome]:
        """Return what has ended, and wait for it where that is likely to help."""
        with self._changed:
            if not self._ended and wait and self._usual_s <= self._wait_s:
                left = self._deadline - self._pool.clock.monotonic()
                if left > 0:
                    self._changed.wait(left)
            found, self._ended = self._ended, []
        return found

    def park(self, call_id: str) -> CallOutcome | None:
        """Leave a call to later tasks, or return its outcome if it has just ended."""
        with self._changed:
            call = self._calls.get(call_id)
            if call is not None:
                call.parked = self.waits = True
                return None
            found = next((one for one in self._ended if one.call_id == call_id), None)
            if found is not None:
                self._ended.remove(found)
            return found

    def fate(self, call_id: str, owner: str) -> Fate:
        """Say whether a call is still being made."""
        with self._changed:
            if call_id in self._calls:
                self.waits = True
                return "running"
        if owner == self._pool.owner:
            return "lost"
        if owner not in self._alive:
            there = self._pool.is_elsewhere(owner)
            self._alive[owner] = self._spool.is_alive(owner) if there is None else there
        self.waits = self.waits or self._alive[owner]
        return "running" if self._alive[owner] else "lost"

    def arrived(self, call_ids: Collection[str]) -> list[CallOutcome]:
        """Return the outcomes of parked calls that have ended."""
        if not call_ids:
            return []
        names = [name for name in self._spool.names() if name.call_id in call_ids]
        here = [found for name in names if (found := self._spool.read(name)) is not None]
        known = {outcome.call_id for outcome in here}
        told = (one for one in self._pool.told(self._step) if one.call_id in call_ids)
        return here + [one for one in told if one.call_id not in known]

    def sweep(self, groups: Collection[int], wanted: Collection[str]) -> None:
        """Forget outcomes that no record waits for."""
        mine = set(groups)
        for name in list(self._spool.names()):
            if name.group in mine and name.call_id not in wanted:
                self._spool.remove(name)

    def poll_ms(self, age_ms: int | None) -> int:
        """Return after how long to look again."""
        return self._pool.poll_ms(age_ms)

    def _begin(self, call: _Call) -> None:
        call.task = self._pool.loop.create_task(self._make(call))

    async def _make(self, call: _Call) -> None:
        async with self._slots:
            bind(step=self._step)  # in this task alone
            started = self._pool.clock.monotonic()
            outcome = await self._attempts.make(call.request)
            seconds = self._pool.clock.monotonic() - started
        with self._changed:
            self._usual_s += (seconds - self._usual_s) * _LATENCY_SHARE
            if call.parked:
                self._leave(Spooled(call.request.group, outcome.call_id), outcome)
            del self._calls[outcome.call_id]
            self._ended.append(outcome)
            self._changed.notify_all()

    def _leave(self, name: Spooled, outcome: CallOutcome) -> None:
        try:
            self._spool.write(name.group, outcome)
        except OSError:
            # Others would wait for ever: so what this process has parked counts as lost.
            self._pool.renew()
