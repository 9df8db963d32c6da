"""JSON for declared shapes: dataclasses, Structs, NamedTuples, TypedDicts and pydantic models."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, is_typeddict

import msgspec

from mustela.serdes.base import (
    Serde,
    SerdeError,
    SerdeTypeError,
    bad_bytes,
    bad_value,
    type_name,
    wrong_type,
)
from mustela.serdes.encoding import encode_each
from mustela.serdes.shape import (
    classes_within,
    field_types,
    is_attrs_class,
    is_class_with_fields,
    is_deeply_immutable,
)

__all__ = ["PydanticSerde", "StructSerde", "is_structured", "structured_serde"]

_CONTAINERS = (dict, list, tuple, set, frozenset)
_UNIONS = (Union, UnionType)
_ENCODE_FAILURES = (TypeError, ValueError, OverflowError, RecursionError)
_DECODE_FAILURES = (msgspec.DecodeError, ValueError, TypeError, RecursionError)


class _TypedSerde(Serde[Any]):
    """What the serdes of a declared type share."""

    def __init__(self, cls: Any, *, sort_keys: bool = False, verify: bool = True) -> None:
        self.type = cls
        self.sort_keys = sort_keys
        self.verify = verify
        self.runtime_type: type[Any] | tuple[type[Any], ...] = _runtime_type(cls)
        self._exact = frozenset(
            self.runtime_type if isinstance(self.runtime_type, tuple) else (self.runtime_type,)
        ) | {type(None)}
        shown = cls.__qualname__ if isinstance(cls, type) and not get_args(cls) else _shown(cls)
        self.name = f"json:{shown}:sorted" if sort_keys else f"json:{shown}"
        self.immutable = is_deeply_immutable(cls)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments, not the encoders."""
        return _rebuild, (type(self), self.type, self.sort_keys, self.verify)

    def __eq__(self, other: object) -> bool:
        """Compare by the declared type; a class that is sent to another process stays the same."""
        return (
            isinstance(other, _TypedSerde)
            and type(other) is type(self)
            and (other.name, other.verify) == (self.name, self.verify)
            and _identity(other.type) == _identity(self.type)
        )

    def __hash__(self) -> int:
        """Hash by name."""
        return hash((type(self), self.name))

    def _check_type(self, value: Any) -> None:
        if not isinstance(value, self.runtime_type):
            raise wrong_type(self, value, _shown(self.type))

    def _bad_value(self, value: Any, problem: str) -> SerdeError:
        fix = f"make the value match the fields of {_shown(self.type)}"
        return bad_value(self, value, problem, fix)


class StructSerde(_TypedSerde):
    """JSON of a class with fields, a TypedDict, a container like list[int], or a union.

    A class with fields is a dataclass, a ``msgspec.Struct``, an attrs class or a NamedTuple. The
    Structs of a union are distinguished by their tags.

    Args:
        cls: The declared type.
        sort_keys: Write dicts and sets inside in sorted order, for record keys.
        verify: Read each value back when it is written, so that a field of the wrong type fails at
            the step that made it, and not when a store or another program reads it.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     total: int
        >>> serde = StructSerde(Order)
        >>> serde.serialize(Order(30))
        b'{"total":30}'
        >>> serde.deserialize(b'{"total":30}').total
        30
    """

    def __init__(self, cls: Any, *, sort_keys: bool = False, verify: bool = True) -> None:
        super().__init__(cls, sort_keys=sort_keys, verify=verify)
        # attrs lists slots in the order of a set, which differs between processes.
        fields = "sorted" if any(map(_has_attrs_slots, classes_within(cls))) else "deterministic"
        encoder = msgspec.json.Encoder(order=fields if sort_keys else None)
        self._encode = encoder.encode
        self._encoder: msgspec.json.Encoder | None = encoder
        if sort_keys and _has_other_keys(cls):
            self._encode, self._encoder = _encode_in_two_steps, None
        try:
            self._decode = msgspec.json.Decoder(cls).decode
        except (TypeError, NameError) as error:
            what = f"{_shown(cls)} cannot be a serde: {error}"
            raise SerdeTypeError(what, fix=_fix(str(error))) from None
        _check_dict_keys(cls)
        _check_private(cls)
        self.freeze()

    def serialize(self, value: Any) -> bytes | None:
        """Return the JSON text of the value."""
        if value is None:
            return None
        self._check_type(value)
        try:
            data = self._encode(value)
        except _ENCODE_FAILURES as error:
            raise self._bad_value(value, str(error)) from None
        if self.verify:
            try:
                self._decode(data)
            except _DECODE_FAILURES as error:
                raise self._bad_value(value, str(error)) from None
        return data

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of the JSON text, checked against the type."""
        if data is None:
            return None
        try:
            return self._decode(data)
        except _DECODE_FAILURES as error:
            raise bad_bytes(self, data, str(error)) from None

    def serialize_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Serialize a list of values."""
        if not self._exact.issuperset(map(type, values)):
            return super().serialize_many(values)
        encode, decode = self._encode, self._decode
        try:
            if self._encoder is not None:
                data = encode_each(self._encoder, values)
            else:
                data = [None if value is None else encode(value) for value in values]
            if self.verify:
                for item in data:
                    if item is not None:
                        decode(item)
        except (*_ENCODE_FAILURES, msgspec.DecodeError) as error:
            self._raise_at(self.serialize, values, error)
        return data

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """Deserialize a list of values."""
        decode = self._decode
        try:
            return [None if item is None else decode(item) for item in data]
        except _DECODE_FAILURES as error:
            self._raise_at(self.deserialize, data, error)


class PydanticSerde(_TypedSerde):
    """JSON of a pydantic model or a pydantic dataclass, by pydantic's own rules.

    Example:
        >>> import pydantic
        >>> class Order(pydantic.BaseModel):
        ...     total: int
        >>> PydanticSerde(Order).serialize(Order(total=30))
        b'{"total":30}'
    """

    def __init__(self, cls: Any, *, sort_keys: bool = False, verify: bool = True) -> None:
        super().__init__(cls, sort_keys=sort_keys, verify=verify)
        # Not at the top of the file: workers without such models never load pydantic.
        from pydantic import TypeAdapter

        self._adapter: TypeAdapter[Any] = TypeAdapter(cls)
        self.freeze()

    def serialize(self, value: Any) -> bytes | None:
        """Return the JSON text of the model."""
        if value is None:
            return None
        self._check_type(value)
        try:
            data = self._adapter.dump_json(value, warnings="error", by_alias=True)
            if self.verify:
                self._adapter.validate_json(data)
        except _ENCODE_FAILURES as error:
            raise self._bad_value(value, _pydantic_problem(error)) from None
        if self.sort_keys:
            return msgspec.json.encode(msgspec.json.decode(data), order="deterministic")
        return data

    def deserialize(self, data: bytes | None) -> Any:
        """Return the model of the JSON text."""
        if data is None:
            return None
        try:
            return self._adapter.validate_json(data)
        except _DECODE_FAILURES as error:
            raise bad_bytes(self, data, _pydantic_problem(error)) from None


def is_structured(spec: Any) -> bool:
    """Whether a spec is a type that `structured_serde` takes.

    Example:
        >>> is_structured(list[int]), is_structured(object())
        (True, False)
    """
    if get_origin(spec) in _CONTAINERS or get_origin(spec) in _UNIONS:
        return True
    if get_origin(spec) is not None:
        return is_structured(get_origin(spec))
    return is_class_with_fields(spec) or is_typeddict(spec) or _is_pydantic(spec)


def structured_serde(spec: Any, *, sort_keys: bool = False) -> Serde[Any]:
    """Return the serde of a declared type.

    Raises:
        SerdeTypeError: If a field of it cannot be encoded.
    """
    if _has_pydantic(spec):
        return PydanticSerde(spec, sort_keys=sort_keys)
    return StructSerde(spec, sort_keys=sort_keys)


def _is_pydantic(cls: Any) -> bool:
    """Whether a class is pydantic's, without importing pydantic."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def _has_pydantic(spec: Any) -> bool:
    """Whether a type is pydantic's, or contains one that is."""
    return (
        _is_pydantic(spec)
        or _is_pydantic(get_origin(spec))
        or any(_has_pydantic(inner) for inner in get_args(spec))
    )


def _has_attrs_slots(cls: Any) -> bool:
    return is_attrs_class(cls) and "__slots__" in vars(cls)


def _has_other_keys(spec: Any) -> bool:
    """Whether a type is, or contains, a dict whose keys are not strings, which msgspec sorts."""
    hints = (hint for cls in classes_within(spec) for hint in field_types(cls))
    return any(map(_is_dict_of_others, [spec, *hints]))


def _is_dict_of_others(spec: Any) -> bool:
    inside = get_args(spec)
    if get_origin(spec) is dict and inside[0] is not str:
        return True
    return any(map(_is_dict_of_others, inside))


def _encode_in_two_steps(value: Any) -> bytes:
    """Return sorted JSON of a value with keys that are strings only in JSON."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except TypeError:
        plain = msgspec.json.decode(msgspec.json.encode(value))
        return msgspec.json.encode(plain, order="deterministic")


def _fix(problem: str) -> str:
    """Return how to correct a type that msgspec refuses."""
    if not any(said in problem for said in ("may not contain more than one", "type union")):
        return "use fields of types that JSON can represent, or your own Serde"
    if any(kind in problem for kind in ("Struct", "dataclass", "dict-like")):
        return "make them Structs with a tag: class Paid(msgspec.Struct, tag=True)"
    return "use types that JSON can distinguish, or put them into Structs with a tag"


def _check_dict_keys(spec: Any) -> None:
    """Check that keys of a dict can be keys in JSON.

    Raises:
        SerdeTypeError: If they are not strings, and cannot be written as such.
    """
    inside = get_args(spec)
    if get_origin(spec) is dict:
        key = inside[0]
        if get_origin(key) in _CONTAINERS or is_class_with_fields(key) or is_typeddict(key):
            what = f"{_shown(spec)} cannot be a serde: keys in JSON are strings and numbers"
            raise SerdeTypeError(what, fix="use a list of pairs: list[tuple[K, V]]")
    for one in inside:
        _check_dict_keys(one)


def _check_private(cls: Any) -> None:
    """Check that no field of an attrs class would be left out.

    Raises:
        SerdeTypeError: If one has a name that begins with an underscore.
    """
    if not is_attrs_class(cls):
        return
    private = [field.name for field in cls.__attrs_attrs__ if field.name.startswith("_")]
    if private:
        what = f"{_shown(cls)} cannot be a serde: field {private[0]} would not be in the JSON"
        raise SerdeTypeError(what, fix="give the field a name without a leading underscore")


def _runtime_type(cls: Any) -> type[Any] | tuple[type[Any], ...]:
    origin = get_origin(cls) or cls
    if origin in _UNIONS:
        members = [_runtime_type(member) for member in get_args(cls)]
        return tuple(one for m in members for one in (m if isinstance(m, tuple) else (m,)))
    if origin is Literal:
        return tuple({type(value): None for value in get_args(cls)})
    if is_typeddict(origin):
        return dict
    return origin if isinstance(origin, type) and origin is not Any else object


def _shown(cls: Any) -> str:
    if isinstance(cls, type) and not get_args(cls):
        return type_name(cls)
    return str(cls)


def _identity(cls: Any) -> object:
    if isinstance(cls, type) and not get_args(cls):
        return cls.__module__, cls.__qualname__
    return str(cls)


def _pydantic_problem(error: Exception) -> str:
    """Name the fields that failed, without the values: they may be private."""
    details = getattr(error, "errors", None)
    if not callable(details):
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    listed: Any = details(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or '$'}: {e['msg']}" for e in listed)


def _rebuild(serde: type[_TypedSerde], cls: Any, sort_keys: bool, verify: bool) -> _TypedSerde:
    return serde(cls, sort_keys=sort_keys, verify=verify)
