"""How far apart in time two streams are joined, and how their records are kept meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.option import Option
from mustela.api.origin import user_origin
from mustela.api.spans import milliseconds
from mustela.api.stores import StoreSupplier
from mustela.api.upgrades import Upgrades
from mustela.api.window_specs import JoinSpans, JoinWindowSpec
from mustela.errors import Origin
from mustela.model import Record
from mustela.serdes.base import Serde

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    W = TypeVar("W")

__all__ = ["JoinWindows", "StreamJoined"]


Span = timedelta | Callable[[Record[Any, Any]], timedelta]
"""A span of time, or a function that returns one for a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindows(Option):
    """Which records of two streams are joined: those whose timestamps are close together.

    A left record at time t is joined with the right records in [t - before, t + after], both ends
    inclusive. One of the two may be negative, so that the right record must be older, or younger,
    by at least that much.

    Each left record may have its own window. Then ``before`` or ``after`` is a function of the
    record, called once when it arrives, and ``before_max`` or ``after_max`` gives the widest
    window, which decides how long records are kept. A record for which the function returns more
    than that, or something that is not a span of time, goes to the processing handler, as if the
    function had raised an error.

    Args:
        before: How much older than the left record a right one may be; or a function that is called
            with the left record, a `Record`, and returns the span.
        after: How much younger than the left record a right one may be; likewise.
        before_max: The largest span that a function ``before`` returns.
        after_max: The largest span that a function ``after`` returns.
        grace: How long after the end of its window a record of a left or outer join waits for a
            late partner before it is passed on without one; ``timedelta(0)`` for not at all.

    Raises:
        BadOptionError: If the window would end before it begins, the grace is negative, or a
            function has no maximum.
        FunctionError: If a function cannot be called with a record.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=str)
        >>> payments = builder.stream("payments", key=str, value=int)
        >>> hour = JoinWindows(before=timedelta(0), after=timedelta(hours=1), grace=timedelta(0))
        >>> paid = orders.join(payments, lambda order, sum_: f"{order}: {sum_}", windows=hour)
        >>> paid.to("paid", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("orders").pipe_input("o-1", "apples", timestamp=0)
        ...     driver.create_input_topic("payments").pipe_input("o-1", 30, timestamp=60_000)
        ...     driver.create_output_topic("paid").read_key_values_to_list()
        [('o-1', 'apples: 30')]
    """

    before: Span
    after: Span
    grace: timedelta
    before_max: timedelta | None = None
    after_max: timedelta | None = None

    def __post_init__(self) -> None:
        """Check the spans."""
        self.spec()

    @classmethod
    def of_time_difference(cls, time_difference: timedelta, *, grace: timedelta) -> JoinWindows:
        """Return windows in which neither record is older than the other by more than a given span.

        Args:
            time_difference: How far apart two records may be.
            grace: How long after the end of its window a record waits for a late partner;
                ``timedelta(0)`` for not at all.

        Raises:
            BadOptionError: If one of them is negative.

        Example:
            >>> minute = JoinWindows.of_time_difference(timedelta(minutes=1), grace=timedelta(0))
            >>> minute.before == minute.after == timedelta(minutes=1)
            True
        """
        milliseconds("JoinWindows", "time_difference", time_difference, at=user_origin())
        return cls(before=time_difference, after=time_difference, grace=grace)

    @property
    def size(self) -> timedelta:
        """The span from the earliest partner of a record to the latest; the largest possible one.

        Example:
            >>> JoinWindows.of_time_difference(timedelta(seconds=5), grace=timedelta(0)).size
            datetime.timedelta(seconds=10)
        """
        return timedelta(milliseconds=self.spec().size_ms)

    def spans(self) -> JoinSpans | None:
        """Return the functions that give the window of a record, None if there are none."""
        before = self.before if callable(self.before) else None
        after = self.after if callable(self.after) else None
        return None if before is after is None else JoinSpans(before=before, after=after)

    def spec(self) -> JoinWindowSpec:
        """Return the windows in milliseconds; the widest, if each record has its own."""
        at = user_origin()
        before = _most("before", self.before, self.before_max, at=at)
        after = _most("after", self.after, self.after_max, at=at)
        grace = milliseconds("JoinWindows", "grace", self.grace, at=at)
        if before + after < 0:
            msg = f"JoinWindows(before={self.before!r}, after={self.after!r}) ends before it begins"
            raise BadOptionError(
                msg,
                at=at,
                why="a record is joined with those between its time - before and its time + after",
                fix="make one of them larger, so that their sum is at least 0",
                fields={"option": "before", "value": self.before},
            )
        return JoinWindowSpec(before_ms=before, after_ms=after, grace_ms=grace)


def _most(option: str, span: object, most: object, *, at: Origin) -> int:
    """Return a span of time, or the maximum for a function, as whole milliseconds."""
    fields = {"option": f"{option}_max", "value": most}
    if callable(span):
        check_function(span, ("record",), role=option, verb="JoinWindows", at=at)
        if most is None:
            msg = f"JoinWindows needs {option}_max, because its {option} is a function"
            raise BadOptionError(
                msg,
                at=at,
                why="records are kept for as long as they may find a partner",
                fix=f"write {option}_max=timedelta(...), the most that the function returns",
                fields=fields,
            )
        return milliseconds("JoinWindows", f"{option}_max", most, at=at, sign="any")
    if most is not None:
        msg = f"JoinWindows cannot have {option}_max={most!r}: its {option} is not a function"
        raise BadOptionError(msg, at=at, fix=f"leave out {option}_max=", fields=fields)
    return milliseconds("JoinWindows", option, span, at=at, sign="any")


@dataclass(frozen=True, kw_only=True)
class StreamJoined(Option, Generic[K, V, W]):
    """How the records of two streams are kept while they wait for each other.

    Attributes:
        key: Type or serde of the keys of both sides; the streams' if not given.
        value: Type or serde of the left stream's values; the stream's own if not given.
        other_value: Type or serde of the right stream's values; likewise.
        store: The beginning of the names of the join's stores; ``name`` if not given.
        name: Name of the join.
        this_store: A supplier for the left stream's records, which gives the store its name. It
            must be a window store that retains duplicates, with the window and the retention of the
            join.
        other_store: A supplier for the right stream's records; likewise.
        logged: Whether the stores have changelogs, from which they are restored.
        topic_config: Settings of the changelog topics that differ from the default.
        version: The version of the left stream's stored records; see `Materialized`.
        upgrade: How older versions of them are read, likewise. Keep it: ``mustela state upgrade``
            does not rewrite records that wait in a join.
        other_version: The version of the right stream's stored records.
        other_upgrade: How older versions of them are read; keep it, too.

    Example:
        >>> from mustela import JoinWindows, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str)
        >>> views = builder.stream("views", key=str, value=str)
        >>> kept = StreamJoined(name="seen", store="seen", topic_config={"segment.ms": "600000"})
        >>> near = JoinWindows.of_time_difference(timedelta(seconds=10), grace=timedelta(0))
        >>> clicks.join(views, str.__add__, windows=near, stream_joined=kept).name
        'seen'
    """

    key: type[K] | Serde[K] | None = None
    value: type[V] | Serde[V] | None = None
    other_value: type[W] | Serde[W] | None = None
    store: str | None = None
    name: str | None = None
    this_store: StoreSupplier | None = None
    other_store: StoreSupplier | None = None
    logged: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict[str, str])
    version: int = 1
    upgrade: Upgrades[V] | None = None
    other_version: int = 1
    other_upgrade: Upgrades[W] | None = None
