"""Where a process that Mustela owns writes its log: standard error, one line for each event."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, cast

from mustela.logs.form import HEAD, Facts, LineFormatter, Place, renderer_for
from mustela.logs.options import LogOptions
from mustela.logs.redaction import redactor

__all__ = ["REPEATED_S", "LogOutput", "Relay", "Repeats", "take_structlog"]

_QUIET: Final = ("py4j", "mustela.kafka", "asyncio", "uvicorn")
"""Loggers that tell of warnings and worse alone, unless the settings name them."""

REPEATED_S: Final = 30.0
"""A line of a Kafka client that comes again is written once in so many seconds."""
_REPEATS_MAX: Final = 256
_DIGITS: Final = re.compile(r"\d+")
_KAFKA: Final = "mustela.kafka"


class _StandardError(logging.Handler):
    """Writes to what is standard error at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a line that cannot be written ends nothing
            self.handleError(record)


class Repeats(logging.Filter):
    """Lets what a Kafka client says again and again through once in `REPEATED_S`.

    A client that has lost its broker says so several times a second. Lines that differ only in
    their numbers are the same; the next one that is let through says how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        if record.name != _KAFKA:
            return True
        what = _DIGITS.sub("#", record.getMessage())
        since, left_out = self._seen.get(what, (0.0, 0))
        if record.created - since < REPEATED_S:
            self._seen[what] = since, left_out + 1
            return False
        self._seen[what] = record.created, 0
        self._seen.move_to_end(what)
        if len(self._seen) > _REPEATS_MAX:
            self._seen.popitem(last=False)
        if left_out:
            record.repeated = left_out
        return True


class LogOutput:
    """The logging of a process, taken over until it is closed.

    Args:
        options: How it logs.
        place: Says where the code that logs is at.
        render: Makes a line of its facts; by default as the options say.
    """

    def __init__(
        self,
        options: LogOptions,
        *,
        place: Place | None = None,
        render: Callable[[Facts], str] | None = None,
    ) -> None:
        self.options = options
        self._handler = _StandardError()
        self._handler.addFilter(Repeats())
        self._handler.setFormatter(LineFormatter(options, place, render))
        root = logging.getLogger()
        wanted = dict.fromkeys(_QUIET, "warning") | dict(options.loggers)
        self._before = [(root, root.level)]
        self._before += [(logger, logger.level) for logger in map(logging.getLogger, wanted)]
        root.setLevel(options.level.upper())
        for name, level in wanted.items():
            logging.getLogger(name).setLevel(level.upper())
        root.addHandler(self._handler)
        logging.captureWarnings(True)
        take_structlog()

    def close(self) -> None:
        """Give it back as it was."""
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(self._handler)
        for logger, level in self._before:
            logger.setLevel(level)
        self._before = []


def take_structlog() -> None:
    """Let structlog write through Python's logging, where the program uses it and says nothing."""
    if "structlog" not in sys.modules:
        return
    import structlog

    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.filter_by_level,
                structlog.stdlib.PositionalArgumentsFormatter(),
                structlog.stdlib.render_to_log_kwargs,
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


class Relay:
    """Writes what other processes of the application print, in the form of its log.

    Args:
        options: How the application logs.
        source: Who prints, as the logger of what is no log line.
    """

    def __init__(self, options: LogOptions, source: str) -> None:
        self._options = options
        self._source = source
        self._redact = redactor(options.secrets)
        self._render = renderer_for(options)

    def line(self, text: str, timestamp: str) -> str:
        """Return the line to be written for one that came.

        Args:
            text: What came, without its end.
            timestamp: When.
        """
        facts = _facts_in(text)
        if facts is None and self._options.console:
            return str(self._redact({"": text})[""])
        if facts is None:
            facts = {
                "timestamp": timestamp,
                "level": "info",
                "logger": self._source,
                "event": text,
            }
        facts.setdefault("app", self._options.application_id)
        told = {name: fact for name, fact in facts.items() if name in HEAD or fact != ""}
        return self._render(self._redact(told))


def _facts_in(text: str) -> dict[str, Any] | None:
    """Return the facts of a log line; None for any other text."""
    if not text.startswith("{"):
        return None
    try:
        facts: object = json.loads(text)
    except ValueError:
        return None
    if isinstance(facts, dict) and all(name in facts for name in HEAD):
        return cast("dict[str, Any]", facts)
    return None
