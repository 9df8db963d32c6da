"""How changes of a table are held back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal, Self

from mustela.api.errors import BadOptionError
from mustela.api.names import check_name
from mustela.api.option import Option
from mustela.api.origin import user_origin
from mustela.api.spans import milliseconds
from mustela.errors import Origin

__all__ = ["BufferConfig", "SuppressUntil", "Suppressed", "WhenFull"]

SuppressUntil = Literal["time_limit", "window_closes"]
"""``time_limit``: a change waits for a given time. ``window_closes``: only the last value of a
window is sent on, when no record can change it any more."""
WhenFull = Literal["emit_early", "shut_down"]
"""What happens when a buffer is full: the oldest change is sent on early, or the application
stops."""


@dataclass(frozen=True, kw_only=True)
class BufferConfig(Option):
    """How much a suppressed table may hold back, and what happens when that is too little.

    A bound applies to each key group, as Kafka Streams' applies to each task, so it does not depend
    on the number of lanes.

    Attributes:
        records: Rows that may wait; None for any number.
        bytes: Bytes that their keys and values may take; None for any number.
        when_full: ``emit_early``: the oldest row is sent on early; ``shut_down``: the application
            stops.
        logged: Whether waiting rows go to a changelog topic, from which they are restored.
        topic_config: Settings of the changelog topic that differ from the default.

    Example:
        >>> BufferConfig.max_records(1_000).with_max_bytes(1 << 20).shut_down_when_full().bytes
        1048576
    """

    records: int | None = None
    bytes: int | None = None
    when_full: WhenFull = "shut_down"
    logged: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def max_records(cls, count: int) -> Self:
        """Return a buffer for a number of rows; when it is full, the oldest is sent on early.

        Args:
            count: Rows that may wait in a key group.

        Example:
            >>> BufferConfig.max_records(10).when_full
            'emit_early'
        """
        return cls(records=_bound("max_records", count, at=user_origin()), when_full="emit_early")

    @classmethod
    def max_bytes(cls, size: int) -> Self:
        """Return a buffer for a number of bytes; when it is full, the oldest row is sent on early.

        Args:
            size: Bytes that the waiting rows of a key group may take: their keys, values and
                headers, plus 100 for each row.

        Example:
            >>> BufferConfig.max_bytes(4_096).records is None
            True
        """
        return cls(bytes=_bound("max_bytes", size, at=user_origin()), when_full="emit_early")

    @classmethod
    def unbounded(cls) -> Self:
        """Return a buffer without a bound: waiting rows are kept on disk, not in memory.

        Example:
            >>> BufferConfig.unbounded().records is None
            True
        """
        return cls()

    def with_max_records(self, count: int) -> Self:
        """Return a copy with a bound on rows.

        Args:
            count: Rows that may wait in a key group.

        Example:
            >>> BufferConfig.max_bytes(4_096).with_max_records(10).records
            10
        """
        return replace(self, records=_bound("with_max_records", count, at=user_origin()))

    def with_max_bytes(self, size: int) -> Self:
        """Return a copy with a bound on bytes.

        Args:
            size: Bytes that the waiting rows of a key group may take: their keys, values and
                headers, plus 100 for each row.

        Example:
            >>> BufferConfig.max_records(10).with_max_bytes(4_096).bytes
            4096
        """
        return replace(self, bytes=_bound("with_max_bytes", size, at=user_origin()))

    def with_no_bound(self) -> Self:
        """Return a copy without a bound.

        Example:
            >>> BufferConfig.max_records(10).with_no_bound().records is None
            True
        """
        return replace(self, records=None, bytes=None, when_full="shut_down")

    def emit_early_when_full(self) -> Self:
        """Return a copy that sends on its oldest row early when it is full.

        Example:
            >>> BufferConfig.unbounded().with_max_records(9).emit_early_when_full().when_full
            'emit_early'
        """
        return replace(self, when_full="emit_early")

    def shut_down_when_full(self) -> Self:
        """Return a copy that stops the application when it is full.

        Example:
            >>> BufferConfig.max_records(10).shut_down_when_full().when_full
            'shut_down'
        """
        return replace(self, when_full="shut_down")

    def with_logging_disabled(self) -> Self:
        """Return a copy without a changelog: waiting rows are lost with the disk.

        Example:
            >>> BufferConfig.unbounded().with_logging_disabled().logged
            False
        """
        return replace(self, logged=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Self:
        """Return a copy with a changelog.

        Args:
            topic_config: Settings of the changelog topic that differ from the default.

        Example:
            >>> BufferConfig.unbounded().with_logging_enabled({"segment.ms": "600000"}).logged
            True
        """
        return replace(self, logged=True, topic_config=dict(topic_config or {}))


@dataclass(frozen=True, kw_only=True)
class Suppressed(Option):
    """What the changes of a table wait for; made by `until_time_limit` or `until_window_closes`.

    Attributes:
        until: What a change waits for.
        time_to_wait: For ``time_limit``: how long.
        buffer: How much may wait.
        name: Name of the step.

    Example:
        >>> Suppressed.until_window_closes(BufferConfig.unbounded()).until
        'window_closes'
    """

    until: SuppressUntil
    buffer: BufferConfig
    time_to_wait: timedelta | None = None
    name: str | None = None

    @classmethod
    def until_time_limit(
        cls, time_to_wait: timedelta, buffer: BufferConfig, *, name: str | None = None
    ) -> Self:
        """Make a change wait for a time, counted from the first change held back.

        Args:
            time_to_wait: Event time that passes before the last change of a key is sent on;
                ``timedelta.max`` to wait until the buffer is full.
            buffer: How much may wait.
            name: Name of the step.

        Raises:
            BadOptionError: If the time is not a timedelta, or is negative.

        Example:
            >>> rare = Suppressed.until_time_limit(timedelta(minutes=5), BufferConfig.unbounded())
            >>> rare.time_to_wait
            datetime.timedelta(seconds=300)
        """
        at = user_origin()
        if time_to_wait != timedelta.max:
            milliseconds("until_time_limit", "time_to_wait", time_to_wait, at=at)
        buffer = _checked(buffer, at=at)
        return cls(until="time_limit", time_to_wait=time_to_wait, buffer=buffer, name=name)

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig, *, name: str | None = None) -> Self:
        """Send on only the last value of a window, when the window is over.

        Args:
            buffer: How much may wait; it must not emit early.
            name: Name of the step.

        Raises:
            BadOptionError: If the buffer would send rows on early.

        Example:
            >>> final = Suppressed.until_window_closes(BufferConfig.unbounded(), name="final")
            >>> final.name
            'final'
        """
        at = user_origin()
        buffer = _checked(buffer, at=at)
        if buffer.when_full == "emit_early":
            msg = "until_window_closes cannot have a buffer that emits early"
            raise BadOptionError(
                msg,
                at=at,
                why="a result that is sent early is not the last one of its window",
                fix="pass BufferConfig.unbounded(), or BufferConfig.max_records(...)"
                ".shut_down_when_full()",
                fields={"buffer": buffer},
            )
        return cls(until="window_closes", buffer=buffer, name=name)

    def with_name(self, name: str) -> Self:
        """Return a copy with a name for the step.

        Args:
            name: The name.

        Example:
            >>> Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final").name
            'final'
        """
        return replace(self, name=check_name(name, what="step", at=user_origin()))


def _bound(owner: str, number: object, *, at: Origin) -> int:
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    msg = f"{owner} needs a number of at least 0, not {number!r}"
    raise BadOptionError(msg, at=at, fix=f"write {owner}(1000)", fields={"value": number})


def _checked(buffer: object, *, at: Origin) -> BufferConfig:
    if isinstance(buffer, BufferConfig):
        return buffer
    msg = f"{type(buffer).__name__} {buffer!r:.60} is not a BufferConfig"
    raise BadOptionError(
        msg,
        at=at,
        why="how much may wait has no default",
        fix="pass BufferConfig.unbounded() or BufferConfig.max_records(...)",
        fields={"buffer": buffer},
    )
