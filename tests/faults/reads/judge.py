"""Compares what clients were told with what the epochs left that they were told of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.faults.reads.book import Book, Contents
from tests.faults.reads.program import Shape

__all__ = ["Judge"]

SHOWN_MAX = 3
_BY_INDEX = " by city"


class Judge:
    """Judges the looks of all clients, each client's in order.

    Args:
        book: What each epoch left.
        shapes: What the stores are.

    Attributes:
        violations: What is wrong, in words.
        answers: How many looks each client had.
        epochs: The epochs that were seen.
    """

    def __init__(self, book: Book, shapes: Mapping[str, Shape]) -> None:
        self._book = book
        self._shapes = shapes
        self._seen: dict[str, int] = {}
        self.violations: list[str] = []
        self.answers: Counter[str] = Counter()
        self.epochs: set[int] = set()

    def take(self, looks: Iterable[Mapping[str, Any]]) -> None:
        """Judge looks."""
        for look in looks:
            self.answers[look["client"]] += 1
            if look["epoch"] is None:
                self._judge_unnamed(look)
            else:
                self._judge(look)

    def _wrong(self, look: Mapping[str, Any], what: str) -> None:
        self.violations.append(f"{look['client']}, epoch {look['epoch']}: {what}")

    def _judge(self, look: Mapping[str, Any]) -> None:
        epoch, client = look["epoch"], look["client"]
        if epoch not in self._book:
            self._wrong(look, "was never committed")
            return
        self.epochs.add(epoch)
        last = self._seen.get(client, 0)
        if epoch < last:
            self._wrong(look, f"comes after epoch {last}")
        self._seen[client] = max(last, epoch)
        if (look.get("least") or 0) > epoch:
            self._wrong(look, f"is older than what was asked for, {look['least']}")
        for store, rows in look.get("stores", {}).items():
            self._compare(look, store, rows, self._book.at(epoch, _base(store)))
        if "held" in look:
            self._judge_held(look, **look["held"])
        if "page" in look:
            self._judge_page(look, **look["page"])
        if "some" in look:
            self._judge_some(look, **look["some"])
        for store, sums in look.get("sums", {}).items():
            self._judge_sums(look, store, sums)

    def _judge_some(
        self, look: Mapping[str, Any], *, store: str, keys: Sequence[str], found: Mapping[str, Any]
    ) -> None:
        held = self._book.at(look["epoch"], store)
        wanted = {key: held[key, None, None] for key in keys if (key, None, None) in held}
        if wanted != found:
            self._wrong(look, f"{store} has {wanted}, not {found}")

    def _judge_sums(self, look: Mapping[str, Any], store: str, sums: Sequence[int]) -> None:
        held = self._book.at(look["epoch"], store)
        total = sum(held.values()) if self._shapes[store].value == "int" else len(held)
        if sums != [len(held), total]:
            self._wrong(look, f"{store} adds up to {[len(held), total]}, not {sums}")

    def _compare(
        self, look: Mapping[str, Any], store: str, rows: Sequence[Sequence[Any]], wanted: Contents
    ) -> None:
        found = {(key, start, end): value for key, start, end, value in rows}
        if len(found) != len(rows):
            self._wrong(look, f"{store} shows rows twice")
        if found != wanted:
            self._wrong(look, f"{store}: {_difference(found, wanted)}")

    def _judge_held(
        self,
        look: Mapping[str, Any],
        *,
        store: str,
        prefix: str,
        rows: Sequence[Sequence[Any]],
        before: int | None,
    ) -> None:
        """What changes add up to is what the epoch left, and none was left out before it.

        A replica may go over several epochs at once.
        """

        def left(epoch: int) -> Contents:
            held = self._book.at(epoch, store)
            return {place: value for place, value in held.items() if place[0].startswith(prefix)}

        self._compare(look, store, rows, left(look["epoch"]))
        if before is None or look["place"] != "app":
            return
        was = left(before)
        for epoch in range(before + 1, look["epoch"]):
            if epoch in self._book and left(epoch) != was:
                what = _difference(was, left(epoch))
                self._wrong(look, f"{store}: no change was sent of epoch {epoch}: {what}")
                return

    def _judge_page(
        self,
        look: Mapping[str, Any],
        *,
        store: str,
        after: str | None,
        rows: Sequence[Sequence[Any]],
        last: bool,
    ) -> None:
        """A page begins behind the last key of the one before, and leaves nothing out."""
        held = sorted(self._book.at(look["epoch"], store).items())
        left = [[*place, value] for place, value in held if after is None or place[0] > after]
        wanted = left if last else left[: len(rows)]
        if [list(row) for row in rows] != wanted:
            self._wrong(look, f"{store} after {after}: {list(rows)} is not {wanted}")

    def _judge_unnamed(self, look: Mapping[str, Any]) -> None:
        """An answer without a number is that of an epoch that is not older than one before."""
        client = look["client"]
        ((store, rows),) = look["stores"].items()
        found = {(key, start, end): value for key, start, end, value in rows}
        least = max(look.get("least") or 0, self._seen.get(client, 0))
        for epoch in self._book.since(least):
            if self._book.at(epoch, store) == found:
                self._seen[client] = epoch
                return
        self._wrong(look, f"no epoch from {least} on has left this in {store}: {rows[:SHOWN_MAX]}")


def _base(store: str) -> str:
    return store.removesuffix(_BY_INDEX)


def _difference(found: Contents, wanted: Contents) -> str:
    places = [place for place in {**found, **wanted} if found.get(place) != wanted.get(place)]
    shown = [(place, found.get(place), wanted.get(place)) for place in places[:SHOWN_MAX]]
    return f"{len(places)} rows of {len(wanted)} differ (place, told, committed): {shown}"
