"""Runs an application whose stores are asked: ``python -m tests.faults.reads.app NAME``.

Two readers of its own take snapshots and call live handles all the time. What they saw goes into
the file ``looks.jsonl`` beside the one that ``FAULTS_EVENTS`` names for what listeners are told.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mustela import App
from mustela.errors import EnvironmentFault, MustelaError
from tests.faults.apps import EventLog
from tests.faults.reads.program import Program
from tests.faults.reads.served import make_app, rows_of, rows_of_all

PAUSE_S = 0.1
LOOKS = "looks.jsonl"


class Readers:
    """The readers of a process.

    Args:
        app: The application.
        program: What it is.
        say: Takes what each saw: an event ``look``, or ``misread`` for an error.
    """

    def __init__(self, app: App, program: Program, say: Callable[..., None]) -> None:
        self._app = app
        self._program = program
        self._say = say
        self._random = random.Random(program.seed)
        self._seen = 0
        self._ended = threading.Event()
        ways = {"snapshot": self._snapshot, "live": self._live}
        self._threads = [
            threading.Thread(target=self._read, args=(name, way), name=name, daemon=True)
            for name, way in ways.items()
        ]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _read(self, name: str, way: Callable[[], dict[str, Any]]) -> None:
        while not self._ended.wait(PAUSE_S):
            try:
                self._say("look", client=name, **way())
            except EnvironmentFault as error:  # it starts, restores or ends
                if not error.retryable:
                    self._say("misread", text=f"{name}: {error}")
            except Exception as error:  # noqa: BLE001 - told to the campaign
                self._say("misread", text=f"{name}: {type(error).__name__}: {error}")

    def _snapshot(self) -> dict[str, Any]:
        with self._app.snapshot() as snapshot:
            found = rows_of_all(snapshot, self._program)
            self._seen = max(self._seen, snapshot.epoch)
        return {"epoch": snapshot.epoch, "stores": found}

    def _live(self) -> dict[str, Any]:
        """Read one store by its handle, which names no epoch; none before what was asked for."""
        least = self._seen
        names = [n for n, shape in self._program.shapes.items() if shape.layout != "lines"]
        name = self._random.choice(names)
        handle = self._app.store(name, min_epoch=least)
        found = rows_of(handle, self._program.shapes[name])
        return {"epoch": None, "least": least, "stores": {name: found}}


def main() -> int:
    """Run the application until it is stopped; return its exit code."""
    from mustela.cli.console import exit_code_of

    faulthandler.register(signal.SIGUSR1)
    app, program = make_app(spark=json.loads(os.environ.get("FAULTS_SPARK", "{}")))
    path = Path(os.environ["FAULTS_EVENTS"])
    with (
        path.open("a", encoding="utf-8") as file,
        path.with_name(LOOKS).open("a", encoding="utf-8") as seen,
    ):
        log = EventLog(file)
        app.add_listener(log)
        log.say("start", pid=os.getpid())
        readers = Readers(app, program, EventLog(seen).say)
        readers.start()
        try:
            app.run()
        except MustelaError as error:
            log.say("end", code=error.code, text=str(error))
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            return exit_code_of(error)
        finally:
            readers.end()
        log.say("end", code="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
