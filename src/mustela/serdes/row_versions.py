"""Values whose type changed between releases: rows that say their version.

A row of version 1 is written by its serde alone, as in a store without versions. A row of a later
version has a head: eight bytes with which no other row begins, and the version in two more. The
first of the eight is C1, with which no UTF-8, JSON or MessagePack begins; of numbers and other
bytes, one in 2^64 begins with all eight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mustela.serdes.base import Serde, SerdeError

__all__ = [
    "FIRST_VERSION",
    "ROW_MARK",
    "VERSION_MAX",
    "OldRows",
    "RowVersions",
    "UpgradingSerde",
    "version_of",
]

FIRST_VERSION: Final = 1
"""The version of rows without a head."""
VERSION_MAX: Final = 0xFFFF
ROW_MARK: Final = bytes.fromhex("c1098533da596876")
"""The beginning of a row's head."""

_HEAD_LENGTH: Final = len(ROW_MARK) + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRows:
    """Rows of an older version.

    Attributes:
        serde: Reads them.
        upgrade: Turns one of their values into one of the next version.
        back: Turns a value of the next version into one of theirs, if the program can.
    """

    serde: Serde[Any]
    upgrade: Callable[[Any], Any]
    back: Callable[[Any], Any] | None = None

    def __eq__(self, other: object) -> bool:
        """Compare what the bytes depend on; functions are different objects in each process."""
        return isinstance(other, OldRows) and self.serde == other.serde

    def __hash__(self) -> int:
        """Hash what `__eq__` compares."""
        return hash(self.serde)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersions:
    """The version of a store's rows, and how older ones are read.

    Attributes:
        version: The version of the program's values; new rows have it unless they are held.
        older: How rows of each older version are read, without gaps up to ``version``.
        held: The version before this one, if rows are still written in it; otherwise 0.
    """

    version: int
    older: Mapping[int, OldRows]
    held: int = 0

    def __post_init__(self) -> None:
        assert FIRST_VERSION < self.version <= VERSION_MAX, self.version
        assert list(self.older) == list(range(self.version - len(self.older), self.version))
        assert self.held in (0, self.version - 1), self.held

    @property
    def written(self) -> int:
        """The version in which rows are written."""
        return self.held or self.version

    def __hash__(self) -> int:
        """Hash by version."""
        return hash(self.version)


def version_of(row: bytes) -> int:
    r"""Return the version of a row.

    Example:
        >>> version_of(b"17"), version_of(ROW_MARK + b"\x00\x02" + b"18")
        (1, 2)
    """
    if row.startswith(ROW_MARK) and len(row) >= _HEAD_LENGTH:
        return int.from_bytes(row[len(ROW_MARK) : _HEAD_LENGTH], "big")
    return FIRST_VERSION


def _head_of(version: int) -> bytes:
    return b"" if version == FIRST_VERSION else ROW_MARK + version.to_bytes(2, "big")


class UpgradingSerde(Serde[Any]):
    """Writes rows of one version, and reads those of older ones as values of this one.

    Args:
        current: The serde of this version.
        versions: This version, and the older ones.

    Example:
        >>> from mustela.serdes.primitives import IntSerde, StrSerde
        >>> versions = RowVersions(version=2, older={1: OldRows(serde=StrSerde(), upgrade=int)})
        >>> serde = UpgradingSerde(IntSerde(), versions)
        >>> serde.deserialize_many([b"17", serde.serialize(18), None])
        [17, 18, None]
        >>> both_ways = RowVersions(
        ...     version=2, older={1: OldRows(serde=StrSerde(), upgrade=int, back=str)}, held=1)
        >>> UpgradingSerde(IntSerde(), both_ways).serialize(18)
        b'18'
    """

    def __init__(self, current: Serde[Any], versions: RowVersions) -> None:
        self.name = f"{current.name} in version {versions.version}"
        self.immutable = current.immutable
        self.current = current
        self.versions = versions
        self._head = _head_of(versions.version)
        self._held = versions.older[versions.held] if versions.held else None
        self._written_head = _head_of(versions.written)
        self.freeze()

    def serialize(self, value: Any) -> bytes | None:
        """Return the row of a value."""
        held = self._held
        if held is not None and value is not None:
            data = held.serde.serialize(self._taken_back(held, value))
        else:
            data = self.current.serialize(value)
        return None if data is None else self._written_head + data

    def serialize_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Return the rows of values."""
        head, held = self._written_head, self._held
        if held is None:
            rows = self.current.serialize_many(values)
        else:
            olds = [None if one is None else self._taken_back(held, one) for one in values]
            rows = held.serde.serialize_many(olds)
        return [None if row is None else head + row for row in rows]

    def _taken_back(self, held: OldRows, value: Any) -> Any:
        assert held.back is not None
        problem = "it returned None"
        try:
            old = held.back(value)
        except Exception as error:  # noqa: BLE001 - raised again with what it is about
            old, problem = None, f"{type(error).__name__}: {error}"
        if old is None:
            msg = f"a value could not be taken back to version {self.versions.held}: {problem}"
            raise SerdeError(
                msg,
                fix=f"fix the function back= of the upgrade from version {self.versions.held}, or"
                " set hold_format to false",
                fields={"serde": self.name, "version": self.versions.held},
            )
        return old

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of a row, whatever its version."""
        if data is None:
            return None
        if data.startswith(self._head):
            return self.current.deserialize(data[_HEAD_LENGTH:])
        return self._upgraded(data)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """Return the values of rows, whatever their versions."""
        head = self._head
        now = [row for row, item in enumerate(data) if item is None or item.startswith(head)]
        bodies = [None if (item := data[row]) is None else item[_HEAD_LENGTH:] for row in now]
        try:
            values = self.current.deserialize_many(bodies)
            return values if len(now) == len(data) else self._mixed(data, now, values)
        except Exception:  # noqa: BLE001 - raised again, row by row
            return super().deserialize_many(data)

    def _mixed(
        self, data: Sequence[bytes | None], now: Sequence[int], values: Sequence[Any]
    ) -> list[Any]:
        """Return the values of rows of which some are already known."""
        found: list[Any] = [None] * len(data)
        for row, value in zip(now, values, strict=True):
            found[row] = value
        for row in set(range(len(data))).difference(now):
            found[row] = self._upgraded(data[row] or b"")
        return found

    def _upgraded(self, data: bytes) -> Any:
        version = version_of(data)
        if version not in self.versions.older:
            raise self._unknown(version, data)
        body = data if version == FIRST_VERSION else data[_HEAD_LENGTH:]
        value = self.versions.older[version].serde.deserialize(body)
        for step in range(version, self.versions.version):
            upgrade = self.versions.older[step].upgrade
            try:
                value = upgrade(value)
            except Exception as error:
                raise self._failed(step, data, f"{type(error).__name__}: {error}") from error
            if value is None:
                raise self._failed(step, data, "it returned None")
        return value

    def _unknown(self, version: int, data: bytes) -> SerdeError:
        newest = self.versions.version
        return SerdeError(
            f"the row is of version {version}, but the program has version {newest} and no upgrade"
            f" from {version}",
            fix=f"run the program of version {version}, or a newer one"
            if version > newest
            else f"add the store's upgrade from version {version} again",
            fields={"serde": self.name, "data": data, "version": version},
        )

    def _failed(self, version: int, data: bytes, problem: str) -> SerdeError:
        return SerdeError(
            f"the upgrade of a row from version {version} failed: {problem}",
            fix=f"fix the function that upgrades version {version}",
            fields={"serde": self.name, "data": data, "version": version},
        )
