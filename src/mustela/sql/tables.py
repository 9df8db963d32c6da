"""A store as a table: its schema, and the batches of a scan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from mustela.queries.shown import StoreInfo
from mustela.queries.snapshot import Snapshot
from mustela.sql.bounds import Bound
from mustela.sql.columns import TABLE_KINDS, Column, Concealed, Part, columns_of, key_serde_of
from mustela.sql.errors import SqlValueError
from mustela.sql.libraries import arrow
from mustela.sql.ranges import Range, range_of, rows_in, usable_columns, versions_in

__all__ = ["StoreTable", "tables_of"]

_FIRST: Final = 256
_BATCH_MAX: Final = 8_192
"""Rows that are put into columns at once: few at first, as few may be wanted."""

_VERSIONS: Final = "_versions"
"""What the table of all versions has after the store's name."""

_BATCH_BYTES: Final = 4 << 20
"""A batch has fewer rows if those before were so large that it would take more bytes."""


def tables_of(snapshot: Snapshot, hidden: Concealed | None) -> dict[str, StoreTable]:
    """Return the tables of an application, by their names in lower case.

    Args:
        snapshot: What is shown.
        hidden: What must not be.
    """
    shown = [
        info
        for info in snapshot.stores()
        if info.spec.kind in TABLE_KINDS and not (hidden and hidden.is_hidden(info.name))
    ]
    wanted = [(info.name, info, False) for info in shown]
    wanted += [(f"{info.name}{_VERSIONS}", info, True) for info in shown if _has_versions(info)]
    found: dict[str, StoreTable] = {}
    for plain, info, versions in wanted:
        name, number = plain, 2
        while name.lower() in found:
            name, number = f"{plain}_{number}", number + 1
        found[name.lower()] = StoreTable(name, info, hidden, versions=versions)
    return found


def _has_versions(info: StoreInfo) -> bool:
    return info.spec.kind == "versioned"


class StoreTable:
    """A store as a table.

    Args:
        name: The table's name.
        info: The store.
        hidden: What must not be shown.
        versions: Whether it has all versions of a versioned store, and not the newest ones alone.
    """

    def __init__(
        self, name: str, info: StoreInfo, hidden: Concealed | None, *, versions: bool = False
    ) -> None:
        self.name: Final = name
        self._info = info
        self._versions = versions
        self.columns: Final[tuple[Column, ...]] = tuple(columns_of(info, hidden))
        self._by_name = {column.name: column for column in self.columns}
        self._parts = {column.name: column.part for column in self.columns}
        self._indexes = _indexes(info, self.columns)
        self.usable: Final = usable_columns(
            info.spec.kind, key_serde_of(info), self.columns, self._indexes
        )

    def schema(self, names: Sequence[str] | None = None) -> Any:
        """Return the schema of all columns, or of some.

        Raises:
            KeyError: If there is none of that name.
        """
        pa = arrow()
        columns = self.columns if names is None else [self._by_name[name] for name in names]
        return pa.schema([pa.field(column.name, column.form.type) for column in columns])

    def range(self, bounds: Sequence[Bound]) -> Range:
        """Return what the bounds of a scan leave to be read of the store."""
        known = [bound for bound in bounds if bound[0] in self.usable]
        window_ms = self._info.spec.window_ms if self._info.spec.kind == "window" else None
        return range_of(known, self._parts, self._indexes, window_ms)

    def batches(
        self,
        snapshot: Snapshot,
        names: Sequence[str],
        bounds: Sequence[Bound],
        only: Collection[int] | None = None,
    ) -> Iterator[Any]:
        """Yield rows of the store in Arrow's batches, made as they are asked for.

        Args:
            snapshot: What is shown.
            names: The columns.
            bounds: What the rows that are needed have in common; others may come too.
            only: The key groups that are read; None for all.

        Raises:
            SqlValueError: If a value does not fit its column.
        """
        info, parts = self._info, {self._parts[name] for name in names}
        timed, wanted = info.timestamps and Part.TIMESTAMP in parts, self.range(bounds)
        values = Part.VALUE in parts or wanted.index is not None or self._versions
        handle = snapshot.part_of(info.name, only, timestamps=timed, values=values)
        if self._versions:
            rows = versions_in(handle, wanted)
        else:
            rows = rows_in(handle, info.spec.kind, wanted)
        return self._batches(rows, [self._by_name[name] for name in names], timed=timed)

    def batches_of(self, found: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
        """Yield rows that were read of the store in Arrow's batches, made as they are asked for.

        Args:
            found: Keys, or keys in their windows, and what is shown of them, with timestamps if the
                store has them.

        Raises:
            SqlValueError: If a value does not fit its column.
        """
        return self._batches(found, self.columns, timed=self._info.timestamps)

    def _batches(
        self, found: Iterable[tuple[Any, Any]], columns: Sequence[Column], *, timed: bool
    ) -> Iterator[Any]:
        schema = self.schema([column.name for column in columns])
        takes = _takes(self._info.spec.kind, timed=timed)
        rows, size = iter(found), _FIRST
        while some := list(islice(rows, size)):
            batch = self._batch(schema, columns, takes, some)
            yield batch
            fitting = _BATCH_BYTES * len(some) // max(1, batch.nbytes)
            size = max(1, min(size * 2, _BATCH_MAX, fitting))

    def _batch(
        self,
        schema: Any,
        columns: Sequence[Column],
        takes: Mapping[Part, Callable[[Any], Any]],
        rows: list[Any],
    ) -> Any:
        pa = arrow()
        parts = {part: list(map(takes[part], rows)) for part in {each.part for each in columns}}
        arrays: list[Any] = []
        for column, field in zip(columns, schema, strict=True):
            try:
                arrays.append(pa.array(_cells(column, parts[column.part]), type=field.type))
            except (pa.ArrowException, TypeError, ValueError, ArithmeticError, AttributeError):
                raise self._unfit(column) from None
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.nulls(len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _unfit(self, column: Column) -> SqlValueError:
        kind = column.form.type
        msg = f"a value of column {column.name} of table {self.name} is not of type {kind}"
        return SqlValueError(
            msg,
            why="a column has one type, that of the field as it is declared",
            fix=f"leave {column.name} out of the statement, or declare the type of what is written",
            fields={"table": self.name, "column": column.name},
        )


def _indexes(info: StoreInfo, columns: Sequence[Column]) -> dict[str, str]:
    """Return the indexes by the columns that they are of: those that are made by a field's name."""
    of = {
        column.attribute: column
        for column in columns
        if column.part is Part.VALUE and column.attribute and column.take is not None
    }
    pa = arrow()
    found: dict[str, str] = {}
    for name, index in getattr(info.spec, "indexes", ()) or ():
        column = of.get(index.of) if isinstance(index.of, str) else None
        form = None if column is None else column.form
        if column and form and form.convert is None and form.type in (pa.string(), pa.int64()):
            found[column.name] = name
    return found


def _takes(kind: str, *, timed: bool) -> Mapping[Part, Callable[[Any], Any]]:
    """Return what takes the parts out of a row."""
    windowed = kind in ("window", "session")
    wrapped = timed or kind == "versioned"
    return {
        Part.KEY: (lambda row: row[0].key) if windowed else itemgetter(0),
        Part.START: lambda row: row[0].start,
        Part.END: lambda row: row[0].end,
        Part.TIMESTAMP: lambda row: row[1].timestamp,
        Part.VALID_TO: lambda row: row[1].valid_to,
        Part.VALUE: (lambda row: row[1].value) if wrapped else itemgetter(1),
    }


def _cells(column: Column, parts: list[Any]) -> list[Any]:
    """Return what Arrow takes of a column, from the parts of rows that it is in."""
    take, convert = column.take, column.form.convert
    if take is not None:
        parts = [None if each is None else take(each) for each in parts]
    if convert is not None:
        parts = [None if each is None else convert(each) for each in parts]
    return parts
