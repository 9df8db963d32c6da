"""Calls in a worker process: limits, timeouts, and outcomes that reach other processes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela.api.calls import AsyncOptions, CircuitBreaker, Retry
from mustela.clock import SystemClock
from mustela.connectors.calls.pool import CallPool, ProcessCalls
from mustela.connectors.calls.spool import CallSpool, Owner, clear_abandoned
from mustela.logs.form import LineFormatter
from mustela.logs.options import LogOptions
from mustela.plan.calls import CallOutcome, CallRequest
from mustela.serdes.primitives import StrSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.async_calls import AsyncNode
from tests.patience import PATIENCE_S

STR = StrSerde()
SOON_MS = 20_000


def node(function: Callable[..., Any], **rules: Any) -> AsyncNode:
    return AsyncNode(
        name="ask",
        function=function,
        rules=AsyncOptions(**rules),
        parking=StoreSpec(name="parked", kind="parking"),
        key=STR,
        value=STR,
        result=STR,
    )


def request(number: int) -> CallRequest:
    return CallRequest(f"id{number}", 3, b"k", f"v{number}".encode())


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[CallPool]:
    made = CallPool(tmp_path, SystemClock(), watched=True)
    yield made
    made.close()


def gather(calls: ProcessCalls, count: int) -> dict[str, CallOutcome]:
    """Take outcomes until there are so many."""
    found: dict[str, CallOutcome] = {}
    while len(found) < count:
        outcomes = calls.completed(wait=True)
        assert outcomes, f"{len(found)} of {count} calls have ended"
        found.update({one.call_id: one for one in outcomes})
    return found


@pytest.mark.parametrize("plain", [False, True])
def test_no_more_calls_are_made_at_once_than_there_is_capacity(pool: CallPool, plain: bool) -> None:
    """The process takes some more on, which wait their turn; then it says no."""
    lock, now, most = threading.Lock(), 0, 0

    def enter(step: int) -> None:
        nonlocal now, most
        with lock:
            now += step
            most = max(most, now)

    async def waits(value: str) -> str:
        enter(1)
        for _ in range(5):
            await asyncio.sleep(0)
        enter(-1)
        return value.upper()

    def runs(value: str) -> str:
        enter(1)
        threading.Event().wait(0.002)
        enter(-1)
        return value.upper()

    calls = pool.step(node(runs if plain else waits, capacity=3))
    calls.begin(SOON_MS)
    taken = [calls.start(request(n)) for n in range(12)]
    assert all(taken)
    assert calls.start(request(0))  # it is being made already, or has just ended
    found = gather(calls, 12)
    assert {name: one.result for name, one in found.items()} == {
        f"id{n}": f"V{n}".encode() for n in range(12)
    }
    assert most <= 3


def test_a_process_takes_on_only_so_many_calls(pool: CallPool) -> None:
    """Four times its capacity."""
    go = threading.Event()
    calls = pool.step(node(lambda value: go.wait(PATIENCE_S) and value, capacity=2))
    calls.begin(SOON_MS)
    assert [calls.start(request(n)) for n in range(9)] == [True] * 8 + [False]
    go.set()
    gather(calls, 8)


@pytest.mark.parametrize("plain", [False, True])
def test_an_attempt_that_hangs_is_given_up(pool: CallPool, plain: bool) -> None:
    """And made again, as often as is said; then it is an error."""
    never = threading.Event()

    async def hangs(_value: str) -> str:
        await asyncio.Event().wait()
        return ""

    function = (lambda _value: never.wait(20)) if plain else hangs
    rules: Any = {
        "timeout": timedelta(milliseconds=20),
        "retry": Retry(attempts=2, initial=timedelta(milliseconds=1), jitter=timedelta(0)),
    }
    calls = pool.step(node(function, **rules))
    calls.begin(SOON_MS)
    calls.start(request(1))
    outcome = gather(calls, 1)["id1"]
    never.set()
    assert (outcome.error, outcome.attempts) == ("TimeoutError", 2)
    assert outcome.text == "the call took longer than its timeout"


def test_an_error_tells_the_users_line(pool: CallPool) -> None:
    """The last one in the file of the function."""

    async def fails(value: str) -> str:
        raise KeyError(value)

    calls = pool.step(node(fails))
    calls.begin(SOON_MS)
    calls.start(request(1))
    outcome = gather(calls, 1)["id1"]
    line = fails.__code__.co_firstlineno + 1
    assert (outcome.error, outcome.text) == ("KeyError", "'v1'")
    assert outcome.where == f"{__file__}:{line}"


def test_an_open_breaker_makes_calls_wait(pool: CallPool) -> None:
    """Until its time is over; the record's call is then made, not given up."""
    made: list[str] = []

    def flaky(value: str) -> str:
        made.append(value)
        if len(made) < 3:
            raise ConnectionError
        return value

    breaker = CircuitBreaker(failures=2, open_for=timedelta(milliseconds=30))
    calls = pool.step(node(flaky, capacity=1, circuit_breaker=breaker))
    calls.begin(SOON_MS)
    for number in range(4):
        calls.start(request(number))
    found = gather(calls, 4)
    assert [found[f"id{n}"].error for n in range(4)] == ["ConnectionError"] * 2 + [None] * 2


def test_the_outcome_of_a_parked_call_reaches_another_process(
    pool: CallPool, tmp_path: Path
) -> None:
    """It is there for whoever looks, until it is swept away."""
    go = threading.Event()
    calls = pool.step(node(lambda value: go.wait(PATIENCE_S) and value))
    calls.begin(SOON_MS)
    calls.start(request(1))
    assert calls.park("id1") is None
    assert calls.fate("id1", pool.owner) == "running"
    elsewhere = CallPool(tmp_path, SystemClock(), watched=False)
    try:
        others = elsewhere.step(node(str.upper))
        others.begin(SOON_MS)
        assert others.fate("id1", pool.owner) == "running"
        assert others.arrived(["id1"]) == []
        go.set()
        gather(calls, 1)
        assert [one.result for one in others.arrived(["id1", "id2"])] == [b"v1"]
        others.sweep([3], ["id1"])
        others.sweep([2], [])
        assert len(others.arrived(["id1"])) == 1
        others.sweep([3], [])
        assert others.arrived(["id1"]) == []
        assert calls.fate("id1", pool.owner) == "lost"
        assert [elsewhere.poll_ms(age) for age in (0, 4_000, 10**6)] == [50, 1_000, 2_000]
        assert [pool.poll_ms(age) for age in (0, 10**6, None)] == [1_000, 10_000, 100]
    finally:
        elsewhere.close()


def test_a_call_that_has_ended_when_it_is_parked_is_not(pool: CallPool) -> None:
    """Its outcome is the answer, and no file is written."""
    calls = pool.step(node(str.upper))
    calls.begin(SOON_MS)
    calls.start(request(1))
    ended = gather(calls, 1)["id1"]
    assert ended.result == b"V1"
    assert calls.park("id1") is None
    assert calls.arrived(["id1"]) == []


def test_a_full_disk_makes_parked_calls_count_as_lost(
    pool: CallPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else others would wait for them for ever."""

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CallSpool, "write", full)
    go, owner = threading.Event(), pool.owner
    calls = pool.step(node(lambda value: go.wait(PATIENCE_S) and value))
    calls.begin(SOON_MS)
    calls.start(request(1))
    assert calls.park("id1") is None
    go.set()
    assert gather(calls, 1)["id1"].result == b"v1"
    assert pool.owner != owner
    assert calls.fate("id1", owner) == "lost"


def test_an_owner_that_is_killed_lives_no_more(tmp_path: Path) -> None:
    """However its process ended; one that nobody knows does not live either."""
    program = (
        "import sys; from pathlib import Path; from mustela.connectors.calls.spool import Owner\n"
        "owner = Owner(Path(sys.argv[1])); print(owner.name, flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    with child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        spool = CallSpool(tmp_path, "ask")
        assert spool.is_alive(name)
        child.kill()
        child.wait()
        assert not spool.is_alive(name)
        assert not spool.is_alive("stranger")
        mine = Owner(tmp_path)
        assert spool.is_alive(mine.name)
        mine.close()
        assert not spool.is_alive(mine.name)


@pytest.mark.parametrize("plain", [True, False])
def test_what_a_call_logs_names_its_step(pool: CallPool, plain: bool) -> None:
    """Calls have threads of their own, where nothing else says which step they are of."""
    lines: list[dict[str, Any]] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(self.format(record)))

    def runs(value: str) -> str:
        logging.getLogger("asked").warning("asks")
        return value

    async def waits(value: str) -> str:
        return runs(value)

    handler = Keeps()
    handler.setFormatter(LineFormatter(LogOptions(application_id="shop")))
    logging.getLogger("asked").addHandler(handler)
    try:
        calls = pool.step(node(runs if plain else waits))
        calls.begin(1_000)
        calls.start(request(1))
        gather(calls, 1)
    finally:
        logging.getLogger("asked").removeHandler(handler)
    assert [(line["event"], line["step"]) for line in lines] == [("asks", node(runs).name)]


def test_calls_that_nobody_has_touched_for_a_day_are_deleted(tmp_path: Path) -> None:
    """Those of a program that rests, or whose process lives, are not."""
    now_s = tmp_path.stat().st_mtime
    for name in ("old", "held", "young"):
        CallSpool(tmp_path / name, "ask").write(1, CallOutcome("a1", 1, b"x"))
    owner = Owner(tmp_path / "held")
    for name in ("old", "held"):
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, (now_s - 90_000, now_s - 90_000))
        os.utime(tmp_path / name, (now_s - 90_000, now_s - 90_000))
    clear_abandoned(tmp_path, now_s)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held", "young"]
    owner.close()
    clear_abandoned(tmp_path / "nowhere", now_s)
