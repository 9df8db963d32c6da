"""What ``mustela run`` tells of an application while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mustela.cli.console import print_json, say
from mustela.errors import MustelaError

if TYPE_CHECKING:
    from mustela.runtime.events import EpochDone, Event

__all__ = ["EventPrinter"]


class EventPrinter:
    """Prints events: states and errors as text for people, everything as JSON for programs.

    Args:
        application_id: The application.
        json: Print JSON on standard output, in place of text on standard error.
    """

    def __init__(self, application_id: str, *, json: bool) -> None:
        self._application = application_id
        self._json = json

    def on_event(self, event: Event) -> None:
        """Print an event."""
        from mustela.runtime.events import AppState, Restoring, Said, StateChanged

        if isinstance(event, StateChanged):
            failed = event.state is AppState.ERROR
            text = "ended with an error" if failed else f"is {event.state.value}"
            self._tell("state", text, state=event.state.value)
        elif isinstance(event, Restoring):
            if not event.done:
                return  # most starts find nothing to restore
            records = sum(event.records.values())
            self._tell(
                "restoring",
                f"restored {event.done} of {event.groups} key groups, {records} records",
                done=event.done,
                groups=event.groups,
                records=dict(event.records),
            )
        elif isinstance(event, Said):
            self._tell("said", event.text, says=event.text)
        elif self._json:
            self._epoch(event)

    def on_error(self, error: BaseException) -> None:
        """Print an error after which the application tries again."""
        if isinstance(error, MustelaError):
            what, code = error.what, error.code
            facts = [f"{name}: {_first_line(fact)}" for name, fact in error.evidence.items()]
            told = [what, *(fact for fact in facts if fact.partition(": ")[2] not in what)]
        else:
            what, code = repr(error), type(error).__name__
            told = [what]
        text = "; ".join(told)
        self._tell("error", f"retrying after an error ({code}): {text}", error=what, code=code)

    def _epoch(self, event: EpochDone) -> None:
        self._tell(
            "epoch",
            "",
            epoch=event.epoch,
            records=event.records,
            lag=event.lag,
            seconds=round(event.seconds, 4),
            job_seconds=round(event.job_seconds, 4),
            watermark=event.watermark,
            counters=dict(event.counters),
        )

    def _tell(self, kind: str, text: str, **facts: Any) -> None:
        if self._json:
            print_json({"event": kind, "application_id": self._application, **facts})
        else:
            say(f"{self._application}: {text}")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
