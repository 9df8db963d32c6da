"""How event time advances in a source, and what happens to records that come too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Literal

from mustela.api.errors import BadOptionError
from mustela.api.spans import milliseconds

__all__ = ["LatePolicy", "WatermarkStrategy"]

_NOTHING = timedelta(0)
_MILLISECOND = timedelta(milliseconds=1)


class LatePolicy(Enum):
    """What happens to a record of a source that comes too late for its window.

    Either way it is counted. Records that a window's grace still admits are not late.

    Example:
        >>> from mustela import Consumed, StreamsBuilder
        >>> options = Consumed(late=LatePolicy.DEAD_LETTER)
        >>> clicks = StreamsBuilder().stream("clicks", consumed=options)
    """

    DROP = "drop"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkStrategy:
    """How event time advances in the partitions of a source, judged by their records.

    The application's watermark is the minimum over its sources; it is used only with ``event_time =
    watermark``.

    Attributes:
        kind: The name of the class method that made it.
        out_of_orderness: How far records may be behind the largest timestamp of their partition.
        idleness: Time after which a partition without records no longer holds back the watermark;
            None takes the application's setting.
        max_future_skew: How far ahead of the wall clock a timestamp may be and still count; None
            takes the application's setting.
        function: For ``custom``: maps the largest timestamp to the time that has been reached.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import Consumed, StreamsBuilder
        >>> late = WatermarkStrategy.bounded(timedelta(seconds=5))
        >>> clicks = StreamsBuilder().stream("clicks", consumed=Consumed(watermark=late))
    """

    kind: Literal["bounded", "monotonic", "none", "custom"]
    out_of_orderness: timedelta = _NOTHING
    idleness: timedelta | None = None
    max_future_skew: timedelta | None = None
    function: Callable[[int], int] | None = None

    def __post_init__(self) -> None:
        """Check the spans."""
        for name in ("out_of_orderness", "idleness", "max_future_skew"):
            span = getattr(self, name)
            if span is not None or name == "out_of_orderness":
                milliseconds("WatermarkStrategy", name, span)
        if self.kind == "custom" and not callable(self.function):
            msg = f"a custom watermark strategy needs a function, not {self.function!r}"
            raise BadOptionError(msg, fix="write custom(lambda timestamp: timestamp - 1_000)")

    @classmethod
    def bounded(
        cls,
        out_of_orderness: timedelta,
        *,
        idleness: timedelta | None = None,
        max_future_skew: timedelta | None = None,
    ) -> WatermarkStrategy:
        """Return a strategy for records at most a given time behind the latest of their partition.

        Args:
            out_of_orderness: How far.
            idleness: See the class.
            max_future_skew: See the class.

        Raises:
            BadOptionError: If a span is negative or not made of whole milliseconds.

        Example:
            >>> WatermarkStrategy.bounded(timedelta(seconds=5)).reached(7_000)
            2000
        """
        return cls(
            kind="bounded",
            out_of_orderness=out_of_orderness,
            idleness=idleness,
            max_future_skew=max_future_skew,
        )

    @classmethod
    def monotonic(
        cls, *, idleness: timedelta | None = None, max_future_skew: timedelta | None = None
    ) -> WatermarkStrategy:
        """Return a strategy for partitions whose records are in the order of their timestamps.

        Args:
            idleness: See the class.
            max_future_skew: See the class.

        Example:
            >>> WatermarkStrategy.monotonic().reached(7_000)
            7000
        """
        return cls(kind="monotonic", idleness=idleness, max_future_skew=max_future_skew)

    @classmethod
    def none(cls) -> WatermarkStrategy:
        """Return a strategy that ignores the source: it neither moves nor holds back the watermark.

        Example:
            >>> WatermarkStrategy.none().kind
            'none'
        """
        return cls(kind="none")

    @classmethod
    def custom(
        cls,
        function: Callable[[int], int],
        *,
        idleness: timedelta | None = None,
        max_future_skew: timedelta | None = None,
    ) -> WatermarkStrategy:
        """Return a strategy in which a function says how far time has advanced.

        Args:
            function: Called with the largest timestamp of a partition in milliseconds; returns the
                time that its records have reached, at most that timestamp. It must not return a
                smaller time for a larger timestamp, and must be picklable.
            idleness: See the class.
            max_future_skew: See the class.

        Raises:
            BadOptionError: If it is not a function.

        Example:
            >>> by_minute = WatermarkStrategy.custom(lambda time: time - time % 60_000)
            >>> by_minute.reached(61_000)
            60000
        """
        return cls(
            kind="custom", function=function, idleness=idleness, max_future_skew=max_future_skew
        )

    def reached(self, timestamp: int) -> int:
        """Return the time that a partition has reached, given its largest timestamp.

        Args:
            timestamp: Milliseconds.

        Example:
            >>> WatermarkStrategy.custom(lambda time: time + 5).reached(7)
            7
        """
        if self.function is not None:
            return min(timestamp, self.function(timestamp))
        return timestamp - self.out_of_orderness // _MILLISECOND
