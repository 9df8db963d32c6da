"""Exported rows into a store of a stopped application.

Rows are checked and sorted by key group on disk first, and carried by the bearers of a takeover: so
what is written is what the store's own operator would have written.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from struct import Struct
from typing import Any, Final, cast

from mustela.errors import MustelaError, UsageError
from mustela.model import Headers
from mustela.plan.plan import Plan
from mustela.queries.source import Edition, StorePlace
from mustela.runtime.takeover.bearers import Bearer, OldRow, bearer_of
from mustela.runtime.takeover.spill import Spill
from mustela.serdes.documents import DocumentForm, form_of
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot, StoreSpec
from mustela.state.kinds.layout import STREAM_TIME
from mustela.state.kinds.ttl import TtlView
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay, StoreOverlay
from mustela.topology.node import Node

__all__ = ["ImportRefusedError", "ImportedRowError", "Importing", "why_not_imported"]

_KINDS: Final = frozenset({"key_value", "timestamped_key_value", "window", "session", "versioned"})
_WINDOW: Final = Struct(">qI")
_SESSION: Final = Struct(">qq")
_NEEDS: Final = {
    "timestamped_key_value": ("timestamp",),
    "window": ("start",),
    "session": ("start", "end"),
    "versioned": ("timestamp",),
}

Rows = list[tuple[bytes, bytes | None]]


class ImportRefusedError(UsageError):
    """Rows cannot be imported into a store."""

    code = "STATE_IMPORT_REFUSED"


class ImportedRowError(UsageError):
    """A row is not one of the store."""

    code = "STATE_IMPORT_ROW"


def why_not_imported(spec: StoreSpec, node: Node) -> str:
    """Return why rows cannot be imported into a store; empty if they can."""
    if not spec.logged:
        return "it has no changelog"
    if spec.kind not in _KINDS or spec.own_kind is not None:
        return f"it is a {spec.kind} store, whose rows only its step knows"
    if spec.duplicates or spec.max_entries is not None:
        return "its rows have an order of their own, which an export does not have"
    if getattr(node, "emit", None) == "close":
        return "it also keeps which windows were passed on, which an export does not have"
    if (spec.value_serde or ValueSerde()).reader is not None:
        return "its rows hold more than what readers see, such as the parts of an average"
    return ""


def is_row(spec: StoreSpec, key: bytes) -> bool:
    """Return whether a stored key is that of a row, and not of what an operator notes beside them.

    Example:
        >>> is_row(StoreSpec(name="tens", kind="window"), STREAM_TIME)
        False
    """
    return (spec.traits.by_key and not spec.keeps_more) or not key.startswith(STREAM_TIME)


class Importing:
    """Rows for one store, checked and sorted by key group.

    Args:
        plan: The program.
        store: The store's name.
        key_groups: The number of key groups.
        now_ms: The time of rows without a time of their own.

    Raises:
        ImportRefusedError: If there is no such store, or rows cannot be imported into it.
    """

    def __init__(self, plan: Plan, store: str, key_groups: int, now_ms: int) -> None:
        if store not in plan.stores:
            msg = f"there is no store {store!r}"
            known = ", ".join(sorted(plan.stores)) or "none"
            raise ImportRefusedError(msg, fix=f"the program has these: {known}")
        self.stage, self.spec = plan.stores[store]
        node = next(node for node in plan.nodes if any(spec.name == store for spec in node.stores))
        beside = sorted(one.name for one in plan.stages[self.stage].stores if not one.logged)
        why = why_not_imported(self.spec, node)
        if beside and not why:
            why = f"it lives together with {', '.join(beside)}, whose rows are in no changelog"
        if why:
            msg = f"rows cannot be imported into store {store!r}"
            raise ImportRefusedError(
                msg, why=why, fix="let the application make them of its input: mustela reset"
            )
        self._bearer: Bearer = bearer_of(self.spec, node)
        self._spill = Spill(self._bearer, key_groups)
        self._groups = key_groups
        self._now_ms = now_ms
        self._key: DocumentForm = form_of(self._bearer.key_serde)
        self._value: DocumentForm = form_of(self.spec.read_serde)
        self._serde: Any = self.spec.rows_of(self.spec.value_serde or ValueSerde())
        self.count = 0

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take rows as an export has them.

        Raises:
            ImportedRowError: If one is not a row of the store.
        """
        self._spill.add(self._old_rows(rows))

    def close(self) -> None:
        """Delete what is on disk."""
        self._spill.close()

    def written(
        self, edition: Edition, place: StorePlace, *, merge: bool
    ) -> Iterator[tuple[int, Rows]]:
        """Yield the changelog rows of each key group.

        Args:
            edition: What is committed.
            place: Where the store is in it.
            merge: Whether rows that the import does not have stay; otherwise they are deleted.
        """
        for group in range(self._groups):
            with closing(edition.open(place.stage, group)) as before:
                view = self._filled(before, group, merge=merge)
                rows: Rows = list(view.logged(view.changes()))
                if not merge:
                    new = {key for key, _ in rows}
                    rows += [
                        (key, None)
                        for key, _ in before.range(self.spec.name, None, None)
                        if key not in new and is_row(self.spec, key)
                    ]
            if rows:
                yield group, rows

    def _filled(self, before: Snapshot, group: int, *, merge: bool) -> StoreOverlay:
        spec = self.spec
        base = before if merge else _empty(spec, group, self._groups)
        view = Overlay(base).store(spec.name)
        if not spec.keeps_more:
            self._bearer.fill(view, self._spill.rows(group))
            return view
        rows: Any = spec.traits.rows(view, spec)
        if isinstance(rows, TtlView):
            rows.clock.otherwise = lambda: self._now_ms
        self._bearer.fill(cast("Any", rows), self._spill.rows(group))
        return view

    def _old_rows(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[OldRow]:
        last, number = None, 0
        for row in rows:
            self.count += 1
            key, value = self._read(row)
            # A version's history is that of its key: each counts as a partition of its own.
            number += key != last
            last = key
            yield from self._of_kind(row, key, value, number)

    def _of_kind(
        self, row: Mapping[str, Any], key: bytes, value: bytes, number: int
    ) -> Iterator[OldRow]:
        kind, time = self.spec.kind, int(row.get("timestamp", -1))
        headers = self._headers(row)
        if kind == "window":
            stored = key + _WINDOW.pack(row["start"], 0)
            yield OldRow(stored, value, time, headers)
        elif kind == "session":
            stored = key + _SESSION.pack(row["end"], row["start"])
            yield OldRow(stored, value, int(row["end"]), headers)
        elif kind == "versioned":
            yield OldRow(key, value, time, (), number)
            if row.get("valid_to") is not None:
                yield OldRow(key, None, int(row["valid_to"]), (), number)
        else:
            yield OldRow(key, value, time, headers)

    def _read(self, row: Mapping[str, Any]) -> tuple[bytes, bytes]:
        try:
            for name in _NEEDS.get(self.spec.kind, ()):
                if type(row.get(name)) is not int:
                    msg = f"it has no {name} in milliseconds"
                    raise self._wrong(msg)
            key = self._bearer.key_serde.serialize(self._key.from_document(row["key"]))
            value = self._serde.serialize(self._value.from_document(row["value"]))
        except ImportedRowError:
            raise
        except MustelaError as error:
            raise self._wrong(error.what) from error
        if key is None or value is None:
            msg = "its key or value is null"
            raise self._wrong(msg)
        if self._value.to_document(self._serde.deserialize(value)) != row["value"]:
            msg = "its value is not what the store would show"
            raise self._wrong(msg)
        return key, value

    def _headers(self, row: Mapping[str, Any]) -> Headers:
        try:
            return tuple(
                (str(name), None if data is None else b64decode(data, validate=True))
                for name, data in row.get("headers", ())
            )
        except (ValueError, TypeError):
            msg = "its headers are not pairs of a name and base64"
            raise self._wrong(msg) from None

    def _wrong(self, problem: str) -> ImportedRowError:
        msg = f"row {self.count} is not one of store {self.spec.name!r}: {problem}"
        return ImportedRowError(
            msg,
            why="the store of the export has other types, or is of another kind",
            fix="import into the store that was exported, or change the rows of the file",
            fields={"row": self.count},
        )


def _empty(spec: StoreSpec, group: int, groups: int) -> Snapshot:
    place = EnvironmentSpec(
        application_id="import", stage="import", group=group, groups=groups, stores=(spec,)
    )
    return MemoryEnvironment(place).snapshot(Committed())
