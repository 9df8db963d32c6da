"""How long the reading of a changelog may take: a deletion does not stay in it for ever.

A row may be read before compaction drops it, and its deletion not be read before compaction drops
that, too. A deletion stays for ``delete.retention.ms`` from when compaction has dropped the row. So
whoever reads from a row to its deletion in less than that misses none. No log can tell how long the
reading took: it is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Self

from mustela.clock import SystemClock
from mustela.errors import EnvironmentFault

__all__ = ["ReadingSince", "RestoreTooSlowError", "in_time", "refuse_slow"]

_Row = tuple[bytes, bytes | None]
_ROOM = 4
"""The longest time is half of what a topic keeps deletions for: so many times a reading's time, and
it has twice as long as it took."""


class RestoreTooSlowError(EnvironmentFault):
    """Reading a changelog, or a global table's topic, takes longer than it keeps deletions."""

    code = "RESTORE_TOO_SLOW"


class ReadingSince(NamedTuple):
    """When the reading of a log began.

    Attributes:
        monotonic: In seconds that no step of a clock changes.
        wall_ms: By the wall clock, which goes on while a machine sleeps.
    """

    monotonic: float
    wall_ms: int

    @classmethod
    def now(cls) -> Self:
        """Return this moment."""
        clock = SystemClock()
        return cls(clock.monotonic(), clock.now_ms())

    @property
    def taken_ms(self) -> int:
        """How long ago it began; of two clocks the one that says more."""
        now = self.now()
        return max(int((now.monotonic - self.monotonic) * 1000), now.wall_ms - self.wall_ms)


def in_time(
    rows: Iterable[_Row],
    store: str,
    place: tuple[str, int | None],
    since: ReadingSince,
    longest_ms: int | None,
) -> Iterator[_Row]:
    """Yield the rows of a changelog; raise behind the last one if it took too long to come there.

    Until the last row has come, a copy has no position that anybody would believe.

    Args:
        rows: What is read.
        store: The store.
        place: The log: a topic, and a partition of it; None for all of them.
        since: When the reading began.
        longest_ms: How long it may take, see `staleness`; None if nothing is known.

    Raises:
        RestoreTooSlowError: If it took longer.
    """

    def check() -> Iterator[_Row]:
        refuse_slow(store, place, since, longest_ms)
        yield from ()

    return chain(rows, check())  # no Python frame for each of many rows


def refuse_slow(
    store: str, place: tuple[str, int | None], since: ReadingSince, longest_ms: int | None
) -> None:
    """Raise if the reading of a log took too long; see `in_time`.

    Raises:
        RestoreTooSlowError: If it did.
    """
    taken_ms = since.taken_ms
    if longest_ms is None or taken_ms <= longest_ms:
        return
    topic, partition = place
    needed = _ROOM * taken_ms
    msg = f"the restore of store {store!r} takes too long to guarantee that no deletion is missed"
    raise RestoreTooSlowError(
        msg,
        evidence={
            "log": topic if partition is None else f"{topic}-{partition}",
            "read in": f"{taken_ms / 1000:.0f} s",
            "longest": f"{longest_ms / 1000:.0f} s, half of how long the topic keeps deletions",
        },
        why="compaction may remove the deletion of a row after the row was read but before the "
        "deletion is: the row would reappear; the log was read twice",
        fix="have the topic keep deletions longer, and start again: mustela kafka-configs"
        f" --alter --entity-type topics --entity-name {topic}"
        f" --add-config delete.retention.ms={needed}",
        fields={"store": store, "topic": topic, "needed_ms": needed},
    )
