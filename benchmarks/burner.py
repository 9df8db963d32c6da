"""Takes processor time at a rate, and nothing else: ``python -m benchmarks.burner``.

What a thread that reads stores does to the pipeline beside the processor time that it takes shows
by comparison with a process that takes as much, as often.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

_LATE_S = 0.1


def ticks(rate: int) -> Iterator[None]:
    """Yield so many times a second, for ever; what is late by more than a moment is left out."""
    pause_s, due = 1 / rate, time.perf_counter()
    while True:
        due = max(due + pause_s, time.perf_counter() - _LATE_S)
        time.sleep(max(0.0, due - time.perf_counter()))  # costs less than an event does
        yield


def burn(rate: int, micros: float) -> None:
    """Take so many microseconds, so many times a second, for ever; waking up counts."""
    spent = float(time.thread_time_ns())
    for _ in ticks(rate):
        spent += micros * 1_000
        while time.thread_time_ns() < spent:
            pass


def main() -> None:
    """Read the command line and burn until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, required=True, help="times a second")
    parser.add_argument("--micros", type=float, required=True, help="each time")
    given = parser.parse_args()
    burn(given.rate, given.micros)


if __name__ == "__main__":
    main()
