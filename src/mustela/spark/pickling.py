"""Pickling by value: functions and classes of the user's that workers cannot import.

A program that is started as ``python app.py`` is the module ``__main__`` in the driver, and in a
worker something else is. cloudpickle sends its functions and classes along. Two kinds of class
need help: a dataclass, in which msgspec keeps what cannot be pickled, and a ``msgspec.Struct``,
whose fields are made when the class is, and which cloudpickle would make empty. Types that are
written as texts are looked up here, where their names mean something.
"""

from __future__ import annotations

import inspect
import io
import typing
from collections.abc import Callable, Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import msgspec
from pyspark.cloudpickle import cloudpickle as _cloudpickle

__all__ = ["dump_by_value"]

_cloud: Any = _cloudpickle
_CACHE = "__msgspec_cache__"
_STRUCT_META = type(msgspec.Struct)
_CONFIG = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults"),
    *("forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field"),
)
_MADE_WITH_THE_CLASS = {
    *("__module__", "__qualname__", "__annotations__", "__slots__", "__match_args__"),
    *("__dict__", "__weakref__", "__signature__", "__annotate__", "__annotate_func__"),
    *("__annotations_cache__", "__post_init__"),
}


def dump_by_value(value: Any) -> bytes:
    """Pickle ``value``; functions and classes that workers cannot import travel by value."""
    file = io.BytesIO()
    pickler: Any = _Pickler(file, protocol=5)
    pickler.dump(value)
    return file.getvalue()


class _Pickler(_cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and not _cloud._should_pickle_by_reference(obj):
            cls: Any = obj
            _look_up_types(cls)
            if isinstance(cls, _STRUCT_META):
                return _reduce_struct(cls)
            if _CACHE in cls.__dict__:
                delattr(cls, _CACHE)  # msgspec makes it again
        reduce: Callable[[Any], Any] = getattr(super(), "reducer_override")  # noqa: B009
        return reduce(obj)


def _look_up_types(cls: type) -> None:
    """Replace types that are written as texts: the names mean nothing in a worker."""
    own = inspect.get_annotations(cls)
    if not any(isinstance(written, str) for written in own.values()):
        return
    try:
        known = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return  # names of a function's inside; msgspec says so if it needs them
    cls.__annotations__ = {name: known[name] for name in own}


def _reduce_struct(cls: Any) -> tuple[Any, ...]:
    """Return how to make a struct anew: fields first, then types and methods, which may name it."""
    own = inspect.get_annotations(cls)
    fields: dict[str, dict[str, Any]] = {}
    for info in msgspec.structs.fields(cls):
        if info.name in own:
            found = {"default": info.default, "default_factory": info.default_factory}
            fields[info.name] = {k: v for k, v in found.items() if v is not msgspec.NODEFAULT}
            if info.encode_name != info.name:
                fields[info.name]["name"] = info.encode_name
    parameters = inspect.signature(cls).parameters.values()
    named = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    config = cls.__struct_config__
    options = {name: getattr(config, name) for name in _CONFIG if hasattr(config, name)}
    if not named.isdisjoint(fields):
        options["kw_only"] = True
    namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if "__post_init__" in cls.__dict__:
        namespace["__post_init__"] = cls.__dict__["__post_init__"]
    identity: str = _cloud._get_or_create_tracker_id(cls)
    made = (identity, cls.__name__, cls.__bases__, namespace, fields, options)
    mine: dict[str, Any] = dict(cls.__dict__)
    later = {
        name: value
        for name, value in mine.items()
        if name not in _MADE_WITH_THE_CLASS
        and not name.startswith("__struct_")
        and not isinstance(value, MemberDescriptorType | GetSetDescriptorType)
    }
    return _make_struct, made, {**later, "__annotations__": own}, None, None, _complete


def _make_struct(
    identity: str,
    name: str,
    bases: tuple[type, ...],
    namespace: Mapping[str, Any],
    fields: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
) -> Any:
    """Make a struct whose types are still to come; or return the one that was made before."""
    given = {field: msgspec.field(**how) for field, how in fields.items() if how}
    types = {"__annotations__": dict.fromkeys(fields, Any)}
    make: Any = _STRUCT_META
    return _cloud._lookup_class_or_track(
        identity, make(name, bases, {**namespace, **types, **given}, **options)
    )


def _complete(cls: type, state: Mapping[str, Any]) -> None:
    for name, value in state.items():
        setattr(cls, name, value)
