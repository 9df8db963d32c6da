"""Runs an application that the fault tests kill: ``python -m tests.faults.apps KIND``.

Settings come from the environment. What the application tells its listeners goes, a JSON line for
each event, into the file that ``FAULTS_EVENTS`` names.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TextIO

from mustela import App
from mustela.errors import MustelaError
from mustela.runtime.events import EpochDone, Event, Restoring, StateChanged
from tests.faults.kinds.registry import KINDS
from tests.faults.reading import Reader


class EventLog:
    """Writes events as JSON lines."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def say(self, kind: str, **facts: object) -> None:
        """Write one line, whole and at once."""
        with self._lock:
            self._file.write(json.dumps({"event": kind, "now": time.time(), **facts}) + "\n")
            self._file.flush()

    def on_event(self, event: Event) -> None:
        """Write what is known of an event."""
        if isinstance(event, StateChanged):
            self.say("state", state=event.state.value)
        elif isinstance(event, Restoring):
            self.say("restoring", done=event.done, groups=event.groups, records=event.records)
        elif isinstance(event, EpochDone):
            restored: dict[str, int] = {}
            for report in event.reports:
                for store, count in report.restored.items():
                    restored[store] = restored.get(store, 0) + count
            facts = {"epoch": event.epoch, "records": event.records, "restored": restored}
            self.say("epoch", **facts)

    def on_error(self, error: BaseException) -> None:
        """Write that something is tried again."""
        self.say("error", code=getattr(error, "code", type(error).__name__), text=str(error))


def main(kind: str) -> int:
    """Run one application until it is stopped; return its exit code."""
    from mustela.cli.console import exit_code_of

    faulthandler.register(signal.SIGUSR1)
    told = {name: os.environ.get(f"FAULTS_{name.upper()}", "{}") for name in ("spark", "kafka")}
    app = App(**{name: json.loads(text) for name, text in told.items()})
    prefix = os.environ["FAULTS_PREFIX"]
    app.topology(lambda builder: KINDS[kind].build(builder, prefix))
    with Path(os.environ["FAULTS_EVENTS"]).open("a", encoding="utf-8") as file:
        log = EventLog(file)
        app.add_listener(log)
        log.say("start", pid=os.getpid())
        reader = Reader(app, KINDS[kind], log)
        reads = KINDS[kind].read is not None and "FAULTS_UNREAD" not in os.environ
        if reads:
            reader.start()
        try:
            app.run()
        except MustelaError as error:
            log.say("end", code=error.code, text=str(error))
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            return exit_code_of(error)
        if reads:
            reader.end()
        log.say("end", code="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
