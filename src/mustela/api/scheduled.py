"""The ticks of a scheduled source: the arguments of its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from mustela.errors import UsageError
from mustela.model import Record

__all__ = ["Tick", "TickFunction", "TickStoreError"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TickStoreError(UsageError):
    """The function of a scheduled source asks for a store that it did not declare."""

    code = "TICK_STORE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One moment of a schedule: the argument of a scheduled source's function.

    Attributes:
        name: Name of the scheduled source.
        timestamp: When the tick was due, in milliseconds since 1970-01-01 UTC; its records have
            this timestamp. It is handled a little later, or much later if it was missed.
        number: Which tick it is, from 1; ticks that were skipped have no number.
        zone: The schedule's time zone.
        stores: For each store that may be read, what opens it.

    Example:
        >>> tick = Tick(name="report", timestamp=60_000, number=1)
        >>> tick.time.isoformat()
        '1970-01-01T00:01:00+00:00'
    """

    name: str
    timestamp: int
    number: int
    zone: tzinfo = UTC
    stores: Mapping[str, Callable[[], Any]] = field(
        default_factory=dict[str, Callable[[], Any]], repr=False, compare=False
    )

    @property
    def time(self) -> datetime:
        """When the tick was due, by the clock of the schedule's time zone."""
        return (_EPOCH + timedelta(milliseconds=self.timestamp)).astimezone(self.zone)

    def store(self, name: str) -> Any:
        """Return a store for reading: all keys of all lanes, as they were before this epoch.

        Args:
            name: A store that the source declared: ``stores=("counts",)``.

        Returns:
            The store, with the methods of its kind: a `TimestampedKeyValueStore`, for example, for
            ``count(store="counts")``. It cannot be written to.

        Raises:
            TickStoreError: If the source did not declare it.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str).group_by_key()
            >>> counts = words.count(store="counts")
            >>> def report(tick):
            ...     return [("all", sum(count for _, (count, _) in tick.store("counts").all()))]
            >>> totals = builder.scheduled(
            ...     "report", report, every=timedelta(minutes=1), stores=("counts",)
            ... )
            >>> totals.to("totals", key=str, value=int)
            >>> with TopologyTestDriver(builder, initial_wall_clock=0) as driver:
            ...     driver.create_input_topic("words").pipe_value_list(["x", "y"])
            ...     driver.create_input_topic("words").pipe_input("a", "x")
            ...     driver.advance_wall_clock_time(timedelta(minutes=1))
            ...     driver.create_output_topic("totals").read_key_values_to_list()
            [('all', 1)]
        """
        found = self.stores.get(name)
        if found is None:
            msg = f"the scheduled source {self.name!r} does not read store {name!r}"
            raise TickStoreError(
                msg,
                evidence={"it reads": ", ".join(self.stores) or "no stores"},
                why="stores that are read must be opened before the function is called",
                fix=f'declare it: scheduled(..., stores=("{name}",))',
                fields={"step": self.name, "store": name},
            )
        return found()


TickFunction = Callable[[Tick], "Iterable[tuple[Any, Any] | Record[Any, Any]] | None"]
"""Makes the records of a tick: pairs of key and value, or `Record` to set time or headers."""
