"""What users say of an index: by what it finds the rows of a key-value store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from hashlib import blake2b
from types import CodeType, MappingProxyType
from typing import Any, Final

__all__ = [
    "NOTHING_KNOWN",
    "Index",
    "KnownRows",
    "Line",
    "Lines",
    "NamedIndexes",
    "index_table",
    "indexes_digest",
]

NamedIndexes = tuple[tuple[str, "Index"], ...]
"""The indexes of a store, each with its name."""

Line = tuple[bytes, bytes]
"""A line of an index, as its table holds it; see ``kinds/indexing.py``."""

Lines = tuple[Line, ...]

_TABLE = "#index"

_PLAIN = (bool, int, float, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a key-value store, by something that is taken from each value.

    Attributes:
        of: A function of the value, or a path of names: ``"address.city"`` takes an attribute or a
            dict's entry at each step, and None where there is none. The result is what
            `mustela.stores.ordered_bytes` takes; a function gives the same for the same value.
        unique: Refuse a second key for an entry, within a key group: rows that were written for
            records of one key are always compared, others only if they share the key group.
        none: Whether rows with None are in the index; otherwise they are left out.

    Example:
        >>> Index("address.city").entry({"address": {"city": "Rome"}})
        'Rome'
        >>> Index("address.city").entry({"address": None}) is None
        True
        >>> Index(len, unique=True).entry("pear")
        4
    """

    of: Callable[[Any], Any] | str
    _: KW_ONLY
    unique: bool = False
    none: bool = False

    def entry(self, value: Any) -> Any:
        """Return what the index has for a value."""
        if not isinstance(self.of, str):
            return self.of(value)
        for name in self.of.split("."):
            value = _step(value, name)
            if value is None:
                return None
        return value

    def told(self) -> str:
        """Return the options in words, without the function."""
        path = [repr(self.of)] if isinstance(self.of, str) else []
        flags = [name for name in ("unique", "none") if getattr(self, name)]
        return " ".join([*path, *flags])


@dataclass(frozen=True, slots=True)
class KnownRows:
    """What an epoch knows of the rows that it changes, so that nobody finds it out again.

    Attributes:
        before: Rows as they were before the epoch, of some keys.
        lines: The lines of rows as they are now, of some keys.
    """

    before: Mapping[bytes, bytes | None] = field(default_factory=dict[bytes, "bytes | None"])
    lines: Mapping[bytes, Lines] = field(default_factory=dict[bytes, Lines])


NOTHING_KNOWN: Final[Mapping[str, KnownRows]] = MappingProxyType({})
"""By store: nothing."""


def index_table(store: str) -> str:
    """Return the name of the table with a store's lines; no store has such a name."""
    return store + _TABLE


def indexes_digest(indexes: NamedIndexes, *facts: object) -> str:
    """Return a digest that changes with what an index has for values, as far as can be seen.

    Args:
        indexes: The indexes.
        facts: What else they depend on.

    Example:
        >>> one, other = (indexes_digest((("size", Index(fn)),)) for fn in (len, str.upper))
        >>> one == other
        False
    """
    said = [(name, index.told(), *_told(index.of)) for name, index in indexes]
    return blake2b(repr((said, facts)).encode(), digest_size=8).hexdigest()


def _step(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _told(function: object) -> Iterable[object]:
    """Return what a function does: its code, its constants, and the plain values that it holds."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return [getattr(function, "__qualname__", type(function).__qualname__)]
    held = [
        getattr(cell, "cell_contents", None) for cell in getattr(function, "__closure__", ()) or ()
    ]
    held += getattr(function, "__defaults__", None) or ()
    return [*_code(code), *(repr(one) for one in held if isinstance(one, _PLAIN))]


def _code(code: CodeType) -> list[object]:
    consts = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return [code.co_code.hex(), code.co_names, consts]
