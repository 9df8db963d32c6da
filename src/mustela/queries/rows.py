"""The rows of stores over all key groups, as of one edition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from mustela.clock import Clock
from mustela.plan.keygroups import key_group
from mustela.queries.errors import StateUnavailableError
from mustela.queries.source import Edition, StateSource, StorePlace
from mustela.state.faults import StateDamagedError, StateGoneError, StateNotReadyError
from mustela.state.interfaces import Condition, Snapshot
from mustela.state.kinds.layout import EmptySnapshot, RowView, SnapshotView
from mustela.state.kinds.views import MergedView, once, read_ahead

__all__ = ["PATIENCE_S", "EditionViews", "StoreRows", "pinned", "retried"]

PATIENCE_S = 10.0
"""How long a read waits for state that is being restored, in seconds."""

_PAUSE_S = 0.005

_PASSING = (StateNotReadyError, StateGoneError, StateDamagedError)
"""Errors of state that may pass: it moved on, or is being restored."""


class EditionViews:
    """Views of key groups as of one edition, opened as they are needed.

    Args:
        edition: The edition.
    """

    def __init__(self, edition: Edition) -> None:
        self.edition = edition
        self._views: dict[tuple[int, int], tuple[Edition, Snapshot]] = {}

    def view(self, stage: int, group: int) -> Snapshot:
        """Return the view of a key group.

        Raises:
            StateNotReadyError: If its state has moved on, or is being restored.
        """
        found = self._views.get((stage, group))
        if found is None:
            edition = self.edition
            found = self._views[stage, group] = edition, edition.open(stage, group)
        return found[1]

    def move_to(self, edition: Edition) -> None:
        """Change to a newer edition; views of key groups that it did not change are kept."""
        self.edition = edition
        for place, (before, view) in list(self._views.items()):
            if edition.mark(*place) != before.mark(*place):
                del self._views[place]
                view.close()

    def open_all(self, places: Sequence[tuple[int, int]]) -> None:
        """Open the views of several key groups."""
        for place in places:
            self.view(*place)

    def close(self) -> None:
        """End all views; closing twice is allowed."""
        while self._views:
            self._views.popitem()[1][1].close()


class _Groups:
    """One store in each key group."""

    def __init__(
        self, views: EditionViews, place: StorePlace, only: Collection[int] | None
    ) -> None:
        self._views = views
        self._place = place
        self._only = only
        serde = place.spec.key_serde
        self._suffix = 0 if serde is None else serde.group_suffix
        self._known: dict[int, RowView] = {}

    def of(self, key: bytes) -> RowView:
        """Return the key group of a record key."""
        return self._group(key_group(key, self._place.groups, suffix=self._suffix))

    def all(self) -> Sequence[RowView]:
        """Return every key group."""
        groups = range(self._place.groups)
        return [self._group(each) for each in groups if self._only is None or each in self._only]

    def _group(self, group: int) -> RowView:
        found = self._known.get(group)
        if found is None:
            place = self._place
            left_out = self._only is not None and group not in self._only
            view = EmptySnapshot() if left_out else self._views.view(place.stage, group)
            raw = SnapshotView(view, place.spec.name)
            found = self._known[group] = place.spec.traits.rows(raw, place.spec)
        return found


class StoreRows(MergedView):
    """One store over all key groups, or some of them.

    Args:
        views: The edition's views.
        place: Where the store is.
        only: The key groups; None for all.
    """

    def __init__(
        self, views: EditionViews, place: StorePlace, only: Collection[int] | None = None
    ) -> None:
        super().__init__(_Groups(views, place, only))
        self._place = place

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        found = super().get(key)
        if found is None and self._place.wanders:
            own = self.of(key)
            others = (view for view in self.all() if view is not own)
            found = next((row for view in others if (row := view.get(key)) is not None), None)
        return found

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys``, in the same order.

        What is not in its own key group is looked for in the others, with one fetch for each.
        """
        found = super().getmulti(keys)
        if not self._place.wanders or None not in found:
            return found
        missing = {key for key, row in zip(keys, found, strict=True) if row is None}
        strays: dict[bytes, bytes] = {}
        for view in self.all():
            wanted = sorted(key for key in missing if self.of(key) is not view)
            if wanted:
                rows = zip(wanted, view.getmulti(wanted), strict=True)
                strays.update((key, row) for key, row in rows if row is not None)
                missing -= strays.keys()
        return [
            strays.get(key) if row is None else row for key, row in zip(keys, found, strict=True)
        ]

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order, each key once."""
        runs = [view.range(low, high, reverse=reverse) for view in self.all()]
        if len(runs) == 1:
            return runs[0]
        rows = read_ahead(runs, reverse=reverse)
        return once(rows, self._groups) if self._place.wanders else rows

    def count(self) -> int:
        """Return the number of keys."""
        if self._place.wanders and self._place.groups > 1:
            return sum(1 for _ in self.range())  # several key groups may hold a key
        return super().count()


def retried(source: StateSource, clock: Clock, attempt: Callable[[Edition], Any]) -> Any:
    """Return the result of a function of the newest edition, called again if that has moved on.

    Raises:
        StateUnavailableError: If the state cannot be read for `PATIENCE_S` seconds.
    """
    limit = clock.monotonic() + PATIENCE_S
    while True:
        edition = source.newest()
        try:
            return attempt(edition)
        except _PASSING as error:
            if clock.monotonic() > limit:
                raise _unavailable(error) from error
            moved_on = error.fields.get("condition") is Condition.AHEAD
            if not moved_on or source.newest() is edition:
                clock.sleep(_PAUSE_S)


def pinned(
    source: StateSource, clock: Clock, places: Callable[[Edition], Sequence[tuple[int, int]]]
) -> EditionViews:
    """Return views of several key groups as of one edition, all of them open."""
    views: list[EditionViews] = []

    def attempt(edition: Edition) -> EditionViews:
        if views:
            views[0].move_to(edition)
        else:
            views.append(EditionViews(edition))
        views[0].open_all(places(edition))
        return views[0]

    try:
        return retried(source, clock, attempt)
    except BaseException:
        for opened in views:
            opened.close()
        raise


def _unavailable(error: Any) -> StateUnavailableError:
    condition = error.fields.get("condition")
    told = condition.value if isinstance(condition, Condition) else error.code
    msg = f"the state could not be read for {PATIENCE_S:g} seconds"
    return StateUnavailableError(
        msg,
        evidence={"state": told},
        why="it is being restored, or another instance has taken over",
        fix="try again when the application is running; see its log",
        fields={"state": told},
    )
