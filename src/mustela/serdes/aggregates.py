"""What a declared aggregate keeps in its store, and what a reader of the store sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

import msgspec

from mustela.serdes.base import Serde, SerdeError, SerdePlace
from mustela.serdes.values import ValueSerde

__all__ = ["Cells", "CellsSerde", "Holding"]

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})

Holding = Literal["plain", "entry", "entries"]
"""What a cell holds: a plain value, or one or several pairs of which the second part is a whole
value of the stream."""

Cells = list[Any]
"""The state of an aggregate: a cell for each thing that is kept."""


class CellsSerde(Serde[Cells]):
    """The cells of an aggregate; whole values inside have the bytes of the stream's own serde.

    Args:
        layout: What the cells are: part of the name, because bytes of other cells mean something
            else.
        holding: What each cell holds.
        value: The stream's serde; None for one that keeps Python's types.
        rows: Makes from cells what readers of the store see.

    Example:
        >>> serde = CellsSerde(("count", "total amount"), ("plain", "plain"), None, tuple)
        >>> serde.deserialize(serde.serialize([2, 5]))
        [2, 5]
        >>> serde.reader.deserialize(serde.serialize([2, 5]))
        (2, 5)
    """

    def __init__(
        self,
        layout: tuple[str, ...],
        holding: tuple[Holding, ...],
        value: Serde[Any] | None,
        rows: Callable[[Cells], Any],
    ) -> None:
        self._layout = layout
        self._holding = holding
        self._value = value
        self._rows = rows
        self._plain = value is None or set(holding) == {"plain"}
        self._bytes = ValueSerde()
        whole = "" if self._plain or value is None else f" of {value.name}"
        self.name = f"aggregate:1:{','.join(layout)}{whole}"
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments."""
        return CellsSerde, (self._layout, self._holding, self._value, self._rows)

    def bound(self, place: SerdePlace, registry: Mapping[str, str]) -> Serde[Cells]:
        """Return the serde with the stream's serde bound to a place."""
        value = None if self._value is None else self._value.bound(place, registry)
        if value is self._value:
            return self
        return CellsSerde(self._layout, self._holding, value, self._rows)

    @property
    def reader(self) -> Serde[Any]:
        """The same bytes, as rows: what queries of the store see."""
        return _RowsOfCells(self, self._rows)

    def serialize(self, value: Cells | None) -> bytes | None:
        """Return the bytes of the cells."""
        if value is None or self._plain:
            return self._bytes.serialize(value)
        assert self._value is not None
        return self._bytes.serialize(self._changed(value, self._value.serialize))

    def deserialize(self, data: bytes | None) -> Cells | None:
        """Return the cells of some bytes."""
        cells = self._bytes.deserialize(data)
        if cells is None or self._plain:
            return cells
        assert self._value is not None
        return self._changed(cells, self._value.deserialize)

    def serialize_many(self, values: Sequence[Cells | None]) -> list[bytes | None]:
        """Serialize a list of cells, plain ones all at once."""
        if not self._plain:
            return super().serialize_many(values)
        try:
            return [
                _ENCODE(cells) if cells is not None and _is_simple(cells) else self.serialize(cells)
                for cells in values
            ]
        except (OverflowError, SerdeError):
            return super().serialize_many(values)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Cells | None]:
        """Deserialize a list of cells."""
        return self._bytes.deserialize_many(data) if self._plain else super().deserialize_many(data)

    def _changed(self, cells: Cells, change: Callable[[Any], Any]) -> Cells:
        changed: Cells = []
        for cell, holding in zip(cells, self._holding, strict=True):
            if cell is None or holding == "plain":
                changed.append(cell)
            elif holding == "entry":
                changed.append([cell[0], change(cell[1])])
            else:
                changed.append([[rank, change(value)] for rank, value in cell])
        return changed


def _is_simple(value: Any) -> bool:
    """Say whether MessagePack returns a value unchanged; `ValueSerde` has the same bytes."""
    cls = value.__class__
    if cls is dict:
        return _SCALARS.issuperset(map(type, value)) and _SCALARS.issuperset(
            map(type, value.values())
        )
    if cls is not list:
        return cls in _SCALARS
    return all(item.__class__ in _SCALARS or _is_simple(item) for item in value)


class _RowsOfCells(Serde[Any]):
    """Reads cells as rows, and cannot write them."""

    def __init__(self, cells: CellsSerde, rows: Callable[[Cells], Any]) -> None:
        self._cells = cells
        self._rows = rows
        self.name = cells.name
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments."""
        return _RowsOfCells, (self._cells, self._rows)

    def serialize(self, value: Any) -> NoReturn:
        """Refuse: a row does not show from what it was made."""
        msg = "only its own step may write the rows of an aggregation"
        raise SerdeError(
            msg,
            fix="keep what the processor writes in a separate store",
            fields={"serde": self.name, "data": value},
        )

    def deserialize(self, data: bytes | None) -> Any:
        """Return the row of some bytes."""
        cells = self._cells.deserialize(data)
        return None if cells is None else self._rows(cells)
