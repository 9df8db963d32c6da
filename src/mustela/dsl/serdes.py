"""Which serde a step uses: what was said in this step, else what is known from the steps before."""

from __future__ import annotations

from typing import Any, TypeVar

from mustela.errors import Origin, UsageError
from mustela.serdes.base import Serde
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.topology.errors import MissingSerdeError, OptionConflictError

__all__ = ["choose", "choose_serde", "serde_to_write"]

T = TypeVar("T")


def choose(name: str, keyword: T | None, option: T | None, *, holder: str, at: Origin) -> T | None:
    """Return what was said by keyword or in an options object.

    Raises:
        OptionConflictError: If both were said and differ.
    """
    if keyword is None or option is None or keyword == option:
        return option if keyword is None else keyword
    msg = f"{name} is given twice: {name}={_shown(keyword)} and {holder}({name}={_shown(option)})"
    raise OptionConflictError(
        msg,
        at=at,
        why="what a keyword and an options object both say must agree",
        fix=f"leave out one of them, such as {name}=",
        fields={"option": name},
    )


def choose_serde(
    name: str, keyword: object, option: object, *, holder: str, at: Origin
) -> Serde[Any] | None:
    """Return the serde that was said by keyword or in an options object, None if neither.

    Args:
        name: ``key`` or ``value``.
        keyword: A type, a serde, or None.
        option: The same, from the options object.
        holder: Name of the options' class.
        at: The user's line.

    Raises:
        OptionConflictError: If both were said and differ.
        UnknownSerdeError: If what was said has no serde.
    """
    try:
        said = [
            None if spec is None else resolve_serde(spec, key=name == "key")
            for spec in (keyword, option)
        ]
    except UsageError as error:
        error.at = error.at or at
        raise
    return choose(name, said[0], said[1], holder=holder, at=at)


def serde_to_write(
    name: str, said: Serde[Any] | None, known: Serde[Any] | None, *, step: str, at: Origin
) -> Serde[Any]:
    """Return the serde with which a sink writes.

    Args:
        name: ``key`` or ``value``.
        said: What the user said at the sink.
        known: What is known from the steps before.
        step: The step whose records are written.
        at: The user's line.

    Raises:
        MissingSerdeError: If neither is there.
    """
    serde = (None if _undeclared(known) else known) if said is None else said
    if serde is not None:
        return serde
    plural = {"key": "keys", "value": "values"}[name]
    msg = f"nothing says how the {plural} of {step!r} become bytes"
    raise MissingSerdeError(
        msg,
        at=at,
        why=f"a step before gives {plural} of a new type, which Python does not tell in advance",
        fix=f"say it where they are written: to(..., {name}=str), or whatever type they have",
        fields={"part": name, "step": step},
    )


def _undeclared(known: Serde[Any] | None) -> bool:
    """Say whether the keys inside windowed keys have the serde of what nobody declared."""
    windowed = type(known) in {WindowedSerde, SessionWindowedSerde}
    return windowed and isinstance(getattr(known, "inner", None), ValueSerde)


def _shown(value: object) -> str:
    if isinstance(value, Serde):
        return str(value.name)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return value.__name__ if isinstance(value, type) else repr(value)
