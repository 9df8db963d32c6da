"""How the verbs of the DSL take their arguments, and what they say of a call that cannot be.

Options may stand by position, as in Kafka Streams: an argument that has no place of its own goes
by its class, so ``stream.join(table, joiner, Joined(...))`` is ``joined=Joined(...)``. A call that
still does not fit is answered with the user's line and a call that does.
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
"""Keywords that are tried first, and what they are called here."""

_FORMER = {"key_mapper": "foreign_key_with_key"}
"""Keywords of the release before: they are taken, with a warning."""

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
"""By keyword, or by verb and keyword: what may be given."""
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
    """Let each public method that a class defines take its options by position too.

    Args:
        kind: A class whose methods are verbs of the DSL.
    """
    for name, found in list(vars(kind).items()):
        if not name.startswith("_") and isinstance(found, FunctionType):
            setattr(kind, name, _taking(found))


def _taking(function: FunctionType) -> Callable[..., Any]:
    """Return a method that does what this one does, and looks at its arguments first."""
    taken = _Taken(inspect.signature(function), {})
    taken = taken._replace(options=_options_of(taken.signature))
    look = _fitting

    def verb(*given: Any, **named: Any) -> Any:
        given, named = look(function, taken, given, named)
        return function(*given, **named)

    return _in_place_of(function, verb)


def answer_calls(kind: type) -> None:
    """Let a class say what its methods take where they are called so that they cannot be.

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
    """Return a method that does what this one does; ``owner`` tells the class of its first one."""
    answer = _answer  # the method has the other module's globals

    def verb(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # raised by what the function did
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
    """Let a method pass for the one that it calls."""
    # A function of its own module still: that is where examples and documentation look for it.
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
    """Return arguments that a method can be called with.

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
    """Put options that stand by position where their class belongs, and say whether they did."""
    place = _place(one, options)
    if place is None or place in named:
        return False
    named[place] = one
    return True


def _renamed(verb: str, signature: inspect.Signature, named: dict[str, Any]) -> dict[str, Any]:
    """Return keywords by the names that they have now."""
    now = dict(named)
    for former, name in _FORMER.items():
        if former in named and name in signature.parameters and name not in named:
            text = f"{verb}({former}=) is {name}= now, or foreign_key= where the value is enough"
            warnings.warn(text, DeprecationWarning, stacklevel=4)
            now[name] = now.pop(former)
    return now


def _by_foreign_key(
    signature: inspect.Signature, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """Take Kafka Streams' order of a join by foreign key: table, how its key is found, joiner."""
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
    """Return the error of a call that cannot be.

    Args:
        called: The class and the method, or the class alone.
        signature: What it takes; ``self`` is left out.
        given: Arguments by position, without ``self``.
        named: Arguments by keyword.
        reason: What Python says of it.
    """
    verb = called.rpartition(".")[2]
    taken = {one: p for one, p in signature.parameters.items() if one not in {"self", "cls"}}
    said, fix = _said(verb, taken, (given, named), reason)
    return BadCallError(
        f"{called} {said}",
        at=user_origin(),
        why=f"it is {verb}({_shown(taken)})",
        fix=fix,
        fields={"verb": verb, "given": len(given), "named": sorted(named)},
    )


def _said(
    verb: str,
    taken: Mapping[str, inspect.Parameter],
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]],
    reason: str,
) -> tuple[str, str]:
    """Return what is wrong with a call, and what to write."""
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
    return f"cannot be called so: {reason}", f"call it as {verb}({_shown(taken)})"


def _instead(verb: str, asked: str, taken: Mapping[str, inspect.Parameter]) -> str:
    """Return what to write in place of a keyword that there is not."""
    if asked == "how" and "joiner" in taken:
        return "say it by the verb: join, left_join or outer_join"
    meant = _MEANT.get(asked)
    close = difflib.get_close_matches(asked, taken, n=1)
    right = meant if meant in taken else close[0] if close else None
    if right is not None:
        return f"write {right}={_example(verb, right)}"
    needed = [n for n, one in taken.items() if one.default is one.empty and n.isidentifier()]
    if len(needed) == 1 and len(taken) == 1:  # what it is called does not matter
        return f"write {verb}({_example(verb, needed[0])})"
    return f"leave out {asked}="


def _as_keywords(
    taken: Mapping[str, inspect.Parameter], given: tuple[Any, ...], places: int
) -> str:
    """Return how to write what stands in a place that there is not."""
    one: Any = given[places]
    keyword = "store" if "store" in taken else "name"
    if isinstance(one, str) and keyword in taken:
        return f"write {keyword}={one!r}"
    if issubclass(type(one), dict) and "settings" in taken:
        return "write settings={...}"
    if "joiner" in taken and type(one).__name__ == "JoinWindows":
        return "leave the windows out: rows of tables meet by their keys, whatever their times"
    types = [each.__name__ for each in given if isinstance(each, type)]
    wanted = ("key", "value") if len(types) == 2 else ("value",)
    if len(types) == len(wanted) and all(name in taken for name in wanted):
        told = zip(wanted, types, strict=True)
        return "write " + ", ".join(f"{name}={kind}" for name, kind in told)
    return f"write what it is: {', '.join(f'{name}=' for name in list(taken)[places:])}"


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
