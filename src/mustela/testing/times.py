"""Times in tests: milliseconds, aware datetimes, timedeltas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mustela.spans import span_ms
from mustela.testing.faults import TestDriverError

__all__ = ["to_milliseconds", "to_span"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_milliseconds(moment: int | datetime) -> int:
    """Return a moment as milliseconds since 1970-01-01 UTC.

    Raises:
        TestDriverError: If it is a datetime without a time zone, before 1970, or not a point in
            time.

    Example:
        >>> to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
        1000
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            msg = f"{moment.isoformat()} has no time zone"
            raise TestDriverError(msg, fix="datetime(…, tzinfo=UTC)")
        moment = (moment - _EPOCH) // _MILLISECOND
    if type(moment) is not int:
        msg = f"{moment!r} is not a point in time"
        raise TestDriverError(msg, fix="pass milliseconds since 1970, or datetime(…, tzinfo=UTC)")
    if moment < 0:
        msg = f"a record's timestamp cannot be negative: {moment}"
        raise TestDriverError(msg, fix="use milliseconds since 1970-01-01 UTC")
    return moment


def to_span(owner: str, option: str, span: int | timedelta) -> int:
    """Return a span of time in milliseconds.

    Args:
        owner: The function or class that it was passed to.
        option: The name of the argument.
        span: A timedelta, or whole milliseconds.

    Raises:
        TestDriverError: If it is negative, or not a time span.

    Example:
        >>> to_span("advance_time", "span", timedelta(seconds=2))
        2000
    """
    return span_ms(owner, option, span, error=TestDriverError, or_number=True)
