"""What an application writes to its log: states, retries, epochs, and periodic summaries."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from mustela.clock import Clock
from mustela.config.masking import mask_text
from mustela.config.settings import Settings
from mustela.errors import MustelaError
from mustela.logs.form import bind
from mustela.logs.options import LogOptions
from mustela.logs.output import LogOutput
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.events import (
    AppState,
    EpochDone,
    Event,
    Failed,
    Listener,
    Restoring,
    StateChanged,
    UncaughtAnswer,
)
from mustela.runtime.status.measures import with_seconds
from mustela.runtime.status.watched import Admin

__all__ = ["Logbook"]

_LOG: Final = logging.getLogger("mustela.app")
logging.getLogger("mustela").addHandler(logging.NullHandler())

_EVIDENCE_LONGEST: Final = 500
_FOLLOWS: Final = {
    UncaughtAnswer.SKIP_RECORD: "skipping a record",
    UncaughtAnswer.RESTART: "restarting",
}
_DROPPED: Final = ("dropped_", "duplicates:", "late:", "skipped_invalid_timestamp:")


@dataclass(slots=True)
class _Since:
    """What happened since the last summary."""

    at: float
    records: int = 0
    epochs: int = 0
    retries: int = 0
    counters: Counter[str] = field(default_factory=Counter[str])
    busy_s: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    steps_s: dict[tuple[int, int], Mapping[str, float]] = field(
        default_factory=dict[tuple[int, int], Mapping[str, float]]
    )
    slowest: EpochDone | None = None
    last: EpochDone | None = None


class Logbook(Listener):
    """Writes to Python's logging what an application does.

    A program that uses Mustela as a library gets these records through its own handlers, and no
    output if it has none. `open` sets up logging for the process if the settings ask for it.

    Args:
        clock: Monotonic time, for the summaries.

    Attributes:
        runs: Whether the application has the process to itself: `app.run()` was called.
        options: How the process logs; None while Mustela has not set that up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._name = ""
        self._every_s = 30.0
        self._since = _Since(clock.monotonic())
        self._output: LogOutput | None = None
        self.runs = False
        self.options: LogOptions | None = None

    def open(self, settings: Settings) -> None:
        """Set up logging for the life of an application, if that is wanted."""
        self._name = settings.application_id
        self._every_s = settings.log.summary_every.total_seconds()
        wanted = settings.log.configure
        own = self.runs and not logging.getLogger().handlers
        if wanted == "always" or (wanted == "auto" and own):
            self.options = LogOptions.of(settings, sys.stderr)
            self._output = LogOutput(self.options)

    def close(self) -> None:
        """Write the last summary, and restore the previous logging."""
        self.sum_up()
        if self._output is not None:
            self._output.close()
            self._output = self.options = None

    def begin(self) -> None:
        """Add the application's name to all lines of this thread."""
        bind(app=self._name)

    def started(self, settings: Settings, loop: Coordinator, admin: Admin | None) -> None:
        """Log what starts to run, on how many lanes, and where the admin server is."""
        self._since = _Since(self._clock.monotonic())
        plan, lanes = loop.run.plan, loop.state.lanes
        stores = sum(len(stage.stores) for stage in plan.stages)
        self._tell(
            logging.INFO,
            f"{self._name} starts: {_number(len(plan.topics), 'source topic')}, "
            f"{_number(len(plan.stages), 'stage')}, {_number(stores, 'store')}, "
            f"{_number(lanes, 'lane')}",
            guarantee=settings.processing_guarantee,
            lanes=lanes,
            key_groups=loop.state.key_groups,
            bootstrap_servers=settings.bootstrap_servers,
            state_dir=str(settings.state_dir),
            admin=None if admin is None else admin.address or None,
        )

    def on_event(self, event: Event) -> None:
        """Log an event."""
        if isinstance(event, EpochDone):
            self._epoch(event)
        elif isinstance(event, StateChanged):
            failed = event.state is AppState.FAILED
            text = "ended with an error" if failed else f"is {event.state.value}"
            level = logging.ERROR if failed else logging.INFO
            self._tell(level, f"{self._name} {text}", state=event.state.value)
            if event.state is AppState.DRAINING:
                self.sum_up()
        elif isinstance(event, Restoring):
            if event.done:  # most starts find nothing to restore
                records = sum(event.records.values())
                self._tell(
                    logging.INFO,
                    f"restored {event.done} of {event.groups} key groups, {records} records",
                    done=event.done,
                    groups=event.groups,
                    records=dict(event.records),
                )
        elif isinstance(event, Failed):
            self._failed(event)
        else:
            self._tell(logging.INFO, event.text)

    def _failed(self, event: Failed) -> None:
        """Log what is done about an error; one that ends the application is logged at the end."""
        if event.answer is not UncaughtAnswer.SHUTDOWN:
            done = _FOLLOWS[event.answer]
            self._tell(logging.WARNING, f"{done} after an error: {_what(event.error)}")

    def on_error(self, error: BaseException) -> None:
        """Log why something is retried."""
        self._since.retries += 1
        facts: dict[str, Any] = {"code": type(error).__name__}
        what = repr(error)
        if isinstance(error, MustelaError):
            what = error.what
            facts = {"code": error.code, "why": error.why or None}
            for name, fact in error.evidence.items():
                line = str(fact).strip().partition("\n")[0]
                facts[name] = mask_text(line)[:_EVIDENCE_LONGEST]
        # The program's own handlers may be all there is: they mask nothing.
        self._tell(logging.WARNING, f"retrying after an error: {mask_text(what)}", **facts)

    def look(self) -> None:
        """Write a summary if one is due and there is something to report."""
        if self._clock.monotonic() - self._since.at >= self._every_s:
            self.sum_up()

    def sum_up(self) -> None:
        """Write a summary of what happened since the last one."""
        since, now = self._since, self._clock.monotonic()
        self._since = _Since(now)
        last, spent = since.last, max(now - since.at, 1e-3)
        if last is None:
            return
        self._tell(
            logging.INFO,
            f"{_number(since.records, 'record')} in {_number(since.epochs, 'epoch')}, "
            f"{last.lag} waiting",
            seconds=round(spent, 1),
            records=since.records,
            records_per_second=round(since.records / spent, 1),
            epochs=since.epochs,
            epoch=last.epoch,
            lag=last.lag,
            watermark=_moment(last.watermark),
            dropped=_counted(since.counters, _DROPPED),
            dead_letters=_counted(since.counters, ("dead_letters:",)),
            failed_records=_counted(since.counters, ("failed_records:",)),
            retries=since.retries or None,
            slow=_slow(since),
        )

    def _epoch(self, event: EpochDone) -> None:
        since = self._since
        since.records += event.records
        since.epochs += 1
        since.counters.update(event.counters)
        since.last = event
        if since.slowest is None or event.seconds > since.slowest.seconds:
            since.slowest = event
        for report in event.reports:
            place = report.stage, report.task
            since.busy_s[place] = since.busy_s.get(place, 0.0) + report.worked
            steps_s = since.steps_s.get(place, {})
            since.steps_s[place] = with_seconds(steps_s, report.measured.seconds)
        if _LOG.isEnabledFor(logging.DEBUG):
            self._tell(
                logging.DEBUG,
                f"epoch {event.epoch} is committed",
                epoch=event.epoch,
                records=event.records,
                lag=event.lag,
                seconds=round(event.seconds, 4),
                job_seconds=round(event.job_seconds, 4),
                watermark=_moment(event.watermark),
                counters=dict(event.counters) or None,
            )

    def _tell(self, level: int, text: str, **facts: Any) -> None:
        told = {name: fact for name, fact in facts.items() if fact is not None}
        # A fact cannot have the name of an attribute of `logging.LogRecord`.
        safe = {f"{name}_" if name in _TAKEN else name: fact for name, fact in told.items()}
        _LOG.log(level, "%s", text, extra={"app": self._name, **safe})


_TAKEN: Final = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime"}
)


def _what(error: BaseException) -> str:
    return error.what if isinstance(error, MustelaError) else repr(error)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _moment(watermark: int) -> str | None:
    if watermark < 0:
        return None
    try:
        return datetime.fromtimestamp(watermark / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(watermark)


def _counted(counters: Counter[str], starts: tuple[str, ...]) -> dict[str, int] | None:
    found = {
        name.removeprefix(starts[0]): count
        for name, count in sorted(counters.items())
        if name.startswith(starts) and count
    }
    return found or None


def _slow(since: _Since) -> str | None:
    """Return what took most of the time."""
    slowest = since.slowest
    if slowest is None:
        return None
    told = f"epoch {slowest.epoch} took {slowest.seconds:.3g} s, its job {slowest.job_seconds:.3g}"
    if since.busy_s:
        (stage, task), worked = max(since.busy_s.items(), key=lambda item: item[1])
        place = f"lane {task} of stage {stage}" if stage else f"source task {task}"
        told += f"; {place} worked most: {worked:.3g} s"
        if steps_s := since.steps_s.get((stage, task)):
            step, spent = max(steps_s.items(), key=lambda item: item[1])
            told += f", {spent:.3g} of it in step {step!r}"
    return told
