"""The form of a log line: its facts, in order, as JSON or for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from mustela.logs.options import LogOptions
from mustela.logs.redaction import redactor

__all__ = ["HEAD", "Facts", "LineFormatter", "Place", "bind", "iso", "json_line", "renderer_for"]

Facts = Mapping[str, Any]
Place = Callable[[], Facts]
"""Says where the code that logs is at: called in its thread, for each line."""

HEAD: Final = ("timestamp", "level", "logger", "event")
"""What each line begins with."""

_NOT_FACTS: Final = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__, "message", "asctime", "taskName"}
)
_BOUND: ContextVar[Facts] = ContextVar("mustela_log", default={})  # noqa: B039 - never changed
_NOWHERE: Final[Facts] = {}


def bind(**facts: Any) -> None:
    """Give facts to all lines that this thread, or task, writes from now on.

    Example:
        >>> bind(app="shop", epoch=3)
        >>> bind(epoch=4)
        >>> dict(_BOUND.get())
        {'app': 'shop', 'epoch': 4}
        >>> _ = _BOUND.set({})
    """
    _BOUND.set({**_BOUND.get(), **facts})


def json_line(facts: Facts) -> str:
    """Return facts as one JSON document on one line.

    Example:
        >>> json_line({"event": "done", "count": 2})
        '{"event": "done", "count": 2}'
    """
    return json.dumps(facts, ensure_ascii=False, default=str)


def renderer_for(options: LogOptions) -> Callable[[Facts], str]:
    """Return what makes a line of facts."""
    if not options.console:
        return json_line
    from structlog.dev import ConsoleRenderer, plain_traceback

    render = ConsoleRenderer(
        colors=options.colors, exception_formatter=plain_traceback, pad_event_to=0
    )
    return lambda facts: str(render(None, "", dict(facts)))


class LineFormatter(logging.Formatter):
    """Makes a line of a record of Python's logging.

    Args:
        options: How the process logs.
        place: Says where the code that logs is at.
        render: Makes the line of its facts; by default as the options say.
    """

    def __init__(
        self,
        options: LogOptions,
        place: Place | None = None,
        render: Callable[[Facts], str] | None = None,
    ) -> None:
        super().__init__()
        self._application_id = options.application_id
        self._redact = redactor(options.secrets)
        self._place = place
        self._render = render or renderer_for(options)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return self._render(self._redact(self._facts(record)))

    def _facts(self, record: logging.LogRecord) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "timestamp": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            "app": self._application_id,
        }
        facts.update(_BOUND.get())
        facts.update(_NOWHERE if self._place is None else self._place())
        for name, value in record.__dict__.items():
            if name not in _NOT_FACTS:
                facts[f"{name}_" if name in HEAD else name] = value
        if record.exc_info and record.exc_info[0] is not None:
            facts["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            facts["stack"] = record.stack_info
        return facts


def iso(seconds: float) -> str:
    """Return a moment, in seconds since 1970, as log lines have it.

    Example:
        >>> iso(1.5)
        '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
