"""A reader inside of an application under faults: each answer must be that of a committed epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Protocol

from mustela import App
from mustela.errors import EnvironmentFault
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.kind import Expected, Kind, Model, Rows
from tests.faults.watch import Row

__all__ = ["ReadModel", "Reader", "digest"]

PAUSE_S = 0.05


def digest(rows: Iterable[tuple[str, Any]]) -> str:
    """Return what tells contents apart, in whichever order they come."""
    return sha256(repr(sorted(rows)).encode()).hexdigest()[:16]


class Says(Protocol):
    """Takes events."""

    def say(self, kind: str, **facts: object) -> None:
        """Write one."""
        ...


class Reader(threading.Thread):
    """Takes snapshots as long as the application runs, and tells what is in them.

    Args:
        app: The application.
        kind: Says what to read.
        log: Takes an event ``read`` for each snapshot, and ``misread`` for each error.
    """

    def __init__(self, app: App, kind: Kind, log: Says) -> None:
        super().__init__(name="reader", daemon=True)
        self._app = app
        self._read = kind.read
        self._log = log
        self._ended = threading.Event()

    def run(self) -> None:
        """Read until the end."""
        while not self._ended.wait(PAUSE_S):
            try:
                self._look()
            except EnvironmentFault as error:  # it starts, restores or ends
                if not error.retryable:
                    self._log.say("misread", text=str(error))
            except Exception as error:  # noqa: BLE001 - told to the campaign
                self._log.say("misread", text=f"{type(error).__name__}: {error}")

    def _look(self) -> None:
        if self._read is None:
            return
        with self._app.snapshot() as snapshot:
            found = digest(self._read(snapshot))
        self._log.say("read", epoch=snapshot.epoch, digest=found)

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join()


class ReadModel:
    """A model that also compares what readers saw with what is there after each epoch.

    Args:
        model: What the application means.
        kind: Says what was read.
        runs: The events of each run of the application, in order.
        beside: Whether runs are beside one another, so that each sees its own epochs in order.
    """

    def __init__(
        self,
        model: Model,
        kind: Kind,
        runs: Iterable[Iterable[Mapping[str, Any]]],
        *,
        beside: bool = False,
    ) -> None:
        self._model = model
        self._state = kind.state
        self.violations: list[str] = []
        self.reads: dict[int, set[str]] = {}
        self.compared = 0
        last = 0
        for run in runs:
            last = self._take(run, 0 if beside else last)
        self._compare(0)

    def _take(self, run: Iterable[Mapping[str, Any]], last: int) -> int:
        """Take the events of a run, whose reader saw some epoch before; return the last one."""
        for event in run:
            if event["event"] == "misread":
                self.violations.append(f"a reader had an error: {event['text']}")
            elif event["event"] == "read":
                epoch = event["epoch"]
                if epoch < last:
                    self.violations.append(f"a reader saw epoch {epoch} after epoch {last}")
                last = max(last, epoch)
                self.reads.setdefault(epoch, set()).add(event["digest"])
        return last

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        """Take an epoch's input; return what its rows must be."""
        found = self._model.step(rows, actual, record)
        self._compare(record.epoch)
        return found

    def all_violations(self) -> Iterator[str]:
        """Return what is wrong, after the last epoch."""
        yield from self.violations
        for epoch in sorted(self.reads):
            yield f"a reader saw epoch {epoch}, which has no record"

    def _compare(self, epoch: int) -> None:
        seen = self.reads.pop(epoch, None)
        if seen is None or self._state is None:
            return
        self.compared += 1
        if seen != {digest(self._state(self._model))}:
            self.violations.append(f"a reader saw something else than epoch {epoch}: {seen}")
