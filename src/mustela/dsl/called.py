"""How the verbs of the DSL take their arguments, and what they say of a call that cannot be.

Options may stand by position, as in Kafka Streams: an argument that has no place of its own goes
by its class, so ``stream.join(table, joiner, Joined(...))`` is ``joined=Joined(...)``. A call that
still does not fit is answered with the user's line and a call that does.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from mustela.dsl.origin import user_origin
from mustela.topology.errors import BadCallError

__all__ = ["bad_call", "take_calls"]

_OPTION = re.compile(r"\b(?:[A-Z]\w+(?:ed|Windows|Options))\b")
_KEYWORD = re.compile(r"got an unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"missing a required (?:keyword-only )?argument: '(\w+)'")
_MEANT = {
    "as_": "store",
    "key_serde": "key",
    "key_type": "key",
    "named": "name",
    "other_key": "key_mapper",
    "key_selector": "key_mapper",
    "serde": "value",
    "store_name": "store",
    "value_serde": "value",
    "value_type": "value",
    "window": "windows",
    "within": "windows",
}
"""Keywords that are tried first, and what they are called here."""

_EXAMPLES = {
    "adder": "lambda total, value: total + value",
    "branched": "Branched(...)",
    "consumed": "Consumed(...)",
    "foreign_key": "lambda value: ...",
    "grouped": "Grouped(...)",
    "initializer": "lambda: 0",
    "joined": "Joined(...)",
    "joiner": "lambda left, right: (left, right)",
    "key": "str",
    "key_mapper": "lambda key, value: key",
    "mapper": "lambda ...: ...",
    "materialized": "Materialized(...)",
    "merger": "lambda key, left, right: left + right",
    "predicate": "lambda key, value: True",
    "produced": "Produced(...)",
    "store": '"..."',
    "subtractor": "lambda total, value: total - value",
    "topic": '"..."',
    "value": "str",
    "windows": "JoinWindows.of_time_difference(timedelta(...))",
    "within": "timedelta(hours=1)",
}
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
    try:
        bound = taken.signature.bind(*given, **named).arguments
    except TypeError:
        pass
    else:
        if all(_place(one, taken.options) in {None, name} for name, one in bound.items()):
            return given, named
    moved = dict(named)
    rest = tuple(one for one in given if not _move(one, taken.options, moved))
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
    taken = {name: one for name, one in signature.parameters.items() if name != "self"}
    said, fix = _said(verb, taken, given, reason)
    return BadCallError(
        f"{called} {said}",
        at=user_origin(),
        why=f"it is {verb}({_shown(taken)})",
        fix=fix,
        fields={"verb": verb, "given": len(given), "named": sorted(named)},
    )


def _said(
    verb: str, taken: Mapping[str, inspect.Parameter], given: tuple[Any, ...], reason: str
) -> tuple[str, str]:
    """Return what is wrong with a call, and what to write."""
    if found := _KEYWORD.search(reason):
        asked = found[1]
        meant = _MEANT.get(asked)
        close = difflib.get_close_matches(asked, taken, n=1)
        right = meant if meant in taken else close[0] if close else None
        fix = f"write {right}={_EXAMPLES.get(right, '...')}" if right else f"leave out {asked}="
        return f"has no {asked}=", fix
    if found := _MISSING.search(reason):
        name = found[1]
        example = _EXAMPLES.get(name, "...")
        return f"needs {name}=", f"write {verb}(..., {name}={example})"
    places = [one for one in taken.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    extra = given[len(places) :]
    if extra:
        one = extra[0]
        keyword = "store" if "store" in taken else "name"
        fix = f"write what it is: {', '.join(f'{name}=' for name in list(taken)[len(places) :])}"
        if isinstance(one, str) and keyword in taken:
            fix = f"write {keyword}={one!r}"
        return f"cannot tell what {_brief(one)} is", fix
    return f"cannot be called so: {reason}", f"call it as {verb}({_shown(taken)})"


def _shown(taken: Mapping[str, inspect.Parameter]) -> str:
    bare = [
        one.replace(annotation=inspect.Parameter.empty)
        for one in taken.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    return str(inspect.Signature(bare))[1:-1]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"a {type(value).__name__}"
