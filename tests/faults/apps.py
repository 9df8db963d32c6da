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
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from mustela import (
    App,
    AsyncCall,
    AsyncOptions,
    BufferConfig,
    ContextualProcessor,
    PunctuationType,
    Record,
    Refusal,
    RequestReply,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Suppressed,
    Tick,
    Timer,
    TimeWindows,
    Transaction,
    Updated,
)
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


FIRST_BALANCE = 100


def two_accounts(_id: str, transfer: str) -> list[str]:
    """Return the accounts of a transfer."""
    return transfer.split()[:2]


def move_money(_id: str, transfer: str, tx: Transaction) -> str:
    """Move money; return what both accounts have then."""
    source, target, amount = transfer.split()
    accounts = tx.store("accounts")
    balance = accounts.get(source, FIRST_BALANCE)
    if balance < int(amount):
        tx.abort(f"{source} has {balance}")
    accounts.put(source, balance - int(amount))
    accounts.put(target, accounts.get(target, FIRST_BALANCE) + int(amount))
    return f"{source} {accounts[source]} {target} {accounts[target]}"


def reason(refusal: Refusal[str]) -> str:
    """Return why a transfer was refused."""
    return refusal.reason


def transfers(builder: StreamsBuilder, prefix: str) -> None:
    """Move money between accounts, in transactions that share them."""
    accounts = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("accounts"), key=str, value=int
    )
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    moved = stream.transact(keys=two_accounts, fn=move_money, stores=accounts, name="move")
    moved.to(f"{prefix}.out", value=str)
    moved.refused().map_values(reason).to(f"{prefix}.refused", value=str)


class Linking(ContextualProcessor[str, str, str, str]):
    """Tells how the chains of two names were an epoch ago, and adds a link to both."""

    def process(self, record: Record[str, str]) -> None:
        """Read both, then send both changes."""
        names = record.value.split()
        before = self.context.any_key_store("chains").get_many(names)
        self.context.forward(record.with_value(" ".join(chain or "none" for chain in before)))
        for name in names:
            self.context.update(
                "chains", name, add_link, record.key, reply_to="linked", reply_key=record.key
            )


def add_link(chain: str | None, value: str) -> str:
    """Begin a chain, or make it longer."""
    return value if chain is None else link(chain, value)


def told(change: Updated[str, str]) -> str:
    """Return what became of a chain."""
    return f"{change.key} {change.old} {change.new}"


def shared(builder: StreamsBuilder, prefix: str) -> None:
    """Read other lanes' keys and have them changed, from a processor with a store and one without.

    Which of the two is told by the record's key.
    """
    chains = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("chains"), key=str, value=str
    )
    own = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("own"), key=str, value=str
    )
    stream = builder.add_state_store(chains).stream(f"{prefix}.in", key=str, value=str)
    halves = (("free", "even", ()), ("kept", "odd", (own,)))
    for name, half, stores in halves:
        mine = stream.filter(partial(is_half, half), name=f"only-{half}")
        step = mine.process(
            Linking, stores=stores, updates=["chains"], replies=["linked"], name=name
        )
        step.to(f"{prefix}.out", key=str, value=str, name=f"{name}-out")
        linked = step.reply("linked").map_values(told, name=f"{name}-told")
        linked.to(f"{prefix}.linked", key=str, value=str, name=f"{name}-linked")


def is_half(half: str, key: str, _value: str) -> bool:
    """Tell which half a record belongs to."""
    return (int(key[1:]) % 2 == 0) == (half == "even")


EVENT_DELAY_MS = 20


class Reminders(ContextualProcessor[str, str, str, str]):
    """Fires once by event time and once by the clock for each key, and counts its own beats.

    A timer tells how often its key has fired before, a beat its number in its key group.
    """

    @staticmethod
    def stores() -> list[StoreBuilder]:
        """Return what is counted."""
        counts = Stores.persistent_key_value_store("counts")
        return [Stores.key_value_store_builder(counts, key=str, value=int)]

    def init(self, context: Any) -> None:
        """Schedule the beat."""
        super().init(context)
        self.counts = context.state_store("counts")
        context.schedule(timedelta(milliseconds=250), PunctuationType.WALL_CLOCK_TIME, self.beat)

    def count(self, name: str) -> str:
        """Count one more."""
        number = self.counts.get(name, 0) + 1
        self.counts.put(name, number)
        return str(number)

    def beat(self, now: int) -> None:
        """Tell the number of the beat."""
        name = f"beat-{self.context.task_id}"
        self.context.forward(Record(name, self.count(name), now))

    def process(self, record: Record[str, str]) -> None:
        """Set both timers."""
        now = self.context.current_processing_time()
        self.context.register_processing_time_timer(now + 300, name="clock")
        self.context.register_event_time_timer(record.timestamp + EVENT_DELAY_MS, name="event")

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        """Tell that a timer fired, and how often."""
        name = f"{timer.key} {timer.name}"
        context.forward(timer.with_value(self.count(name)).with_key(name))


def timers(builder: StreamsBuilder, prefix: str) -> None:
    """Set timers for each key, and beat by the clock."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.process(Reminders, name="remind").to(f"{prefix}.out", key=str, value=str)


def told_tick(tick: Tick) -> list[tuple[str, str]]:
    """Say which tick it is, and what the store of all ticks before holds."""
    before = tick.store("ticks").get(tick.name)
    return [(tick.name, f"{tick.number} {tick.timestamp} {before.value if before else 0}")]


def ticks(builder: StreamsBuilder, prefix: str) -> None:
    """Tick by two schedules without any topic, and count the ticks."""
    fifth = timedelta(milliseconds=200)
    beats = builder.scheduled("beat", told_tick, every=fifth, key=str, value=str, stores=("ticks",))
    seconds = builder.scheduled(
        "second", told_tick, cron="* * * * * *", key=str, value=str, stores=("ticks",)
    )
    both = beats.merge(seconds, name="both")
    both.to(f"{prefix}.out")
    both.group_by_key().count(store="ticks").to_stream().to(f"{prefix}.counts", key=str, value=int)


def windows(builder: StreamsBuilder, prefix: str) -> None:
    """Count by windows of ten seconds, and say each count once, when its window is over."""
    stream = builder.stream([f"{prefix}.in", f"{prefix}.slow"], key=str, value=str)
    tens = TimeWindows(size=timedelta(seconds=10), grace=timedelta(0))
    counts = stream.group_by_key().windowed_by(tens).count(store="tens")
    last = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="last")
    told = last.to_stream(lambda window, _count: f"{window.key}@{window.start}")
    told.to(f"{prefix}.out", key=str, value=int)


def asking(builder: StreamsBuilder, prefix: str) -> None:
    """Ask a service for each record; what is not answered in time is parked."""
    url = os.environ["FAULTS_URL"]

    def ask(path: str, call: AsyncCall) -> str:
        headers = {"Idempotency-Key": call.idempotency_key}
        request = urllib.request.Request(f"{url}/{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return str(answer.read().decode())

    paths = builder.stream(f"{prefix}.in", key=str, value=str)
    patient = AsyncOptions(timeout=timedelta(minutes=5))
    paths.map_values_async(ask, patient, value=str, name="ask").to(
        f"{prefix}.out", key=str, value=str
    )


def joined(value: str, reply: str) -> str:
    """Show a value beside its reply."""
    return f"{value}={reply}"


def replies(builder: StreamsBuilder, prefix: str) -> None:
    """Ask somebody else by topic for each record, and wait for the reply."""
    values = builder.stream(f"{prefix}.in", key=str, value=str)
    told = builder.stream(f"{prefix}.replies", key=bytes, value=str)
    asking_for = RequestReply(topic=f"{prefix}.requests", timeout=timedelta(hours=1))
    found = values.request_reply(told, joined, asking_for, name="ask")
    found.to(f"{prefix}.out", key=str, value=str)


BUILDS: dict[str, Build] = {
    "asking": asking,
    "word_count": word_count,
    "sequence": sequence,
    "stateless": stateless,
    "random_sums": random_sums,
    "replies": replies,
    "ticks": ticks,
    "timers": timers,
    "transfers": transfers,
    "windows": windows,
    "shared": shared,
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
