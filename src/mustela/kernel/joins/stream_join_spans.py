"""Windows per left record: computed when the record arrives, and stored with its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from struct import Struct
from typing import Any, Final

from mustela.api.window_specs import JoinSpans, JoinWindowSpec
from mustela.model import Record

__all__ = ["SPAN_BYTES", "RecordSpans", "SpanError"]

_SPAN = Struct(">qq")
SPAN_BYTES: Final = _SPAN.size
"""How many bytes precede the value of a left record: its ``before`` and its ``after``."""

_MILLISECOND: Final = timedelta(milliseconds=1)


class SpanError(ValueError):
    """A function returned something that is not a valid window of the join."""

    fix = "return less from the function, or declare a larger maximum in JoinWindows"


class RecordSpans:
    """Calls the functions of a join for the window of each left record.

    Args:
        spans: The functions.
        window: The widest window.

    Example:
        >>> spans = JoinSpans(before=lambda record: timedelta(milliseconds=record.value))
        >>> asked = RecordSpans(spans, JoinWindowSpec(before_ms=9, after_ms=5, grace_ms=0))
        >>> unpacked = asked.unpack(asked.of("a", 7, 0, ()))
        >>> unpacked
        (7, 5)
    """

    def __init__(self, spans: JoinSpans, window: JoinWindowSpec) -> None:
        self._before, self._after = spans.before, spans.after
        self._window = window

    def functions(self) -> list[Callable[[Any], timedelta]]:
        """Return the functions, to find the user's lines in a traceback."""
        return [one for one in (self._before, self._after) if one is not None]

    def of(self, key: Any, value: Any, timestamp: int, headers: Any) -> bytes:
        """Return the window of a record, as bytes.

        Raises:
            SpanError: If it is not a window, or is wider than the widest.
        """
        record, window = Record(key, value, timestamp, headers), self._window
        before = _asked("before", self._before, record, window.before_ms)
        after = _asked("after", self._after, record, window.after_ms)
        if before + after < 0:
            msg = f"before() and after() returned {before} and {after} ms: it ends before it begins"
            raise SpanError(msg)
        return _SPAN.pack(before, after)

    @staticmethod
    def unpack(raw: bytes) -> tuple[int, int]:
        """Return the ``before`` and ``after`` at the start of a value."""
        found: tuple[int, int] = _SPAN.unpack_from(raw)
        return found

    @staticmethod
    def narrow(
        times: Sequence[int], raws: Sequence[bytes], lows: list[int], highs: list[int]
    ) -> None:
        """Narrow the times that left rows match to their own windows.

        Args:
            times: The time of each left row.
            raws: Their values as bytes, and then others.
            lows: The earliest time that each would match in the widest window, and then others.
            highs: The latest.
        """
        unpack = _SPAN.unpack_from
        for at, time in enumerate(times):
            before, after = unpack(raws[at])
            lows[at], highs[at] = max(lows[at], time - before), min(highs[at], time + after)

    @staticmethod
    def meeting(time: int, lefts: Sequence[int], raws: Sequence[bytes]) -> list[int]:
        """Return which left records in the widest window match a right record of a time."""
        unpack, found = _SPAN.unpack_from, list[int]()
        for place, (left, raw) in enumerate(zip(lefts, raws, strict=True)):
            before, after = unpack(raw)
            if left - before <= time <= left + after:
                found.append(place)
        return found


def _asked(
    name: str, function: Callable[[Any], timedelta] | None, record: Record[Any, Any], most: int
) -> int:
    if function is None:
        return most
    span: Any = function(record)
    if not isinstance(span, timedelta):
        msg = f"{name}() returned {type(span).__name__} {span!r:.60}, not a timedelta"
        raise SpanError(msg)
    if span % _MILLISECOND:
        msg = f"{name}() returned {span!r}: record times are whole milliseconds"
        raise SpanError(msg)
    found = span // _MILLISECOND
    if found > most:
        msg = f"{name}() returned {found} ms, more than {name}_max, which is {most} ms"
        raise SpanError(msg)
    return found
