"""Over which span of time two streams are joined, and how their records are kept meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from mustela.dsl.option import Option
from mustela.dsl.origin import user_origin
from mustela.dsl.stores import StoreSupplier
from mustela.dsl.upgrades import Upgrades
from mustela.dsl.windows import milliseconds
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.topology.errors import BadOptionError
from mustela.topology.stream_join import JoinWindowSpec

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

_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindows(Option):
    """Which records of two streams meet: those whose times lie close together.

    A record of the left stream at time t meets the right stream's records of
    [t - before, t + after], both ends inclusive. One of the two may be negative, so that the right
    record must be older, or younger, by so much at least.

    Args:
        before: How much older than the left record a right one may be.
        after: How much younger than the left record a right one may be.
        grace: How long behind the end of its window a record of a left or outer join waits for a
            partner that comes late, before it is a result without one; ``timedelta(0)`` for not
            at all.

    Raises:
        BadOptionError: If the window would end before it begins, or the grace is negative.

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

    before: timedelta
    after: timedelta
    grace: timedelta

    def __post_init__(self) -> None:
        """Check the spans."""
        self.spec()

    @classmethod
    def of_time_difference(cls, time_difference: timedelta, *, grace: timedelta) -> JoinWindows:
        """Return windows in which neither record is older than the other by more than so much.

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
        """From the earliest partner of a record to the latest.

        Example:
            >>> JoinWindows.of_time_difference(timedelta(seconds=5), grace=timedelta(0)).size
            datetime.timedelta(seconds=10)
        """
        return self.before + self.after

    def spec(self) -> JoinWindowSpec:
        """Return the windows in milliseconds."""
        at = user_origin()
        before = _signed("before", self.before, at=at)
        after = _signed("after", self.after, at=at)
        grace = milliseconds("JoinWindows", "grace", self.grace, at=at)
        if before + after < 0:
            msg = f"JoinWindows(before={self.before!r}, after={self.after!r}) ends before it begins"
            raise BadOptionError(
                msg,
                at=at,
                why="a record meets what lies between its time less before and its time plus after",
                fix="make one of them larger, so that they are at least nothing together",
                fields={"option": "before", "value": self.before},
            )
        return JoinWindowSpec(before_ms=before, after_ms=after, grace_ms=grace)


def _signed(option: str, span: object, *, at: Origin) -> int:
    """Return a span of time that may be negative as whole milliseconds."""
    if isinstance(span, timedelta) and span < _NOTHING:
        return -milliseconds("JoinWindows", option, -span, at=at)
    return milliseconds("JoinWindows", option, span, at=at)


@dataclass(frozen=True, kw_only=True)
class StreamJoined(Option, Generic[K, V, W]):
    """How the records of two streams are kept while they wait for each other.

    Attributes:
        key: Type or serde of the keys of both sides; the streams' if nothing is said.
        value: Type or serde of the left stream's values; the stream's own if nothing is said.
        other_value: Type or serde of the right stream's values; likewise.
        store: What the names of the join's stores begin with; ``name`` if nothing is said.
        name: Name of the join.
        this_store: A supplier of a window store for the left stream's records, for its name: it
            keeps duplicates, and its window and retention are those of the join.
        other_store: A supplier for the right stream's records; likewise.
        logged: Whether the stores have changelogs, from which they are restored.
        topic_config: Settings of the changelog topics that differ from the default.
        version: The version of the left stream's records as they are kept; see `Materialized`.
        upgrade: How older ones are read, likewise. It has to stay: ``mustela state upgrade`` does
            not rewrite what waits in a join.
        other_version: The version of the right stream's records.
        other_upgrade: How older ones are read; it has to stay, too.

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
