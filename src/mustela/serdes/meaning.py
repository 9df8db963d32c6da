"""What bytes mean, as text that outlives a process: a serde's format and the shape of its values.

A *format* is how values become bytes. A *shape* is the structure of the values: fields, their
types, and which of them may be missing. Both are stored with the state that they describe, so
neither contains an address or a module name: a class may move to another file, and a script may be
a module.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from mustela.serdes.base import Serde, type_name
from mustela.serdes.json import JsonSerde
from mustela.serdes.row_versions import UpgradingSerde
from mustela.serdes.scalars import EnumSerde
from mustela.serdes.schemas.registered import RegisteredSerde
from mustela.serdes.shape import is_attrs_class, is_class_by_path, is_named_tuple
from mustela.serdes.structs import PydanticSerde, StructSerde
from mustela.serdes.values import ValueSerde, class_path
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde

# Shapes are JSON, whose types are known only at run time.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

__all__ = ["Shape", "serde_format", "serde_shape", "shape_of", "shape_text"]

Shape = Any
"""``"int"`` and the like; ``["list", shape]`` and other containers, ``["union", …]``; for a class
a dict with its ``form``, its ``fields`` and what else its bytes depend on. A field is its name, its
shape and its default: empty if it has none, ``=`` if rows contain it anyway, ``?`` if they may lack
it, ``=`` and the default if they lack it when it has that value. All of it is JSON."""

_OWN = "mustela.serdes."
_NO_DEFAULT = ""
_DEFAULT = "="
_MAY_BE_MISSING = "?"
_ANY = "any"


def serde_format(serde: Serde[Any] | None) -> str:
    """Return the format of a serde's bytes; the same text means the same format.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> serde_format(resolve_serde(float)), serde_format(resolve_serde(dict, key=True))
        ('float', 'json sorted')
        >>> serde_format(None)
        'bytes'
    """
    match serde:
        case None:
            return "bytes"
        case JsonSerde() | StructSerde():
            return "json sorted" if serde.sort_keys else "json"
        case EnumSerde():
            return {"name": "enum by name"}.get(serde.by, serde.by)
        case PydanticSerde():
            return "json by pydantic sorted" if serde.sort_keys else "json by pydantic"
        case RegisteredSerde():
            return serde.format
        case UpgradingSerde():
            return serde_format(serde.current)
        case WindowedSerde():
            return f"windowed({serde_format(serde.inner)}, {serde.size_ms} ms)"
        case SessionWindowedSerde():
            return f"session-windowed({serde_format(serde.inner)})"
        case _:
            cls = type(serde)
            own = cls.__module__.startswith(_OWN)
            return serde.name if own else f"{serde.name or 'unnamed'} of {cls.__qualname__}"


def serde_shape(serde: Serde[Any] | None) -> str:
    """Return the shape of a serde's values as JSON; empty if the format says it all.

    Example:
        >>> @dataclasses.dataclass
        ... class Order:
        ...     total: int
        ...     note: str = ""
        >>> serde_shape(StructSerde(Order))
        '{"class":"Order","fields":[["total","int",""],["note","str","="]],"form":"map"}'
    """
    match serde:
        case JsonSerde():
            shape: Shape = _ANY if serde.expected is None else serde.expected.__name__
        case StructSerde() | PydanticSerde():
            shape = shape_of(serde.type)
        case RegisteredSerde():
            shape = serde.shape() or (shape_of(serde.type) if serde.type is not None else _ANY)
        case EnumSerde(by="name"):
            shape = ["enum", *sorted(serde.type.__members__)]
        case EnumSerde():
            shape = shape_of(serde.type)
        case UpgradingSerde():
            return serde_shape(serde.current)
        case WindowedSerde() | SessionWindowedSerde():
            return serde_shape(serde.inner)
        case ValueSerde(classes=classes) if classes:
            named = {class_path(cls).partition(":")[2]: shape_of(cls) for cls in classes}
            shape = ["classes", *(named[name] for name in sorted(named))]
        case _:
            return ""
    return json.dumps(shape, sort_keys=True, separators=(",", ":"))


def shape_of(spec: Any) -> Shape:
    """Return the shape of a type.

    Example:
        >>> shape_of(dict[str, list[int] | None])
        ['dict', 'str', ['union', 'None', ['list', 'int']]]
    """
    return _Shapes().of(spec, {}, ())


def shape_text(shape: Shape) -> str:
    """Return a shape as users would write the type.

    Example:
        >>> shape_text(shape_of(dict[str, list[int] | None]))
        'dict[str, None | list[int]]'
        >>> shape_text(json.loads(
        ...     '{"class":"Order","fields":[["total","int",""],["note","str","="]],"form":"map"}'
        ... ))
        'Order(total: int, note: str = …)'
    """
    match shape:
        case str():
            return shape
        case {"class": name, "fields": fields}:
            parts = (
                f"{field}: {shape_text(inner)}{' = …' if default else ''}"
                for field, inner, default in fields
            )
            return f"{name}({', '.join(parts)})"
        case ["union", *members]:
            return " | ".join(map(shape_text, members))
        case ["rules", inner, *rules]:
            return f"{shape_text(inner)} ({', '.join(rules)})"
        case ["enum" | "literal" as kind, *values]:
            return f"{kind} of {', '.join(map(str, values))}"
        case ["inside", depth]:
            return "itself" if depth == 0 else f"the class {depth} above"
        case [kind, *arguments]:
            return f"{kind}[{', '.join(map(shape_text, arguments))}]"
        case _:
            return str(shape)


class _Shapes:
    """Turns types into shapes; knows in which classes it is."""

    def of(self, spec: Any, known: Mapping[Any, Any], inside: tuple[Any, ...]) -> Shape:
        """Return the shape of a type.

        Args:
            spec: The type.
            known: The types that type variables stand for.
            inside: The classes whose fields these are, the innermost first.
        """
        if isinstance(spec, TypeVar):
            return self.of(known[spec], {}, inside) if spec in known else _ANY
        origin, arguments = get_origin(spec), get_args(spec)
        if origin is Annotated:
            return self._ruled(arguments[0], arguments[1:], known, inside)
        if origin in (Required, NotRequired):
            return self.of(arguments[0], known, inside)
        if origin in (Union, types.UnionType):
            members = [self.of(member, known, inside) for member in arguments]
            return ["union", *sorted(members, key=_sort_key)]
        if origin is Literal:
            return ["literal", *sorted(arguments, key=str)]
        cls: Any = origin or spec
        if cls in inside:
            return ["inside", inside.index(cls)]
        if _has_fields(cls):
            return self._class(cls, arguments, known, inside)
        if isinstance(cls, type) and issubclass(cls, enum.Enum):
            return ["enum", *sorted((_plain(member.value) for member in cls), key=str)]
        if arguments:
            inner = ["…" if a is Ellipsis else self.of(a, known, inside) for a in arguments]
            return [_name(cls), *inner]
        return _name(cls)

    def _ruled(
        self,
        spec: Any,
        rules: tuple[Any, ...],
        known: Mapping[Any, Any],
        inside: tuple[Any, ...],
    ) -> Shape:
        shape = self.of(spec, known, inside)
        told = sorted(text for text in map(repr, rules) if " at 0x" not in text)
        return ["rules", shape, *told] if told else shape

    def _class(
        self,
        cls: Any,
        arguments: tuple[Any, ...],
        known: Mapping[Any, Any],
        inside: tuple[Any, ...],
    ) -> Shape:
        parameters = getattr(cls, "__parameters__", ())
        means = {
            name: known.get(argument, argument) if isinstance(argument, TypeVar) else argument
            for name, argument in zip(parameters, arguments, strict=False)
        }
        fields = [
            [name, self.of(spec, means, (cls, *inside)), default]
            for name, spec, default in _fields(cls)
        ]
        return {"class": cls.__qualname__, "fields": fields, **_form(cls)}


def _fields(cls: Any) -> Iterator[tuple[str, Any, str]]:
    """Iterate over the fields of a class as its bytes hold them: name, type, default."""
    if _is_pydantic(cls):
        yield from _fields_of_model(cls)
        return
    hints = _hints(cls)
    if issubclass(cls, msgspec.Struct):
        omits = bool(cls.__struct_config__.omit_defaults)
        for field in msgspec.structs.fields(cls):
            default = _NO_DEFAULT if field.required else _default_text(field, omits=omits)
            yield field.encode_name, hints.get(field.name, field.type), default
    elif is_typeddict(cls):
        for name in cls.__annotations__:
            hint = hints.get(name, Any)
            # Use the hint: if annotations are text, __required_keys__ lists all fields.
            said = get_origin(hint)
            known = name in cls.__required_keys__ if said is None else said is not NotRequired
            yield name, hint, _NO_DEFAULT if known else _MAY_BE_MISSING
    elif is_named_tuple(cls):
        for name in cls._fields:
            yield name, hints.get(name, Any), _DEFAULT if name in cls._field_defaults else ""
    else:
        plain = _attrs_fields(cls) if is_attrs_class(cls) else _dataclass_fields(cls)
        for name, has in plain:
            yield name, hints.get(name, Any), _DEFAULT if has else _NO_DEFAULT


def _fields_of_model(cls: Any) -> Iterator[tuple[str, Any, str]]:
    for name, info in _pydantic_fields(cls).items():
        shown = info.serialization_alias or info.alias or name
        rules = tuple(info.metadata)
        spec = Annotated[info.annotation, *rules] if rules else info.annotation
        yield shown, spec, _NO_DEFAULT if info.is_required() else _DEFAULT


def _dataclass_fields(cls: Any) -> Iterator[tuple[str, bool]]:
    """Iterate over the names of fields, and whether they have a default."""
    missing = dataclasses.MISSING
    for field in dataclasses.fields(cls):
        yield field.name, field.default is not missing or field.default_factory is not missing


def _attrs_fields(cls: Any) -> Iterator[tuple[str, bool]]:
    """Iterate over the names of fields, and whether they have a default."""
    for field in cls.__attrs_attrs__:
        # attrs has a marker for no default; it is compared by name, so that attrs is not imported.
        yield field.name, type(field.default).__name__ != "_Nothing"


def _form(cls: Any) -> dict[str, Any]:
    """Return what else the bytes of a class depend on."""
    if is_named_tuple(cls):
        return {"form": "array"}
    if _is_pydantic(cls):
        config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", {})
        extra = config.get("extra") or "ignore"
        return {"form": "map"} | ({} if extra == "ignore" else {"extra": extra})
    if not (isinstance(cls, type) and issubclass(cls, msgspec.Struct)):
        return {"form": "map"}
    config = cls.__struct_config__
    form: dict[str, Any] = {"form": "array" if config.array_like else "map"}
    if config.tag is not None:
        form["tag"] = [config.tag_field, config.tag]
    if config.forbid_unknown_fields:
        form["extra"] = "forbid"
    return form


def _default_text(field: Any, *, omits: bool) -> str:
    """Return the default of a field that is left out of the bytes if it has its default."""
    if not omits:
        return _DEFAULT
    if field.default is not msgspec.NODEFAULT:
        return f"{_DEFAULT}{_plain(field.default)!r}"
    return f"{_DEFAULT}{getattr(field.default_factory, '__qualname__', 'made')}()"


def _has_fields(cls: Any) -> bool:
    if is_typeddict(cls):
        return True
    if not isinstance(cls, type) or issubclass(cls, enum.Enum):
        return False
    return _is_pydantic(cls) or is_class_by_path(cls)


def _is_pydantic(cls: Any) -> bool:
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__")


def _pydantic_fields(cls: Any) -> dict[str, Any]:
    found: Any = getattr(cls, "__pydantic_fields__", None)
    return dict(found or {})


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):
        return {}


def _name(cls: Any) -> str:
    if cls is Any or cls is object:
        return _ANY
    if isinstance(cls, type):
        return type_name(cls)
    return str(cls).replace("typing.", "")


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: itself, or its text."""
    return (
        value if value is None or isinstance(value, str | int | float) else type_name(type(value))
    )


def _sort_key(shape: Shape) -> str:
    return json.dumps(shape, sort_keys=True)
