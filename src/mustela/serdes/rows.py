"""Records that the library makes itself, with fields named by the user."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mustela.model import Windowed
from mustela.serdes.base import Serde, bad_value, type_name
from mustela.serdes.structs import StructSerde

__all__ = ["Row", "RowMaker", "RowSerde", "flat_row"]

_PLAIN = (type(None), bool, int, float, str)


class Row(msgspec.Struct, frozen=True):
    """A row that `aggregate` makes if no type of rows is given: the aggregates, by their names.

    A row has its fields as attributes, cannot be changed, equals another row with the same fields
    and values, and is a JSON object in topics.

    Example:
        >>> row = RowMaker(("total", "mean"), (int, float))(6, 1.5)
        >>> row.total, row
        (6, Row(total=6, mean=1.5))
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to make it: the class for a set of names is created in each process."""
        maker = type(self)._maker  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        return maker, tuple(getattr(self, name) for name in self.__struct_fields__)  # pyright: ignore[reportUnknownVariableType]


@lru_cache(maxsize=1_000)
def _row_class(names: tuple[str, ...], types: tuple[Any, ...]) -> type[Row]:
    fields = list(zip(names, types, strict=True))
    made = msgspec.defstruct("Row", fields, bases=(Row,), frozen=True, module=__name__)
    return cast("type[Row]", made)


class RowMaker:
    """Makes rows with given names; called with a value for each.

    Args:
        names: The fields.
        types: What they hold, ``Any`` if that is not known.
    """

    def __init__(self, names: tuple[str, ...], types: tuple[Any, ...]) -> None:
        self.names = names
        self.types = types
        self.row = _row_class(names, types)
        self.row._maker = self  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    def __call__(self, *values: Any) -> Row:
        """Return a row."""
        return self.row(*values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle names and types."""
        return RowMaker, (self.names, self.types)


class RowSerde(Serde[Row]):
    """Rows as JSON objects; a field without a known type must come back from JSON unchanged.

    Args:
        maker: What makes the rows.

    Example:
        >>> maker = RowMaker(("total",), (int,))
        >>> RowSerde(maker).serialize(maker(6))
        b'{"total":6}'
    """

    def __init__(self, maker: RowMaker) -> None:
        self._maker = maker
        self._json = StructSerde(maker.row)
        self._untyped = tuple(n for n, t in zip(maker.names, maker.types, strict=True) if t is Any)
        self.name = f"row:{','.join(maker.names)}"
        self.immutable = self._json.immutable
        self.freeze()

    @property
    def row(self) -> type[Row]:
        """The type of the rows."""
        return self._maker.row

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the row maker."""
        return RowSerde, (self._maker,)

    def serialize(self, value: Row | None) -> bytes | None:
        """Return the JSON text of a row."""
        if value is not None:
            self._check(value)
        return self._json.serialize(value)

    def _check(self, row: Row) -> None:
        for name in self._untyped:
            if odd := _odd(getattr(row, name, None)):
                raise bad_value(
                    self,
                    row,
                    f"field {name!r} holds a {odd}, which JSON cannot restore",
                    "name the type of the rows: aggregate(..., value=Totals), where Totals is a"
                    f" dataclass with {name}: {odd}",
                )

    def deserialize(self, data: bytes | None) -> Row | None:
        """Return the row of a JSON text."""
        return self._json.deserialize(data)


def flat_row(make: RowMaker, window: Windowed[Any], value: Any) -> tuple[Any, Row]:
    """Return the key inside a windowed key, and a row of key, start, end and value."""
    return window.key, make(window.key, window.start, window.end, value)


def _odd(value: Any) -> str | None:
    """Return the type of a part that JSON would return as something else."""
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return None
    if kind not in {dict, list}:
        return type_name(kind)
    inner: Iterable[Any] = value.values() if kind is dict else value
    return next((odd for item in inner if (odd := _odd(item))), None)
