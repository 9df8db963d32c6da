"""Spans of time that users give: one check, with one family of messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from mustela.errors import MustelaError, Origin

__all__ = ["Sign", "span_ms"]

Sign = Literal["any", "not_negative", "positive"]
"""What a span may be: also negative, also zero, or only more than zero."""

_MICROSECOND = timedelta(microseconds=1)
_EXAMPLE = "timedelta(minutes=5)"


def span_ms(  # noqa: PLR0913 - what the messages name, and what is allowed
    owner: str,
    option: str,
    span: Any,
    *,
    error: Callable[..., MustelaError],
    sign: Sign = "not_negative",
    or_number: bool = False,
    at: Origin | None = None,
) -> int:
    """Return a span of time in milliseconds.

    Args:
        owner: What takes the span, for messages.
        option: The name of the option.
        span: What the user gave.
        error: The class of the error.
        sign: What the span may be.
        or_number: Whether a whole number of milliseconds is accepted too.
        at: The user's line, if it is known.

    Raises:
        MustelaError: Of the class ``error``: if it is not a timedelta, too short, or not made of
            whole milliseconds.

    Example:
        >>> span_ms("TimeWindows", "size", timedelta(minutes=1), error=MustelaError)
        60000
    """
    micros = None
    if isinstance(span, timedelta):
        micros = span // _MICROSECOND
    elif or_number and type(span) is int:
        micros = span * 1_000
    why, fix = None, f"write {option}={_EXAMPLE}"
    if micros is None:
        wanted = "a timedelta, or whole milliseconds," if or_number else "a timedelta"
        what = f"{owner} needs {wanted} as its {option}, not {span!r:.80}"
        if isinstance(span, int | float) and not (or_number or isinstance(span, bool)):
            why = "a bare number does not say its unit"
            fix = f"write {option}=timedelta(milliseconds={span})"
    elif micros < 0 and sign != "any":
        what = f"{owner} cannot have {option}={span!r}: it is negative"
    elif not micros and sign == "positive":
        what = f"{owner} cannot have {option}={span!r}: it must be longer than zero"
    elif micros % 1_000:
        what = f"{owner} cannot have {option}={span!r}: times are whole milliseconds"
        fix = f"write {option}=timedelta(milliseconds={micros // 1_000 or 1})"
    else:
        return micros // 1_000
    raise error(what, at=at, why=why, fix=fix, fields={"option": option, "value": span})
