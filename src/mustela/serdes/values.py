"""The serde of store values without a declared one: msgpack that keeps every type exactly.

Format 1. Plain msgpack for None, bool, int of 64 bits, float, str, bytes, list, and dicts with such
scalars as keys. Everything else is a msgpack extension with a code from below and a body that is
msgpack again. Codes are on disk and in changelogs: add new ones, but never reuse one.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

from mustela.model import Windowed
from mustela.serdes import moments
from mustela.serdes.base import Serde, SerdeError, SerdeTypeError, bad_bytes, type_name
from mustela.serdes.objects import field_values, rebuild
from mustela.serdes.shape import classes_within, is_class_by_path, is_class_with_fields

__all__ = ["ValueSerde", "holds"]

_TUPLE, _SET, _FROZENSET, _PAIRS, _BIG_INT, _BYTEARRAY, _DEQUE = range(1, 8)
_ORDERED_DICT, _DEFAULT_DICT, _COUNTER = range(8, 11)
_DECIMAL, _UUID, _DATETIME, _DATE, _TIME, _TIMEDELTA = range(11, 17)
_OBJECT, _ENUM = range(17, 19)

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_WITHOUT_INT = _SCALARS - {int}
_PLAIN = _SCALARS - {type(None)}
_FACTORIES: MappingProxyType[str, Any] = MappingProxyType(
    {cls.__name__: cls for cls in (int, float, str, list, dict, set, tuple, bytes, bool)}
)
_FIX = (
    "declare the type where the values are made, as in map_values(…, value=…), or a serde for the"
    " store: Materialized(value=…)"
)
_KEY_FIX = (
    "declare the type of the keys where they are made: select_key(…, key=…) or group_by(…, key=…)"
)
_WINDOWED_FIX = (
    "declare a serde for the keys where they are made, with the type of the keys inside:"
    " group_by(…, key=WindowedSerde(str, window_size=…)) or key=SessionWindowedSerde(str)"
)
_FAILURES = (TypeError, ValueError, OverflowError, AttributeError)
# Bytes of unknown origin may name a time zone that is a directory, or a number out of range.
_READ_FAILURES = (msgspec.DecodeError, ArithmeticError, LookupError, OSError, *_FAILURES)


class _Unencodable(TypeError):
    """A value inside the value has no encoding; the message says why."""


class ValueSerde(Serde[Any]):
    """Any value of Python's common types, returned with its exact types, never by pickle.

    Tuples, sets, Decimals, dates, UUIDs, big integers, dicts with keys of any kind, Counter,
    defaultdict, OrderedDict and deque come back as what they were, also when nested. Dataclasses,
    Structs, NamedTuples and enums are stored as their class's path and their fields; only the
    classes given here, and those that their fields name, are ever made from bytes.

    Args:
        classes: Classes whose values may be stored.
        sort_keys: Write dicts in sorted order, so that equal values have equal bytes; for keys.

    Example:
        >>> serde = ValueSerde()
        >>> serde.deserialize(serde.serialize({"seen": {1, 2}, ("a", 1): Decimal("1.50")}))
        {'seen': {1, 2}, ('a', 1): Decimal('1.50')}
    """

    name = "value:1"
    immutable = False

    def __init__(self, classes: Iterable[Any] = (), *, sort_keys: bool = False) -> None:
        self.classes = tuple(classes)
        self.sort_keys = sort_keys
        if sort_keys:
            self.name = "value:1:sorted"
        self._by_path = _by_path(self.classes)
        self._by_name = _by_name(self._by_path.values())
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(ext_hook=self._raise_up).decode
        self._scalars = _SCALARS
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments, not the encoders."""
        return _rebuild_serde, (self.classes, self.sort_keys)

    def __eq__(self, other: object) -> bool:
        """Compare by the classes that may be stored."""
        return (
            isinstance(other, ValueSerde)
            and other.name == self.name
            and other._by_path.keys() == self._by_path.keys()
        )

    def __hash__(self) -> int:
        """Hash by name and classes."""
        return hash((self.name, frozenset(self._by_path)))

    # -- to bytes -----------------------------------------------------------------------------

    def serialize(self, value: Any) -> bytes | None:
        """Return the bytes of a value; an error names the place inside the value."""
        if value is None:
            return None
        try:
            return self._encode(self._lower(value))
        except OverflowError:
            pass
        except RecursionError:
            raise _too_deep(value) from None
        except _FAILURES as error:
            self._fail(value, error)
        # Integers of more than 64 bits are rare, so they are searched for only now.
        slow = ValueSerde(self.classes, sort_keys=self.sort_keys)
        object.__setattr__(slow, "_scalars", _WITHOUT_INT)
        try:
            return slow._encode(slow._lower(value))
        except RecursionError:
            raise _too_deep(value) from None
        except _FAILURES as error:
            slow._fail(value, error)

    def serialize_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Serialize a list of values."""
        encode, one = self._encode, self.serialize
        try:
            return [encode(v) if v.__class__ in _PLAIN else one(v) for v in values]
        except OverflowError:
            return super().serialize_many(values)
        except (SerdeError, *_FAILURES) as error:
            self._raise_at(one, values, error)

    def _lower(self, value: Any) -> Any:
        """Turn a value into types that msgpack knows, extensions included."""
        cls = value.__class__
        scalars, lower = self._scalars, self._lower
        if cls in scalars:
            return value
        if cls is list:
            return [item if item.__class__ in scalars else lower(item) for item in value]
        if cls is dict:
            return self._lower_dict(value)
        handler = _LOWER.get(cls)
        if handler is not None:
            return handler(self, value)
        if is_class_by_path(cls):
            return self._lower_object(value)
        raise _unencodable(value)

    def _lower_dict(self, value: dict[Any, Any]) -> Any:
        scalars, lower = self._scalars, self._lower
        for key in value:
            if key.__class__ not in scalars:
                return Ext(_PAIRS, self._pairs(value))
        if self.sort_keys:
            value = dict(sorted(value.items(), key=lambda item: self._encode(item[0])))
        return {
            key: item if item.__class__ in scalars else lower(item) for key, item in value.items()
        }

    def _pairs(self, value: dict[Any, Any]) -> bytes:
        lower = self._lower
        pairs = [[lower(key), lower(item)] for key, item in value.items()]
        if self.sort_keys:
            pairs.sort(key=lambda pair: self._encode(pair[0]))
        return self._encode(pairs)

    def _items(self, value: Iterable[Any]) -> bytes:
        scalars, lower = self._scalars, self._lower
        return self._encode([v if v.__class__ in scalars else lower(v) for v in value])

    def _sorted_items(self, value: Iterable[Any]) -> bytes:
        """Encode a set the same way in every process, whatever its hash order."""
        lower, encode = self._lower, self._encode
        return encode(sorted((lower(item) for item in value), key=encode))

    def _lower_default_dict(self, value: defaultdict[Any, Any]) -> Ext:
        factory = value.default_factory
        name = getattr(factory, "__name__", None)
        if factory is not None and _FACTORIES.get(name or "") is not factory:
            msg = f"a defaultdict with the factory {name or factory!r:.40}"
            raise _Unencodable(msg)
        return Ext(_DEFAULT_DICT, self._encode([name, Ext(_PAIRS, self._pairs(value))]))

    def _lower_object(self, value: Any) -> Ext:
        cls = value.__class__
        path = class_path(cls)
        if path not in self._by_path:
            msg = f"{path.replace(':', '.')} is not among the classes that the topology names"
            raise _Unencodable(msg)
        if isinstance(value, enum.Enum):
            name: Any = value.name if value.name in cls.__members__ else None
            body = [path, name] if name else [path, None, self._lower(value.value)]
            return Ext(_ENUM, self._encode(body))
        lower = self._lower
        fields = {name: lower(item) for name, item in field_values(value).items()}
        return Ext(_OBJECT, self._encode([path, fields]))

    def _fail(self, value: Any, error: Exception) -> NoReturn:
        path, inner, problem = self._culprit(value, str(error))
        what = f"a {'key' if self.sort_keys else 'store value'} has no encoding: {problem}"
        raise SerdeError(
            what,
            evidence={"at value": path, "of": _type_name(inner)} if path != "value" else None,
            why="values without a declared serde are stored by type, never by pickle",
            fix=self._fix(inner),
            fields={"serde": self.name, "data": value, "path": path},
        ) from None

    def _fix(self, culprit: Any) -> str:
        if not self.sort_keys:
            return _FIX
        return _WINDOWED_FIX if isinstance(culprit, Windowed) else _KEY_FIX

    def _culprit(self, value: Any, problem: str) -> tuple[str, Any, str]:
        """Find the innermost value that fails by itself."""
        path = "value"
        found = True
        while found:
            found = False
            for step, child in _children(value):
                try:
                    self._encode(self._lower(child))
                except (RecursionError, *_FAILURES) as error:
                    path, value, problem, found = path + step, child, str(error), True
                    break
        return path, value, problem

    # -- from bytes ---------------------------------------------------------------------------

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of the bytes."""
        if data is None:
            return None
        try:
            return self._decode(data)
        except RecursionError:
            raise bad_bytes(self, data, "nested too deeply") from None
        except _READ_FAILURES as error:
            raise bad_bytes(self, data, str(error), _FIX) from None

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """Deserialize a list of values."""
        decode = self._decode
        try:
            return [None if item is None else decode(item) for item in data]
        except (RecursionError, *_READ_FAILURES) as error:
            self._raise_at(self.deserialize, data, error)

    def _raise_up(self, code: int, data: memoryview) -> Any:
        handler = _RAISE.get(code)
        if handler is None:
            msg = f"extension {code} is unknown: written by a later version?"
            raise ValueError(msg)
        return handler(self, data)

    def _raise_default_dict(self, data: memoryview) -> Any:
        name, items = self._decode(data)
        return defaultdict(_FACTORIES[name] if name is not None else None, items)

    def _raise_deque(self, data: memoryview) -> deque[Any]:
        maxlen, items = self._decode(data)
        return deque(items, maxlen)

    def _raise_object(self, data: memoryview) -> Any:
        path, fields = self._decode(data)
        return rebuild(self._class_of(path), fields)

    def _raise_enum(self, data: memoryview) -> Any:
        path, name, *value = self._decode(data)
        cls = self._class_of(path)
        if not issubclass(cls, enum.Enum):
            msg = f"{path} is no longer an enum"
            raise ValueError(msg)
        return cls(value[0]) if name is None else cls[name]

    def _class_of(self, path: str) -> type[Any]:
        found = self._by_path.get(path) or self._by_name.get(path.partition(":")[2])
        if found is None:
            msg = f"{path.replace(':', '.')} is not among the classes that the topology names"
            raise ValueError(msg)
        return found


def _type_name(value: Any) -> str:
    return type_name(value.__class__)


def class_path(cls: Any) -> str:
    """Return the path that stands for a class in bytes.

    Example:
        >>> class_path(Decimal)
        'decimal:Decimal'
    """
    return f"{cls.__module__}:{cls.__qualname__}"


def holds(cls: type[Any]) -> bool:
    """Say whether values of exactly this class are kept without a declared serde.

    Example:
        >>> holds(Decimal), holds(enum.Enum)
        (True, False)
    """
    return cls in _SCALARS or cls in _LOWER


def _by_path(classes: Iterable[Any]) -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for spec in classes:
        for cls in classes_within(spec):
            twin = found.setdefault(class_path(cls), cls)
            if twin is not cls:
                what = f"two classes are called {type_name(cls)}"
                raise SerdeTypeError(what, fix="rename one of them, or declare serdes for both")
    return found


def _by_name(classes: Iterable[type[Any]]) -> dict[str, type[Any]]:
    """Return classes by name if that is unique: a script's module is ``__main__`` or its own."""
    listed = list(classes)
    counts = Counter(cls.__qualname__ for cls in listed)
    return {cls.__qualname__: cls for cls in listed if counts[cls.__qualname__] == 1}


def _unencodable(value: object) -> _Unencodable:
    cls = type(value)
    base = next((base for base in cls.__mro__[1:] if base in _SCALARS or base in _LOWER), None)
    told = f"a {type_name(cls)}"
    if base is not None:
        told += f", which would come back as {base.__name__}"
    elif hasattr(value, "item") and cls.__module__.startswith("numpy"):
        told += ", use its .item() or .tolist()"
    return _Unencodable(told)


def _too_deep(value: object) -> SerdeError:
    return SerdeError(
        "a store value has no encoding: it contains itself, or is nested too deeply",
        fix=_FIX,
        fields={"serde": ValueSerde.name, "data": value, "path": "value"},
    )


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    """Return what a value contains, each with its place."""
    if isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield f".key({type(key).__name__})", key  # pyright: ignore[reportUnknownArgumentType]
            shown = repr(key) if isinstance(key, int) or _is_plain_name(key) else "…"  # pyright: ignore[reportUnknownArgumentType]
            yield f"[{shown}]", item
    elif isinstance(value, set | frozenset):
        yield from (("{…}", item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    elif is_class_with_fields(value.__class__):
        yield from ((f".{name}", item) for name, item in field_values(value).items())
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def _is_plain_name(key: object) -> bool:
    return isinstance(key, str) and len(key) <= 40 and key.isidentifier()


def _rebuild_serde(classes: tuple[Any, ...], sort_keys: bool) -> ValueSerde:
    return ValueSerde(classes, sort_keys=sort_keys)


def _lower_int(_serde: ValueSerde, value: int) -> Any:
    if -(2**63) <= value < 2**64:
        return value
    size = value.bit_length() // 8 + 1
    return Ext(_BIG_INT, value.to_bytes(size, "big", signed=True))


# The class's own methods are private; these tables are the other half of ValueSerde.
# pyright: reportPrivateUsage=false
_LOWER: MappingProxyType[type[Any], Callable[[ValueSerde, Any], Any]] = MappingProxyType(
    {
        int: _lower_int,
        tuple: lambda s, v: Ext(_TUPLE, s._items(v)),
        set: lambda s, v: Ext(_SET, s._sorted_items(v)),
        frozenset: lambda s, v: Ext(_FROZENSET, s._sorted_items(v)),
        bytearray: lambda _s, v: Ext(_BYTEARRAY, bytes(v)),
        deque: lambda s, v: Ext(_DEQUE, s._encode([v.maxlen, Ext(_TUPLE, s._items(v))])),
        OrderedDict: lambda s, v: Ext(_ORDERED_DICT, s._pairs(v)),
        defaultdict: ValueSerde._lower_default_dict,
        Counter: lambda s, v: Ext(_COUNTER, s._pairs(v)),
        Decimal: lambda _s, v: Ext(_DECIMAL, str(v).encode()),
        UUID: lambda _s, v: Ext(_UUID, v.bytes),
        datetime: lambda s, v: Ext(_DATETIME, s._encode(moments.lower_datetime(v))),
        date: lambda s, v: Ext(_DATE, s._encode([v.year, v.month, v.day])),
        time: lambda s, v: Ext(_TIME, s._encode(moments.lower_time(v))),
        timedelta: lambda s, v: Ext(_TIMEDELTA, s._encode([v.days, v.seconds, v.microseconds])),
    }
)

_RAISE: MappingProxyType[int, Callable[[ValueSerde, memoryview], Any]] = MappingProxyType(
    {
        _TUPLE: lambda s, d: tuple(s._decode(d)),
        _SET: lambda s, d: set(s._decode(d)),
        _FROZENSET: lambda s, d: frozenset(s._decode(d)),
        _PAIRS: lambda s, d: dict(s._decode(d)),
        _BIG_INT: lambda _s, d: int.from_bytes(d, "big", signed=True),
        _BYTEARRAY: lambda _s, d: bytearray(d),
        _DEQUE: ValueSerde._raise_deque,
        _ORDERED_DICT: lambda s, d: OrderedDict(s._decode(d)),
        _DEFAULT_DICT: ValueSerde._raise_default_dict,
        _COUNTER: lambda s, d: Counter(dict(s._decode(d))),
        _DECIMAL: lambda _s, d: Decimal(str(d, "ascii")),
        _UUID: lambda _s, d: UUID(bytes=bytes(d)),
        _DATETIME: lambda s, d: moments.raise_datetime(s._decode(d)),
        _DATE: lambda s, d: date(*s._decode(d)),
        _TIME: lambda s, d: moments.raise_time(s._decode(d)),
        _TIMEDELTA: lambda s, d: timedelta(*s._decode(d)),
        _OBJECT: ValueSerde._raise_object,
        _ENUM: ValueSerde._raise_enum,
    }
)
