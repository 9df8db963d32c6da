"""What ``mustela run --json`` tells programs of an application while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mustela.cli.console import print_json
from mustela.errors import MustelaError
from mustela.logs.redaction import redactor

if TYPE_CHECKING:
    from mustela.runtime.events import EpochDone, Event

__all__ = ["EventPrinter"]


class EventPrinter:
    """Prints events on standard output, each as one JSON document.

    Args:
        application_id: The application.
        secrets: Texts to mask, beside what looks like a secret.
    """

    def __init__(self, application_id: str, secrets: Sequence[str] = ()) -> None:
        self._application = application_id
        self._redact = redactor(secrets)

    def on_event(self, event: Event) -> None:
        """Print an event."""
        from mustela.runtime.events import Failed, Restoring, Said, StateChanged

        if isinstance(event, StateChanged):
            self._tell("state", state=event.state.value)
        elif isinstance(event, Restoring):
            if event.done:  # most starts find nothing to restore
                self._tell(
                    "restoring", done=event.done, groups=event.groups, records=dict(event.records)
                )
        elif isinstance(event, Said):
            self._tell("said", says=event.text)
        elif isinstance(event, Failed):
            what, code = _told(event.error)
            self._tell("failed", error=what, code=code, answer=event.answer.value)
        else:
            self._epoch(event)

    def on_error(self, error: BaseException) -> None:
        """Print an error after which the application tries again."""
        what, code = _told(error)
        self._tell("error", error=what, code=code)

    def _epoch(self, event: EpochDone) -> None:
        self._tell(
            "epoch",
            epoch=event.epoch,
            records=event.records,
            lag=event.lag,
            seconds=round(event.seconds, 4),
            job_seconds=round(event.job_seconds, 4),
            watermark=event.watermark,
            counters=dict(event.counters),
        )

    def _tell(self, kind: str, **facts: Any) -> None:
        print_json({"event": kind, "application_id": self._application, **self._redact(facts)})


def _told(error: BaseException) -> tuple[str, str]:
    if isinstance(error, MustelaError):
        return error.what, error.code
    return repr(error), type(error).__name__
