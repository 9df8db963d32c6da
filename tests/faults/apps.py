"""The applications that the fault tests kill: ``python -m tests.faults.apps KIND`` runs one.

Settings come from the environment. What the application tells its listeners goes, a JSON line for
each event, into the file that ``FAULTS_EVENTS`` names.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from mustela import App, StreamsBuilder
from mustela.errors import MustelaError
from mustela.runtime.events import EpochDone, Event, Restoring, StateChanged

Build = Callable[[StreamsBuilder, str], None]


def word_count(builder: StreamsBuilder, prefix: str) -> None:
    """Count words: combined before the shuffle."""
    lines = builder.stream(f"{prefix}.in", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, name="by-word")
    words.count(store="counts").to_stream().to(f"{prefix}.out", key=str, value=int)


def link(chain: str, value: str) -> str:
    """Add a value to a chain; any other order, a gap or a repeat gives another chain."""
    length, _, _ = chain.partition(":") if ":" in chain else ("1", "", "")
    digest = hashlib.md5(f"{chain}|{value}".encode()).hexdigest()[:12]
    return f"{int(length) + 1}:{digest}"


def sequence(builder: StreamsBuilder, prefix: str) -> None:
    """Reduce by a function that is not associative: each record in its turn."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    reduced = stream.group_by_key().reduce(link, store="chains")
    reduced.to_stream().to(f"{prefix}.out", key=str, value=str)


def shout(value: str) -> str:
    """Map a value; a poisoned one raises."""
    if value.startswith("poison"):
        raise ValueError(value)
    return value.upper()


def stateless(builder: StreamsBuilder, prefix: str) -> None:
    """Map values one by one, poisoned ones to the dead letters."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.map_values(shout, name="shout").to(f"{prefix}.out", key=str, value=str)


def draw(_value: str) -> int:
    """Draw a number that no second run would draw again."""
    return random.SystemRandom().randrange(1, 1 << 40)


def random_sums(builder: StreamsBuilder, prefix: str) -> None:
    """Draw a number for each record, show it, and sum the numbers of a key."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    draws = stream.map_values(draw, name="draw")
    draws.to(f"{prefix}.draws", key=str, value=int, name="draws")
    sums = draws.group_by_key(key=str, value=int).reduce(int.__add__, store="sums")
    sums.to_stream().to(f"{prefix}.out", key=str, value=int)


BUILDS: dict[str, Build] = {
    "word_count": word_count,
    "sequence": sequence,
    "stateless": stateless,
    "random_sums": random_sums,
}


class EventLog:
    """Writes events as JSON lines."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def say(self, kind: str, **facts: object) -> None:
        """Write one line, whole and at once."""
        with self._lock:
            self._file.write(json.dumps({"event": kind, **facts}) + "\n")
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
            self.say("epoch", epoch=event.epoch, records=event.records, restored=restored)

    def on_error(self, error: BaseException) -> None:
        """Write that something is tried again."""
        self.say("error", code=getattr(error, "code", type(error).__name__), text=str(error))


def main(kind: str) -> int:
    """Run one application until it is stopped; return its exit code."""
    from mustela.cli.console import exit_code_of

    app = App(spark=json.loads(os.environ.get("FAULTS_SPARK", "{}")))
    prefix = os.environ["FAULTS_PREFIX"]
    app.topology(lambda builder: BUILDS[kind](builder, prefix))
    with Path(os.environ["FAULTS_EVENTS"]).open("a", encoding="utf-8") as file:
        log = EventLog(file)
        app.add_listener(log)
        log.say("start", pid=os.getpid())
        try:
            app.run()
        except MustelaError as error:
            log.say("end", code=error.code, text=str(error))
            return exit_code_of(error)
        log.say("end", code="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
