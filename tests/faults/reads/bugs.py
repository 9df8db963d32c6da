"""Known bugs of readers, planted to show that clients' answers would tell of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

__all__ = ["READ_PLANTS", "Replace"]

TEAR_S = 0.25
"""So long the halves of a torn snapshot are apart."""
KEPT_MAX = 6

Replace = Callable[[Any, str, object], None]


def _pending_answered(replace: Replace) -> None:
    """What a lane has written for an epoch is shown before that is committed."""
    from mustela.state.codec import decode_pending
    from mustela.state.lmdb_reader import LmdbReaders

    committed: Any = LmdbReaders._layer  # pyright: ignore[reportPrivateUsage]

    def newest(self: Any, txn: Any, files: Any, *more: Any) -> Any:
        layer = dict(committed(self, txn, files, *more))
        with txn.cursor(files.handle.pending) as cursor:
            if cursor.last():
                for store, rows in (decode_pending(bytes(cursor.value())) or {}).items():
                    layer[store] = dict(sorted({**layer.get(store, {}), **rows}.items()))
        return layer

    replace(LmdbReaders, "_layer", newest)


def _snapshot_torn(replace: Replace) -> None:
    """Some key groups of a snapshot are opened a moment after the others."""
    from mustela.queries import queries

    pinned: Any = queries.pinned

    def torn(source: Any, *more: Any) -> Any:
        views = pinned(source, *more)
        time.sleep(TEAR_S)
        later = source.newest()
        for place, (mark, view) in list(views._views.items()):
            if place[1] % 2:
                views._views[place] = mark, later.open(*place)
                view.close()
        return views

    replace(queries, "pinned", torn)


def _snapshot_kept(replace: Replace) -> None:
    """A snapshot is kept and given again, so that an older epoch comes after a newer one."""
    from mustela.queries import queries

    pinned: Any = queries.pinned
    kept: list[Any] = []

    def again(source: Any, clock: Any, places: Any) -> Any:
        if places is not queries._all_places:  # pyright: ignore[reportPrivateUsage]
            return pinned(source, clock, places)
        if len(kept) == KEPT_MAX and random.random() < 0.3:
            return kept[0]
        views = pinned(source, clock, places)
        views.close = lambda: None
        kept.append(views)
        del kept[:-KEPT_MAX]
        return views

    replace(queries, "pinned", again)


def _wish_ignored(replace: Replace) -> None:
    """A replica does not wait for the epoch that a client asks for."""
    from mustela.runtime.replica.replica import Replica

    replace(Replica, "wait", lambda _self, _holds, _seconds: True)


def _change_lost(replace: Replace) -> None:
    """Who follows a store is not told of some of the epochs."""
    from mustela.runtime.status.change_ring import ChangeRing

    add: Any = ChangeRing.add

    def some(self: Any, new: Any, followed: Any, *, after: int) -> None:
        if new.epoch % 7 == 0:
            new = type(new)(epoch=new.epoch, rows={})
        add(self, new, followed, after=after)

    replace(ChangeRing, "add", some)


def _frame_moved(replace: Replace) -> None:
    """The parts of a data frame are read as of whatever is committed by then."""
    from mustela.admin.data.frames import FrameService

    frame_of: Any = FrameService._frame  # pyright: ignore[reportPrivateUsage]

    def newest(self: Any, name: str) -> Any:
        found = frame_of(self, name)
        found.shown = self._queries.snapshot()
        return found

    replace(FrameService, "_frame", newest)


def _table_ahead(replace: Replace) -> None:
    """The copy of a global table has some records that the epoch had not read."""
    from mustela.runtime.replica.global_copies import GlobalCopies

    opened: Any = GlobalCopies.open

    def ahead(self: Any, plan: Any, stage: int, marks: Any, epoch: int) -> Any:
        further = {
            topic: mark._replace(ends=tuple(end + 40 for end in mark.ends))
            for topic, mark in marks.items()
        }
        return opened(self, plan, stage, further, epoch)

    replace(GlobalCopies, "open", ahead)


READ_PLANTS: dict[str, Callable[[Replace], None]] = {
    "pending-answered": _pending_answered,
    "snapshot-torn": _snapshot_torn,
    "snapshot-kept": _snapshot_kept,
    "wish-ignored": _wish_ignored,
    "change-lost": _change_lost,
    "frame-moved": _frame_moved,
    "table-ahead": _table_ahead,
}
"""Plants a bug, by name."""
