"""The timers of a processor step: those registered in an epoch, on top of the stored ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from mustela.api.timers import TimeDomain, TimerError
from mustela.errors import show_key
from mustela.kernel.core.lane_state import LaneStore
from mustela.state.kinds.layout import TIME_MIN, RowView
from mustela.state.kinds.prefixed import PrefixedView
from mustela.state.kinds.timer import CLOCK_ROW, StoredTimer, TimerRows

__all__ = ["TIMER_CHAIN_MAX", "GroupTimers", "StepTimers"]

TIMER_CHAIN_MAX: Final = 10_000
"""How many timers may follow one another in an epoch, each registered by the previous one for a
time already reached, before that is taken for an endless loop."""

_CHUNK = 1_000

OnRead = Callable[[int, list[bytes]], object]
"""Called with a key group and the keys of stored timers that are about to fire."""

_Place = tuple[bytes, bytes]
"""Key and name, which identify a timer."""


class GroupTimers:
    """The timers of one key group for one kind of time, during an epoch.

    What is registered and deleted is held here and written once, by `save`. Stored timers are read
    when they are due: the others cost one look at the first of them.

    Args:
        view: The rows of the store.
        on_read: Called with the keys of stored timers that are about to fire.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="t", kind="timer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("t")
        >>> timers = GroupTimers(view)
        >>> timers.register(50, b"apple", b"")
        >>> timers.register(20, b"pear", b"")
        >>> timers.pop_due(30)
        StoredTimer(time=20, key=b'pear', name=b'', data=b'')
        >>> timers.pop_due(30)
        >>> timers.save()
        >>> timers.next_time()
        50
    """

    __slots__ = (
        "_changed",
        "_first",
        "_heap",
        "_looked",
        "_on_read",
        "_read",
        "_read_to",
        "_rows",
        "_stored",
    )

    def __init__(
        self, view: RowView, on_read: Callable[[list[bytes]], object] | None = None
    ) -> None:
        self._rows = TimerRows(view)
        self._on_read = on_read
        self._changed: dict[_Place, int | None] = {}
        self._heap: list[tuple[int, bytes, bytes]] = []
        self._stored: Iterator[StoredTimer] = iter(())
        self._read: deque[StoredTimer] = deque()
        self._read_to = TIME_MIN - 1
        self._first: int | None = None
        self._looked = False

    def register(self, time: int, key: bytes, name: bytes) -> None:
        """Set a timer, replacing one of the same key and name."""
        self._changed[key, name] = time
        heappush(self._heap, (time, key, name))

    def delete(self, key: bytes, name: bytes) -> None:
        """Remove a timer, if it is set."""
        self._changed[key, name] = None

    def before(self, key: bytes, name: bytes) -> tuple[int | None] | None:
        """Return what `put` needs to take back the next change of a timer."""
        place = (key, name)
        return (self._changed[place],) if place in self._changed else None

    def put(self, place: tuple[bytes, bytes], before: tuple[int | None] | None) -> None:
        """Take back the change of a timer that was made since `before`; none has fired since."""
        if before is None:
            self._changed.pop(place, None)
            return
        (time,) = before
        self._changed[place] = time
        if time is not None:
            heappush(self._heap, (time, *place))

    def due_time(self, until: int) -> int | None:
        """Return the time of the first timer with time <= until, or None."""
        first = self._peek(until)
        return None if first is None else first.time

    def pop_due(self, until: int) -> StoredTimer | None:
        """Remove and return the first timer with time <= until, by time, key and name."""
        found = self._peek(until)
        if found is not None:
            self._changed[found.key, found.name] = None
        return found

    def save(self) -> None:
        """Write what has changed."""
        changed, self._changed = self._changed, {}
        self._heap.clear()
        if changed:
            self._looked = False
            self._read_to = TIME_MIN - 1
            self._rows.change_many(
                {
                    place: None if time is None else StoredTimer(time, *place)
                    for place, time in changed.items()
                }
            )

    def next_time(self) -> int | None:
        """Return when the first timer fires, or None; called after `save`."""
        if not self._looked:
            self._first, self._looked = self._rows.next_time(self._read_to + 1), True
        return self._first

    def _peek(self, until: int) -> StoredTimer | None:
        fresh, stored = self._peek_fresh(until), self._peek_stored(until)
        if fresh is None or (stored is not None and stored[:3] < fresh):
            return stored
        return StoredTimer(*fresh)

    def _peek_fresh(self, until: int) -> tuple[int, bytes, bytes] | None:
        heap, changed = self._heap, self._changed
        while heap:
            time, key, name = first = heap[0]
            if changed.get((key, name)) == time:
                return first if time <= until else None
            heappop(heap)  # replaced, deleted, or already fired
        return None

    def _peek_stored(self, until: int) -> StoredTimer | None:
        changed, read = self._changed, self._read
        while True:
            while read:
                head = read[0]
                if (head.key, head.name) not in changed:
                    return head
                read.popleft()  # replaced, deleted, or already fired
            read.extend(islice(self._stored, _CHUNK))
            if read:
                if self._on_read is not None:
                    self._on_read([timer.key for timer in read])
            elif self._has_more(until):
                self._stored = self._rows.due(until, since=self._read_to + 1)
                self._read_to, self._looked = until, False
            else:
                return None

    def _has_more(self, until: int) -> bool:
        """Whether a stored timer that has not been read yet is due."""
        if until <= self._read_to:
            return False
        if not self._looked:
            self._first, self._looked = self._rows.next_time(self._read_to + 1), True
        return self._first is not None and self._first <= until


class StepTimers:
    """The timers of a step in all key groups of a lane.

    Args:
        store: Where they are kept.
        on_read: Called with a key group and the keys of stored timers that are about to fire.
    """

    def __init__(self, store: LaneStore, on_read: OnRead | None = None) -> None:
        self._store = store
        self._on_read = on_read
        self._groups: dict[TimeDomain, dict[int, GroupTimers]] = {
            domain: {} for domain in TimeDomain
        }
        self._chains: dict[tuple[TimeDomain, bytes, bytes], int] = {}
        self._firing: tuple[TimeDomain, StoredTimer, int] | None = None

    def register(self, domain: TimeDomain, group: int, timer: StoredTimer) -> None:
        """Set a timer of a key group, replacing one of the same key and name.

        Raises:
            TimerError: If too many timers have followed one another in this epoch.
        """
        place = (domain, timer.key, timer.name)
        length = self._chain(domain, timer.time)
        if length:
            self._chains[place] = length
        else:
            self._chains.pop(place, None)
        self.of(domain, group).register(*timer[:3])

    def delete(self, domain: TimeDomain, group: int, key: bytes, name: bytes) -> None:
        """Remove a timer of a key group, if it is set."""
        self.of(domain, group).delete(key, name)

    def pop_due(self, domain: TimeDomain, group: int, until: int) -> StoredTimer | None:
        """Remove and return the first timer that is due; it counts as firing until `settle`."""
        found = self.of(domain, group).pop_due(until)
        if found is not None:
            length = self._chains.pop((domain, found.key, found.name), 0)
            self._firing = (domain, found, length)
        return found

    def settle(self) -> None:
        """Note that the timer taken last has fired."""
        self._firing = None

    def due_time(self, domain: TimeDomain, group: int, until: int) -> int | None:
        """Return the time of the first timer with time <= until, or None."""
        return self.of(domain, group).due_time(until)

    def save(self) -> None:
        """Write what has changed; unused timers write nothing."""
        for groups in self._groups.values():
            for _, timers in sorted(groups.items()):
                timers.save()

    def next_times(self, domain: TimeDomain) -> dict[int, int]:
        """Return when the first timer of each key group fires; called after `save`."""
        times = ((group, self.of(domain, group).next_time()) for group in self._store.groups)
        return {group: time for group, time in times if time is not None}

    def of(self, domain: TimeDomain, group: int) -> GroupTimers:
        """Return the timers of a key group for a kind of time."""
        timers = self._groups[domain].get(group)
        if timers is None:
            view: RowView = self._store.group(group)
            if domain is TimeDomain.PROCESSING_TIME:
                view = PrefixedView(view, CLOCK_ROW)
            on_read = None if self._on_read is None else partial(self._on_read, group)
            timers = self._groups[domain][group] = GroupTimers(view, on_read)
        return timers

    def _chain(self, domain: TimeDomain, time: int) -> int:
        """Return the length of the chain of timers that led to one registered now."""
        if self._firing is None:
            return 0
        by, timer, length = self._firing
        if by is domain and time > timer.time:
            return 0  # time advances, so the chain ends
        if length < TIMER_CHAIN_MAX:
            return length + 1
        msg = f"{TIMER_CHAIN_MAX} timers have fired in a row, and the last one set another"
        raise TimerError(
            msg,
            evidence={"key": show_key(timer.key), "name": timer.name.decode(), "for": time},
            why="a timer that is set for a time already reached fires at once",
            fix="set it for a time after that of the firing timer: timer.timestamp + …",
        )
