"""Spans of time in options: checked when they are given, at the user's line."""

from __future__ import annotations

from typing import Any

from mustela.api.errors import BadOptionError
from mustela.api.origin import user_origin
from mustela.errors import Origin
from mustela.spans import Sign, span_ms

__all__ = ["milliseconds"]


def milliseconds(
    owner: str,
    option: str,
    span: Any,
    *,
    at: Origin | None = None,
    sign: Sign = "not_negative",
) -> int:
    """Return a span of time that an option has, in milliseconds; see `span_ms`.

    Args:
        owner: What has the option.
        option: The option.
        span: What the user gave.
        at: The user's line; the one that led here if not given.
        sign: What the span may be.

    Raises:
        BadOptionError: If it is not a timedelta, too short, or not made of whole milliseconds.

    Example:
        >>> from datetime import timedelta
        >>> milliseconds("TimeWindows", "size", timedelta(minutes=1), sign="positive")
        60000
    """
    try:
        return span_ms(owner, option, span, error=BadOptionError, sign=sign, at=at)
    except BadOptionError as error:
        error.at = at or user_origin()
        raise
