"""Rows written as a table: the input of tests, and their expected output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, NamedTuple, cast

from mustela.model import Headers, Record, Windowed
from mustela.serdes.base import Serde
from mustela.serdes.text import fields_from_text, from_text, to_text
from mustela.testing.faults import TableError
from mustela.testing.times import to_milliseconds

__all__ = ["Table", "difference", "records_of", "table"]

_BORDER = re.compile(r"[\s|:+-]*")
_BAR = re.compile(r"(?<!\\)\|")
_HEADER = "header."
_KEY = "key."
_OWN = ("key", "time", "value")
_WINDOW = ("start", "end")

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text.

    Attributes:
        columns: The names of the columns, from left to right.
        rows: The cells of each row; None is null.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Written(NamedTuple):
    """A record described by a row; without a timestamp it gets the topic's time."""

    key: Any
    value: Any
    timestamp: int | None
    headers: Headers


def table(text: str) -> Table:
    r"""Read a table: a line of column names, then a line for each row, with cells between bars.

    A bar at the end of a line is a border if the line also begins with one; lines that only draw
    borders are ignored. An empty cell and ``null`` are null; text in double quotes is JSON, so
    ``""`` is the empty string. A bar inside a cell is written ``\|``.

    Raises:
        TableError: If a row has more or fewer cells than there are columns, or there are none.

    Example:
        >>> table('''
        ...     key | amount
        ...     ann | 3
        ... ''')
        Table(columns=('key', 'amount'), rows=(('ann', '3'),))
    """
    lines = [line.strip() for line in text.splitlines() if not _BORDER.fullmatch(line)]
    if not lines:
        msg = "the table is empty"
        raise TableError(msg, fix="begin with a line of column names")
    columns, *rows = [_cells(line) for line in lines]
    if len(set(columns)) < len(columns):
        msg = f"two columns of the table have the same name: {' | '.join(columns)}"
        raise TableError(msg, fix="rename one of them")
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            msg = f"row {number} of the table has {len(row)} cells in {len(columns)} columns"
            evidence = {"columns": " | ".join(columns), "row": " | ".join(row)}
            raise TableError(msg, evidence=evidence, fix=r"write a bar inside a cell as \|")
    nulls = [tuple(None if cell in ("", "null") else cell for cell in row) for row in rows]
    return Table(tuple(columns), tuple(nulls))


def records_of(written: Table, key: Serde[Any], value: Serde[Any]) -> Iterator[Written]:
    """Yield the record of each row.

    Args:
        written: The table.
        key: Serde of the topic's keys.
        value: Serde of its values.

    Raises:
        TableError: If a cell is not a value of its column's type.
    """
    for number, cells in enumerate(written.rows, 1):
        row = dict(zip(written.columns, cells, strict=True))
        headers = [
            (name.removeprefix(_HEADER), b"" if cell is None else cell.encode())
            for name, cell in row.items()
            if name.startswith(_HEADER)
        ]
        of_key = {name.removeprefix(_KEY): c for name, c in row.items() if name.startswith(_KEY)}
        fields = {
            n: c for n, c in row.items() if not n.startswith((_HEADER, _KEY)) and n not in _OWN
        }
        yield Written(
            key=_part(number, "key", row, of_key, key),
            value=_part(number, "value", row, fields, value),
            timestamp=_moment(number, row.get("time")),
            headers=tuple(headers),
        )


def difference(
    expected: Table, found: Sequence[Record[Any, Any]], *, in_any_order: bool
) -> str | None:
    """Return the difference between expected and actual records as a table, None if there is none.

    Args:
        expected: The table that a test expects.
        found: The records written.
        in_any_order: Whether the order of rows does not matter.
    """
    wanted = [(_canonical(row), row) for row in expected.rows]
    texts = [tuple(_text(record, name) for name in expected.columns) for record in found]
    got = [(_canonical(row), row) for row in texts]
    if in_any_order:
        wanted, got = sorted(wanted, key=_first), sorted(got, key=_first)
    left, right = list(map(_first, wanted)), list(map(_first, got))
    if left == right:
        return None
    lines: list[tuple[str, Row]] = []
    for kind, low, high, start, end in SequenceMatcher(None, left, right, False).get_opcodes():
        if kind == "equal":
            lines += [(" ", row) for _, row in got[start:end]]
        else:
            lines += [("-", row) for _, row in wanted[low:high]]
            lines += [("+", row) for _, row in got[start:end]]
    return drawn(expected.columns, lines)


def drawn(columns: Sequence[str], lines: Sequence[tuple[str, Row]]) -> str:
    """Return rows as a table, each preceded by a mark.

    Example:
        >>> print(drawn(("key", "value"), [("-", ("ann", "3")), ("+", ("ann", "14"))]))
          key | value
        - ann | 3
        + ann | 14
    """
    rows = [(" ", tuple(columns)), *lines]
    texts = [(mark, ["" if cell is None else cell for cell in row]) for mark, row in rows]
    widths = [max(len(row[at]) for _, row in texts) for at in range(len(columns))]
    return "\n".join(
        f"{mark} {' | '.join(map(str.ljust, row, widths))}".rstrip() for mark, row in texts
    )


def _cells(line: str) -> list[str]:
    inner = line.removeprefix("|")
    if inner != line and inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(inner)]


def _part(
    number: int,
    what: str,
    row: Mapping[str, str | None],
    fields: Mapping[str, str | None],
    serde: Serde[Any],
) -> Any:
    """Return a key or a value, from one cell or from the cells of its fields."""
    whole = row.get(what)
    if fields and what in row:
        msg = f"the table has a column {what!r} and fields of the {what}: {', '.join(fields)}"
        raise TableError(msg, fix=f"write the {what} in one column, or one column for each field")
    try:
        if whole is not None:
            return from_text(whole, serde)
        if all(cell is None for cell in fields.values()):
            return None
        return fields_from_text(fields, serde)
    except ValueError as error:
        shown = whole if whole is not None else dict(fields)
        msg = f"row {number} of the table: {shown!r} is no {what} of type {serde.name}: {error}"
        raise TableError(
            msg, fix="correct the cell, or pass the type to create_input_topic"
        ) from None


def _moment(number: int, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text) if text.isdigit() else to_milliseconds(datetime.fromisoformat(text))
    except ValueError:
        msg = f"row {number} of the table: {text!r} is no point in time"
        fix = "write milliseconds since 1970, or 2026-01-31T12:00:00Z"
        raise TableError(msg, fix=fix) from None


def _text(record: Record[Any, Any], column: str) -> str | None:
    """Return a record's content for a column, as text."""
    key: Any = record.key
    value: Any = record.value
    inner = cast("Any", key[0] if isinstance(key, Windowed) else key)
    if column == "time":
        return str(record.timestamp)
    if column == "key":
        found = inner
    elif column == "value":
        found = value
    elif column.startswith(_HEADER):
        name = column.removeprefix(_HEADER)
        found = next((value for header, value in reversed(record.headers) if header == name), None)
    elif column.startswith(_KEY):
        found = _field(inner, column.removeprefix(_KEY))
    elif isinstance(key, Windowed) and column in _WINDOW:
        found = _field(key, column)
    else:
        found = None if value is None else _field(value, column)
    return None if found is None else to_text(found)


def _field(whole: Any, name: str) -> Any:
    if isinstance(whole, Mapping):
        return whole.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    try:
        return getattr(whole, name)
    except AttributeError:
        msg = f"{type(whole).__name__} has no field {name!r}"
        fix = "columns are key, value, time, header.NAME, key.FIELD, and fields of the value"
        raise TableError(msg, fix=fix) from None


def _canonical(row: Row) -> tuple[str, ...]:
    return tuple("" if cell is None else _same(cell) for cell in row)


def _same(cell: str) -> str:
    """Return a normal form that is the same for all ways to write a value."""
    try:
        value = json.loads(cell, parse_float=_number)
    except ValueError:
        return json.dumps(cell)
    return json.dumps(value, sort_keys=True)


def _number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


def _first(pair: tuple[tuple[str, ...], Row]) -> tuple[str, ...]:
    return pair[0]
