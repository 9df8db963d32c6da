"""Reads the store of a running application from inside of its process."""

from __future__ import annotations

import random
import statistics
import threading
import time

from benchmarks.burner import ticks
from benchmarks.peers.app_protocol import emit
from mustela import App
from mustela.errors import EnvironmentFault

_STORE = "counts"
_KEYS_MAX = 10_000
_WARM_UP = 2_000
_LOOK_S = 0.1
_NANO = 1_000


def some_keys(app: App) -> list[str]:
    """Return the first keys of the store."""
    with app.store(_STORE).keys() as keys:
        return [key for key, _ in zip(keys, range(_KEYS_MAX), strict=False)]


def told(latencies_ns: list[int], cpu_ns: int) -> dict[str, float]:
    """Return what is told of gets, in microseconds."""
    parts = statistics.quantiles(latencies_ns, n=100)
    return {
        "gets": len(latencies_ns),
        "p50_us": round(parts[49] / _NANO, 1),
        "p99_us": round(parts[98] / _NANO, 1),
        "cpu_us": round(cpu_ns / len(latencies_ns) / _NANO, 1),
    }


def measured_gets(app: App, count: int) -> dict[str, float]:
    """Return what a get takes, one after the other."""
    rng, keys, store = random.Random(1), some_keys(app), app.store(_STORE)
    latencies: list[int] = []
    before = 0
    for number in range(_WARM_UP + count):
        if number == _WARM_UP:
            before = time.thread_time_ns()
        key = rng.choice(keys)
        began = time.perf_counter_ns()
        found = store.get(key)
        if number >= _WARM_UP:
            latencies.append(time.perf_counter_ns() - began)
        assert found is not None, key
    return told(latencies, time.thread_time_ns() - before)


class StoreReader(threading.Thread):
    """Reads keys at a rate as long as the application runs.

    Args:
        app: The application.
        rate: Gets a second.
    """

    def __init__(self, app: App, rate: int) -> None:
        super().__init__(daemon=True)
        self._app = app
        self._rate = rate
        self._ended = threading.Event()
        self._latencies: list[int] = []
        self._cpu_ns = 0

    def run(self) -> None:
        """Read until the end."""
        keys: list[str] = []
        while not self._ended.wait(_LOOK_S) and not keys:
            try:
                keys = some_keys(self._app)
            except EnvironmentFault:
                continue  # it is starting
        rng = random.Random(2)
        began = time.thread_time_ns()
        for _ in ticks(self._rate):
            if self._ended.is_set():
                break
            self._get(rng.choice(keys))
        self._cpu_ns = time.thread_time_ns() - began

    def _get(self, key: str) -> None:
        began = time.perf_counter_ns()
        try:
            self._app.store(_STORE).get(key)
        except EnvironmentFault:
            return  # it ends
        self._latencies.append(time.perf_counter_ns() - began)

    def end(self) -> None:
        """Stop, and tell what the gets took."""
        self._ended.set()
        self.join()
        if len(self._latencies) > 1:
            emit("reading", **told(self._latencies, self._cpu_ns))
