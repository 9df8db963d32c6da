"""How the DSL's verbs take their arguments, and what they answer when a call is not valid.

Options may be given by position, as in Kafka Streams: an argument without a parameter of its own is
matched by its class, so ``stream.join(table, joiner, Joined(...))`` means ``joined=Joined(...)``. A
call that still does not fit raises an error with the user's line and a call that works.
"""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from mustela.api.errors import BadCallError
from mustela.api.origin import user_origin

__all__ = ["answer_calls", "bad_call", "take_calls"]

_OPTION = re.compile(r"\b(?:[A-Z]\w+(?:ed|Windows|Options))\b")
_KEYWORD = re.compile(r"got an unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"missing (?:a|\d+) required (?:[\w-]+ )?arguments?: '(\w+)'")
_MEANT = {
    "as_": "store",
    "config": "settings",
    "foreign_key_extractor": "foreign_key",
    "gap": "inactivity_gap",
    "key_mapper": "foreign_key",
    "key_selector": "foreign_key",
    "key_serde": "key",
    "key_type": "key",
    "named": "name",
    "on": "foreign_key",
    "other_key": "foreign_key",
    "properties": "settings",
    "props": "settings",
    "serde": "value",
    "store_name": "store",
    "time": "timestamp",
    "timestamp_ms": "timestamp",
    "ts": "timestamp",
    "value_serde": "value",
    "value_type": "value",
    "window": "windows",
    "within": "windows",
}
"""Keywords that newcomers try first, and their names here."""

_FORMER = {"key_mapper": "foreign_key_with_key"}
"""Keywords of the previous release: still accepted, with a warning."""

_EXAMPLES = {
    "adder": "lambda total, value: total + value",
    "branched": "Branched(...)",
    "consumed": "Consumed(...)",
    "foreign_key": "lambda value: ...",
    "foreign_key_with_key": "lambda key, value: ...",
    "grace": "timedelta(0)",
    "grouped": "Grouped(...)",
    "inactivity_gap": "timedelta(minutes=30)",
    "initializer": "lambda: 0",
    "joined": "Joined(...)",
    "joiner": "lambda left, right: (left, right)",
    "key": "str",
    "mapper": "lambda ...: ...",
    "materialized": "Materialized(...)",
    "merger": "lambda key, left, right: left + right",
    "predicate": "lambda key, value: True",
    "produced": "Produced(...)",
    "size": "timedelta(minutes=5)",
    "store": '"..."',
    "subtractor": "lambda total, value: total - value",
    "time_difference": "timedelta(minutes=5)",
    "topic": '"..."',
    "topics": '"..."',
    "value": "str",
    "windows": "JoinWindows.of_time_difference(timedelta(...), grace=timedelta(0))",
    "windowed_by.windows": "TimeWindows(size=timedelta(minutes=5), grace=timedelta(0))",
    "within": "timedelta(hours=1)",
}
"""Example values, by keyword or by verb and keyword."""
_SHOWN_MAX = 60


class _Taken(NamedTuple):
    """What a verb takes.

    Attributes:
        signature: Of the method, with ``self``.
        options: The keyword of each class of options.
    """

    signature: inspect.Signature
    options: Mapping[str, str]


def take_calls(kind: type) -> None:
    """Make each public method that a class defines accept its options by position too.

    Args:
        kind: A class whose methods are verbs of the DSL.
    """
    for name, found in list(vars(kind).items()):
        if not name.startswith("_") and isinstance(found, FunctionType):
            setattr(kind, name, _taking(found))


def _taking(function: FunctionType) -> Callable[..., Any]:
    """Return a method that does the same, after its arguments have been fitted."""
    taken = _Taken(inspect.signature(function), {})
    taken = taken._replace(options=_options_of(taken.signature))
    look = _fitting

    def verb(*given: Any, **named: Any) -> Any:
        given, named = look(function, taken, given, named)
        return function(*given, **named)

    return _in_place_of(function, verb)


def answer_calls(kind: type) -> None:
    """Make a class answer invalid calls of its methods with what they take.

    Args:
        kind: A class whose methods users call.
    """
    for name, found in list(vars(kind).items()):
        bound = isinstance(found, staticmethod | classmethod)
        function: Any = found.__func__ if bound else found  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        if "__wrapped__" not in function.__dict__:
            owner: Callable[[Any], type] | None = type
            if bound:
                owner = None if isinstance(found, staticmethod) else _itself
            verb = _answering(function, kind, owner)
            setattr(kind, name, type(found)(verb) if bound else verb)  # pyright: ignore[reportUnknownArgumentType]


def _itself(kind: type) -> type:
    return kind


def _answering(
    function: FunctionType, kind: type, owner: Callable[[Any], type] | None
) -> Callable[..., Any]:
    """Return a method that does the same; ``owner`` gives the class of its first argument."""
    answer = _answer  # the method has the other module's globals

    def verb(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised inside the function
                raise
            asked = kind if owner is None else owner(given[0])
            users = given if owner is None else given[1:]
            raise answer(function, asked, users, named, str(error)) from None

    return _in_place_of(function, verb)


def _answer(
    function: FunctionType,
    asked: type,
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    reason: str,
) -> BadCallError:
    called = f"{asked.__name__}.{function.__name__}"
    return bad_call(called, inspect.signature(function), given, named, reason=reason)


def _in_place_of(function: FunctionType, verb: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method look like the one that it calls."""
    # It keeps that one's module: examples and documentation look for it there.
    found = FunctionType(
        verb.__code__, function.__globals__, function.__name__, None, verb.__closure__
    )
    found.__dict__.update(function.__dict__)
    found.__dict__["__wrapped__"] = function
    found.__doc__, found.__module__ = function.__doc__, function.__module__
    found.__qualname__, found.__annotations__ = function.__qualname__, function.__annotations__
    return found


def _options_of(signature: inspect.Signature) -> dict[str, str]:
    """Return the keyword of each class of options that a method takes."""
    found: dict[str, str] = {}
    for name, parameter in signature.parameters.items():
        for option in _OPTION.findall(str(parameter.annotation)):
            found.setdefault(option, name)
    return found


def _fitting(
    function: FunctionType, taken: _Taken, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with which a method can be called.

    Raises:
        BadCallError: If it cannot be called with them.
    """
    if not _FORMER.keys().isdisjoint(named):
        named = _renamed(function.__name__, taken.signature, named)
    try:
        bound = taken.signature.bind(*given, **named).arguments
    except TypeError:
        pass
    else:
        if all(_place(one, taken.options) in {None, name} for name, one in bound.items()):
            return given, named
    moved = dict(named)
    rest = tuple(one for one in given if not _move(one, taken.options, moved))
    rest = _by_foreign_key(taken.signature, rest, moved)
    try:
        taken.signature.bind(*rest, **moved)
    except TypeError as error:
        called = f"{type(given[0]).__name__}.{function.__name__}"
        raise bad_call(called, taken.signature, given[1:], named, reason=str(error)) from None
    return rest, moved


def _place(one: object, options: Mapping[str, str]) -> str | None:
    """Return the keyword of options of this class; None if these are none of them."""
    return next((options[k.__name__] for k in type(one).__mro__ if k.__name__ in options), None)


def _move(one: object, options: Mapping[str, str], named: dict[str, Any]) -> bool:
    """Move options given by position to their keyword, and say whether there were any."""
    place = _place(one, options)
    if place is None or place in named:
        return False
    named[place] = one
    return True


def _renamed(verb: str, signature: inspect.Signature, named: dict[str, Any]) -> dict[str, Any]:
    """Return keywords by their current names."""
    now = dict(named)
    for former, name in _FORMER.items():
        if former in named and name in signature.parameters and name not in named:
            text = f"{verb}({former}=) is now {name}=, or foreign_key= if the value is enough"
            warnings.warn(text, DeprecationWarning, stacklevel=4)
            now[name] = now.pop(former)
    return now


def _by_foreign_key(
    signature: inspect.Signature, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """Accept Kafka Streams' order for a foreign-key join: table, key function, joiner."""
    taken = signature.parameters
    by_key = "foreign_key" in taken and "windows" not in taken
    if not by_key or len(given) != 4 or not (callable(given[2]) and callable(given[3])):
        return given
    named.setdefault("foreign_key", given[2])
    return (*given[:2], given[3])


def bad_call(
    called: str,
    signature: inspect.Signature,
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    reason: str,
) -> BadCallError:
    """Return the error for a call that is not valid.

    Args:
        called: The class and the method, or the class alone.
        signature: What it takes, without ``self``.
        given: Arguments by position, without ``self``.
        named: Arguments by keyword.
        reason: What Python says about it.
    """
    verb = called.rpartition(".")[2]
    taken = {one: p for one, p in signature.parameters.items() if one not in {"self", "cls"}}
    said, fix = _said(verb, taken, (given, named), reason)
    return BadCallError(
        f"{called} {said}",
        at=user_origin(),
        why=f"its signature is {verb}({_shown(taken)})",
        fix=fix,
        fields={"verb": verb, "given": len(given), "named": sorted(named)},
    )


def _said(
    verb: str,
    taken: Mapping[str, inspect.Parameter],
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]],
    reason: str,
) -> tuple[str, str]:
    """Return what is wrong with a call, and what to write instead."""
    given, named = arguments
    kinds = {one.kind for one in taken.values()}
    unknown = [] if inspect.Parameter.VAR_KEYWORD in kinds else [n for n in named if n not in taken]
    found = _KEYWORD.search(reason)
    if asked := next(iter(unknown), found and found[1]):
        return f"has no {asked}=", _instead(verb, asked, taken)
    places = [one for one in taken.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    extra = [] if inspect.Parameter.VAR_POSITIONAL in kinds else list(given[len(places) :])
    if found := _MISSING.search(reason):
        name = next(iter(found.groups()))
        if not extra:
            return f"needs {name}=", f"write {verb}(..., {name}={_example(verb, name)})"
    if extra:
        return f"cannot tell what {_brief(extra[0])} is", _as_keywords(taken, given, len(places))
    return f"cannot be called like that: {reason}", f"call it as {verb}({_shown(taken)})"


def _instead(verb: str, asked: str, taken: Mapping[str, inspect.Parameter]) -> str:
    """Return what to write instead of a keyword that does not exist."""
    if asked == "how" and "joiner" in taken:
        return "use the verb for it: join, left_join or outer_join"
    meant = _MEANT.get(asked)
    close = difflib.get_close_matches(asked, taken, n=1)
    right = meant if meant in taken else close[0] if close else None
    if right is not None:
        return f"write {right}={_example(verb, right)}"
    needed = [n for n, one in taken.items() if one.default is one.empty and n.isidentifier()]
    if len(needed) == 1 and len(taken) == 1:  # its name does not matter
        return f"write {verb}({_example(verb, needed[0])})"
    return f"leave out {asked}="


def _as_keywords(
    taken: Mapping[str, inspect.Parameter], given: tuple[Any, ...], places: int
) -> str:
    """Return how to pass arguments for which there is no position."""
    one: Any = given[places]
    keyword = "store" if "store" in taken else "name"
    if isinstance(one, str) and keyword in taken:
        return f"write {keyword}={one!r}"
    if issubclass(type(one), dict) and "settings" in taken:
        return "write settings={...}"
    if "joiner" in taken and type(one).__name__ == "JoinWindows":
        return "leave out the windows: rows of tables are joined by key, whatever their times"
    types = [each.__name__ for each in given if isinstance(each, type)]
    wanted = ("key", "value") if len(types) == 2 else ("value",)
    if len(types) == len(wanted) and all(name in taken for name in wanted):
        told = zip(wanted, types, strict=True)
        return "write " + ", ".join(f"{name}={kind}" for name, kind in told)
    return f"pass it by keyword: {', '.join(f'{name}=' for name in list(taken)[places:])}"


def _example(verb: str, name: str) -> str:
    return _EXAMPLES.get(f"{verb}.{name}") or _EXAMPLES.get(name, "...")


def _shown(taken: Mapping[str, inspect.Parameter]) -> str:
    bare = [
        one.replace(
            annotation=inspect.Parameter.empty,
            default=... if type(one.default) is object else one.default,
        )
        for one in taken.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    return str(inspect.Signature(bare))[1:-1]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"a {type(value).__name__}"
