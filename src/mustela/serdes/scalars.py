"""Serdes of Decimals, dates, spans of time and enums: text that other programs can read."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from mustela.serdes.base import Serde, SerdeTypeError, bad_bytes, bad_value, type_name, wrong_type
from mustela.serdes.primitives import IntSerde, StrSerde

__all__ = ["DateSerde", "DatetimeSerde", "DecimalSerde", "EnumSerde", "TimedeltaSerde"]


class DecimalSerde(Serde[Decimal]):
    """Decimals as their text: ``1.50``.

    Args:
        equal: Write equal numbers as equal bytes, for keys: without trailing zeros, so that 1.50
            comes back as 1.5.

    Example:
        >>> DecimalSerde().serialize(Decimal("1.50"))
        b'1.50'
        >>> DecimalSerde(equal=True).serialize(Decimal("1.50"))
        b'1.5'
    """

    immutable = True

    def __init__(self, *, equal: bool = False) -> None:
        self.equal = equal
        self.name = "decimal:equal" if equal else "decimal"
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments."""
        return _decimals, (self.equal,)

    def serialize(self, value: Decimal | None) -> bytes | None:
        """Return the text of the number."""
        if value is None:
            return None
        if not isinstance(value, Decimal):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "Decimal", "Decimal(str(value))")
        return str(_shortest(value) if self.equal else value).encode()

    def deserialize(self, data: bytes | None) -> Decimal | None:
        """Return the number in the text."""
        if data is None:
            return None
        try:
            return Decimal(data.decode("ascii"))
        except (InvalidOperation, UnicodeDecodeError):
            raise bad_bytes(self, data, "it is not a decimal number") from None


def _shortest(value: Decimal) -> Decimal:
    """Return the number without trailing zeros; `Decimal.normalize` would round it."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return value
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:
        kept -= 1
    if digits[:kept] == (0,):
        return Decimal(0)
    return Decimal((sign, digits[:kept], exponent + len(digits) - kept))


class DateSerde(Serde[date]):
    """Dates as ``2026-01-31``: their bytes have the order of the days.

    Example:
        >>> DateSerde().serialize(date(2026, 1, 31))
        b'2026-01-31'
    """

    name = "date"
    immutable = True

    def serialize(self, value: date | None) -> bytes | None:
        """Return the date as ISO 8601 writes it."""
        if value is None:
            return None
        if not isinstance(value, date) or isinstance(value, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "date", "value.date(), or the serde of datetime")
        return value.isoformat().encode()

    def deserialize(self, data: bytes | None) -> date | None:
        """Return the date."""
        if data is None:
            return None
        try:
            return date.fromisoformat(data.decode("ascii"))
        except ValueError:
            raise bad_bytes(self, data, "a date is text such as 2026-01-31") from None


class DatetimeSerde(Serde[datetime]):
    """Moments as ``2026-01-31T12:00:00.000000Z``: their bytes have the order of time.

    A datetime with a time zone is written, and comes back, in UTC; one without a zone has no ``Z``
    and comes back without one. The two kinds cannot be compared, and neither can their bytes.

    Example:
        >>> DatetimeSerde().serialize(datetime(2026, 1, 31, 12, tzinfo=UTC))
        b'2026-01-31T12:00:00.000000Z'
    """

    name = "datetime"
    immutable = True

    def serialize(self, value: datetime | None) -> bytes | None:
        """Return the moment in ISO 8601, to the microsecond."""
        if value is None:
            return None
        if not isinstance(value, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "datetime", "datetime.combine(value, time()), or date")
        if value.utcoffset() is None:
            return value.replace(tzinfo=None).isoformat(timespec="microseconds").encode()
        try:
            utc = value.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            problem = "in UTC it is before year 1 or after year 9999"
            raise bad_value(self, value, problem, "keep it in range") from None
        return utc.isoformat(timespec="microseconds").encode() + b"Z"

    def deserialize(self, data: bytes | None) -> datetime | None:
        """Return the moment, in UTC if it was written with a zone."""
        if data is None:
            return None
        try:
            found = datetime.fromisoformat(data.decode("ascii"))
        except ValueError:
            problem = "a datetime is text such as 2026-01-31T12:00:00.000000Z"
            raise bad_bytes(self, data, problem) from None
        return found if found.tzinfo is None else found.astimezone(UTC)


class TimedeltaSerde(Serde[timedelta]):
    """Spans of time as ISO 8601 writes them: ``P1DT0.5S`` is a day and half a second.

    Example:
        >>> TimedeltaSerde().serialize(timedelta(days=1, milliseconds=500))
        b'P1DT0.5S'
    """

    name = "timedelta"
    immutable = True

    def serialize(self, value: timedelta | None) -> bytes | None:
        """Return the span in days and seconds."""
        if value is None:
            return None
        if not isinstance(value, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "timedelta", "timedelta(seconds=value)")
        return msgspec.json.encode(value)[1:-1]

    def deserialize(self, data: bytes | None) -> timedelta | None:
        """Return the span."""
        if data is None:
            return None
        try:
            return msgspec.json.decode(b'"' + data + b'"', type=timedelta)
        except msgspec.DecodeError:
            raise bad_bytes(self, data, "a time span is text such as P1DT0.5S") from None


class EnumSerde(Serde[Any]):
    """Members of an enum: strings and whole numbers by their value, others by their name.

    If all values are strings, the bytes are those of `StrSerde`; if all are whole numbers, those of
    `IntSerde`. So other programs read the same as without the enum.

    Args:
        cls: The enum.

    Example:
        >>> class Colour(enum.Enum):
        ...     RED = "red"
        >>> EnumSerde(Colour).serialize(Colour.RED)
        b'red'
    """

    immutable = True

    def __init__(self, cls: type[enum.Enum]) -> None:
        self.type = cls
        values: list[Any] = [member.value for member in cls]
        if not values:
            what = f"{type_name(cls)} has no members"
            raise SerdeTypeError(what, fix="give the enum a member for each possible value")
        self.by = _kind(values)
        self._inner: Serde[Any] = IntSerde() if self.by == "int" else StrSerde()
        self.name = f"enum:{self.by}:{cls.__qualname__}"
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments."""
        return EnumSerde, (self.type,)

    def __eq__(self, other: object) -> bool:
        """Compare by the enum; one that is sent to another process stays the same."""
        return (
            isinstance(other, EnumSerde)
            and other.name == self.name
            and other.type.__module__ == self.type.__module__
        )

    def __hash__(self) -> int:
        """Hash by name."""
        return hash(self.name)

    def serialize(self, value: Any) -> bytes | None:
        """Return the bytes of the member's value, or its name."""
        if value is None:
            return None
        if not isinstance(value, self.type):
            name = type_name(self.type)
            raise wrong_type(self, value, name, f"{name.rpartition('.')[2]}(value)")
        if self.by == "name":
            if value.name not in self.type.__members__:
                fix = "give the combination a name in the enum"
                raise bad_value(self, value, "it has no name", fix)
            return self._inner.serialize(value.name)
        return self._inner.serialize(_plain(value.value))

    def deserialize(self, data: bytes | None) -> Any:
        """Return the member of the bytes."""
        if data is None:
            return None
        found = self._inner.deserialize(data)
        try:
            return self.type[str(found)] if self.by == "name" else self.type(found)
        except (KeyError, ValueError):
            problem = (
                f"{type_name(self.type)} has no such {'name' if self.by == 'name' else 'value'}"
            )
            raise bad_bytes(self, data, problem, "add the member to the enum again") from None


def _kind(values: list[Any]) -> str:
    """Return how members are written: ``str``, ``int`` or ``name``."""
    if all(isinstance(value, str) for value in values):
        return "str"
    whole = all(
        isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63 for v in values
    )
    return "int" if whole else "name"


def _plain(value: Any) -> Any:
    """Return the plain value, also for a subclass of int or str."""
    return str.__str__(value) if isinstance(value, str) else int(value)


def _decimals(equal: bool) -> DecimalSerde:
    return DecimalSerde(equal=equal)
