"""Files of exported rows: JSON lines, or Parquet.

A row has the same fields in both: ``key`` and ``value``, and what its store keeps beside them:
``timestamp``, ``start`` and ``end`` of a window or session, ``valid_to`` of a version, ``headers``.
In Parquet keys and values that are text, numbers, bools or bytes have columns of that type. All
others, and headers, are JSON texts, so that nothing that JSON has is lost; the metadata of a field
says which it is.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, cast

import msgspec

from mustela.errors import EnvironmentFault, UsageError
from mustela.serdes.plain_values import NOT_A_NUMBER, plain_float

__all__ = ["Form", "ParquetMissingError", "RowFile", "RowFileError", "form_of_file", "read_rows"]

Form = Literal["jsonl", "parquet"]

_TEXTS: Final = ("key", "value", "headers")
_COLUMNS: Final = {
    "str": "string",
    "int": "int64",
    "float": "float64",
    "bool": "bool_",
    "bytes": "binary",
}
"""Types of columns in Arrow, by the names of serdes."""
_HOW: Final = b"mustela"
_TIMES: Final = ("timestamp", "start", "end", "valid_to")
_BATCH: Final = 10_000
_LINE_MAX: Final = 64 << 20


class RowFileError(UsageError):
    """A file is not one of exported rows."""

    code = "STATE_FILE"


class ParquetMissingError(EnvironmentFault):
    """The library for Parquet is not installed."""

    code = "PARQUET_MISSING"


def form_of_file(name: str) -> Form:
    """Return how rows are written in a file, by its name.

    Raises:
        RowFileError: If the name does not tell.

    Example:
        >>> form_of_file("counts.parquet"), form_of_file("-")
        ('parquet', 'jsonl')
    """
    if name == "-" or name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    if name.endswith(".parquet"):
        return "parquet"
    msg = f"{name!r} does not say how rows are written"
    raise RowFileError(msg, fix="end its name in .jsonl or .parquet")


class RowFile(ABC):
    """A file to which rows are written."""

    @abstractmethod
    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows."""

    @abstractmethod
    def close(self) -> None:
        """End the file."""

    @classmethod
    @contextmanager
    def writing(
        cls, path: Path | None, form: Form, serdes: Mapping[str, str] | None = None
    ) -> Generator[RowFile]:
        """Give a file to write to.

        Args:
            path: The file; None for standard output.
            form: How rows are written.
            serdes: The names of the serdes of ``key`` and ``value``, as ``/stores`` has them.

        Raises:
            ParquetMissingError: If pyarrow is not installed.
            OSError: If the file cannot be written.
        """
        made: RowFile
        if path is None:
            made = _Lines(sys.stdout.buffer, closes=False)
        elif form == "jsonl":
            made = _Lines(path.open("wb"), closes=True)
        else:
            made = _Parquet(path, serdes or {})
        with closing(made):
            yield made


class _Lines(RowFile):
    def __init__(self, file: BinaryIO, *, closes: bool) -> None:
        self._file = file
        self._closes = closes

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            self._file.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        self._file.flush()
        if self._closes:
            self._file.close()


class _Parquet(RowFile):
    def __init__(self, path: Path, serdes: Mapping[str, str]) -> None:
        arrow, parquet = _libraries()
        self._arrow = arrow
        self._typed = {name: _COLUMNS.get(serdes.get(name, "")) for name in _TEXTS}
        fields = [
            arrow.field(
                name,
                getattr(arrow, kind or "string")(),
                metadata={_HOW: b"typed" if kind else b"json"},
            )
            for name, kind in self._typed.items()
        ]
        self._schema = arrow.schema([*fields, *((name, arrow.int64()) for name in _TIMES)])
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        if not rows:
            return
        columns: dict[str, list[Any]] = {
            name: [_stored(row[name], kind) if name in row else None for row in rows]
            for name, kind in self._typed.items()
        }
        columns |= {name: [row.get(name) for row in rows] for name in _TIMES}
        self._writer.write_table(self._arrow.Table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _stored(document: Any, kind: str | None) -> Any:
    """Return what a column of Parquet holds of a document."""
    if kind is None:
        return msgspec.json.encode(document).decode()
    if kind == "binary" and document is not None:
        return b64decode(document)
    if kind == "float64" and isinstance(document, str):
        return NOT_A_NUMBER[document]
    return document


def _document(stored: Any) -> Any:
    """Return the document of what a typed column holds."""
    if isinstance(stored, bytes):
        return b64encode(stored).decode("ascii")
    return plain_float(stored) if isinstance(stored, float) else stored


def _is_typed(field: Any) -> bool:
    """Return whether a column holds documents as they are, and not as JSON texts."""
    metadata: dict[bytes, bytes] = field.metadata or {}
    return metadata.get(_HOW) == b"typed"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, in its order.

    Raises:
        RowFileError: If it is none, or cannot be read.
        ParquetMissingError: If pyarrow is not installed.
    """
    form = form_of_file(path.name)
    try:
        yield from _parquet_rows(path) if form == "parquet" else _line_rows(path)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise RowFileError(msg, fix="name a file of mustela state export") from error


def _line_rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LINE_MAX), b""), start=1):
            if not line.strip():
                continue
            try:
                row: Any = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                row = None
            if not isinstance(row, dict) or "key" not in row or "value" not in row:
                raise _no_row(path, f"line {number}")
            yield cast("dict[str, Any]", row)


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    arrow, parquet = _libraries()
    try:
        file = parquet.ParquetFile(path)
    except arrow.ArrowInvalid:
        raise _no_row(path, "the file") from None
    with file:
        if not {"key", "value"} <= {*file.schema_arrow.names}:
            raise _no_row(path, "the file")
        schema: Any = file.schema_arrow
        typed = {field.name for field in schema if _is_typed(field)}
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            for given in batch.to_pylist():
                number += 1
                row = {name: value for name, value in given.items() if value is not None}
                try:
                    for name in _TEXTS:
                        if name in typed:
                            row[name] = _document(given[name])
                        elif name in row:
                            row[name] = msgspec.json.decode(row[name])
                except (msgspec.DecodeError, TypeError, RecursionError):
                    raise _no_row(path, f"row {number}") from None
                yield row


def _no_row(path: Path, place: str) -> RowFileError:
    msg = f"{path}: {place} is no exported row, with key and value"
    return RowFileError(msg, fix="name a file of mustela state export")


def _libraries() -> tuple[Any, Any]:
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        msg = "Parquet files need pyarrow, which is not installed"
        fix = "pip install 'mustela[sql]', or name a file that ends in .jsonl"
        raise ParquetMissingError(msg, fix=fix) from error
    return pyarrow, parquet
