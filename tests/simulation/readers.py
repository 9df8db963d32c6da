"""Clients that read the stores of the simulated application: what they see is what was committed.

Each process has one, with the queries that `mustela.App` has. At any call of the world, between two
writes of a lane as well as in the middle of a commit, one of them takes a snapshot, keeps it open,
looks at it again later, and calls live handles. A book of what the committed rows of the changelogs
add up to says what each epoch left in each store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from random import Random
from typing import Any

from mustela.errors import MustelaError
from mustela.queries.errors import (
    QueryError,
    SnapshotExpiredError,
    StateUnavailableError,
)
from mustela.queries.queries import Queries
from mustela.queries.shown import is_queried
from mustela.queries.snapshot import Snapshot
from mustela.queries.source import Edition, StorePlace
from mustela.runtime.events import AppState
from mustela.runtime.reading import Published
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.state.faults import StateNotReadyError
from tests.simulation.broker import Entry
from tests.simulation.world import Life, SimWorld, Violation

__all__ = ["Readers", "SimKeeper"]

ASKED = 0.05
"""How often somebody reads, of all calls of the world."""
KEPT = 0.7
"""How often a snapshot stays open after it was looked at."""
SOME = 3
_LIFETIME = timedelta(minutes=5)

_NO_ANSWER = (QueryError, SnapshotExpiredError, StateNotReadyError, StateUnavailableError)
"""Errors that say that there is no answer now: none is ever wrong."""
_LOST = {"log lost", "age"}
"""After these the changelogs no longer say what the stores hold."""

Place = tuple[str, int]
Book = Mapping[Place, Mapping[bytes, bytes]]
"""What an epoch left, by changelog and key group."""


class SimKeeper:
    """What `SnapshotKeeper` does, without a thread: no moment of a seed is left to chance."""

    def __init__(self, clock: Any) -> None:
        del clock
        self._open: dict[int, Snapshot] = {}

    def check_room(self) -> None:
        """There is room."""

    def add(self, snapshot: Snapshot) -> None:
        """Know a snapshot."""
        self._open[id(snapshot)] = snapshot

    def forget(self, snapshot: Snapshot) -> None:
        """Know it no longer."""
        self._open.pop(id(snapshot), None)

    def close(self) -> None:
        """End all snapshots."""
        for snapshot in list(self._open.values()):
            snapshot.close()


class _Clock:
    """Time for readers: nothing happens while they wait, so they wait once, and give up."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._slept = 0.0

    def now_ms(self) -> int:
        """Milliseconds."""
        return self._world.ms

    def monotonic(self) -> float:
        """Seconds."""
        return self._world.ms / 1000 + self._slept

    def sleep(self, seconds: float) -> None:
        """Be late: nobody else has a turn."""
        self._slept += 60.0 + seconds


class _Client:
    """One reader in one process.

    Attributes:
        life: The process.
        seen: The newest epoch that it was shown, or that anybody was before it began.
        snapshot: What it keeps open.
    """

    def __init__(self, world: SimWorld, life: Life, seen: int) -> None:
        self.life = life
        self.seen = seen
        self.snapshot: Snapshot | None = None
        clock = _Clock(world)
        self.published = Published(clock, lambda: AppState.RUNNING, self._end)
        self.queries = Queries(self.published, clock=clock)

    def _end(self) -> None:
        self.queries.close()
        self.snapshot = None

    def close(self) -> None:
        """Close the snapshot."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.close()


class Readers:
    """All clients of a world, and what they should see.

    Args:
        world: The world.
        application_id: The application.
    """

    def __init__(self, world: SimWorld, application_id: str) -> None:
        self._world = world
        self._name = application_id
        self._random = Random(f"readers of {world.script.seed}")  # others draw what they drew
        self._begin()
        world.on_look = self.look

    def _begin(self) -> None:
        self._clients: list[_Client] = []
        self._seen = 0
        self._now: dict[Place, Mapping[bytes, bytes]] = {}
        self._books: dict[int, Book] = {0: {}}

    def reset(self) -> None:
        """Another life begins: nothing of an earlier one is known."""
        for client in self._clients:
            client.close()
        self._begin()

    def begin(self, life: Life) -> Published:
        """Return where a process that starts is to publish its epochs."""
        client = _Client(self._world, life, self._seen)
        self._clients.append(client)
        return client.published

    def committed(self, record: EpochRecord, rows: Mapping[Place, Iterable[Entry]]) -> None:
        """Write down what an epoch left."""
        logs = {f"{self._name}-{store}-changelog" for store in record.changelog_ends}
        for place, entries in rows.items():
            if place[0] in logs:
                left = dict(self._now.get(place, {}))
                for entry in entries:
                    if entry.value is None:
                        left.pop(entry.key or b"", None)
                    else:
                        left[entry.key or b""] = entry.value
                self._now[place] = left
        self._books[record.epoch] = dict(self._now)

    def look(self) -> None:
        """Somebody reads, now and then."""
        if self._random.random() >= ASKED:
            return
        world = self._world
        here = [c for c in self._clients if not c.life.dead and c.life.frozen_ms <= world.ms]
        if not here:
            return
        client = self._random.choice(here)
        try:
            self._ask(client)
        except _NO_ANSWER as error:
            world.happened[f"read: {error.code}"] += 1
            client.close()
        except MustelaError as error:
            self._fail(f"a reader meets {error.code}: {error}")

    def _ask(self, client: _Client) -> None:
        is_new = client.snapshot is None
        snapshot = client.snapshot = client.snapshot or client.queries.snapshot(lifetime=_LIFETIME)
        if is_new:
            self._check_epoch(client, snapshot.epoch)
        self._world.happened["read" if is_new else "read again"] += 1
        places = _readable(snapshot.edition)
        for place in places:
            self._check_rows(snapshot, place)
        if is_new and places:
            self._check_live(client, snapshot, self._random.choice(places))
        if self._random.random() >= KEPT:
            client.close()

    def _check_epoch(self, client: _Client, epoch: int) -> None:
        if _LOST & self._world.applied:
            return
        if epoch not in self._books:
            self._fail(f"epoch {epoch} is shown, and was never committed")
        if epoch < client.seen:
            self._fail(f"epoch {epoch} is shown after epoch {client.seen}")
        client.seen = max(client.seen, epoch)
        self._seen = max(self._seen, epoch)

    def _check_rows(self, snapshot: Snapshot, place: StorePlace) -> None:
        """Compare a store with what its epoch left in it."""
        spec, book = place.spec, self._books.get(snapshot.epoch)
        if book is None or _LOST & self._world.applied or not spec.logged:
            return
        rows = snapshot.rows_of(place)
        held = snapshot.reading(lambda: dict(rows.range()))
        topic = f"{self._name}-{spec.log_name}-changelog"
        wanted: dict[bytes, bytes] = {}
        for group in range(place.groups):
            wanted.update(book.get((topic, group), {}))
        wrong = {key for key in held if wanted.get(key) != held[key]}
        if spec.retention_ms is None:  # what is over leaves without a word
            wrong |= wanted.keys() - held.keys()
        if wrong:
            shown = [(key, held.get(key), wanted.get(key)) for key in sorted(wrong)[:SOME]]
            self._fail(f"epoch {snapshot.epoch} did not leave this in {spec.name}: {shown}")

    def _check_live(self, client: _Client, snapshot: Snapshot, place: StorePlace) -> None:
        """What handles show in the same moment is what the snapshot shows."""
        name = place.spec.name
        shown = dict(snapshot.store(name).items())
        handle = client.queries.store(name)
        if dict(handle.items()) != shown or len(handle) != len(shown):
            self._fail(f"a handle of {name} does not show epoch {snapshot.epoch}")
        if "key_value" in place.spec.kind:
            for key in list(shown)[:SOME]:
                if handle.get(key) != shown[key]:
                    self._fail(f"a get of {key!r} in {name} is not of epoch {snapshot.epoch}")

    def _fail(self, what: str) -> None:
        self._world.report(Violation("reads", what))


def _readable(edition: Edition) -> list[StorePlace]:
    return [place for place in edition.stores.values() if is_queried(place.spec) is not None]
