"""Which serde is meant: the one given by keyword or the one in an options object."""

from __future__ import annotations

from typing import Any, TypeVar

from mustela.api.errors import OptionConflictError
from mustela.api.given_types import is_read
from mustela.errors import Origin, UsageError
from mustela.serdes.base import Serde
from mustela.serdes.resolve import resolve_serde

__all__ = ["choose", "choose_serde"]

T = TypeVar("T")


def choose(name: str, keyword: T | None, option: T | None, *, holder: str, at: Origin) -> T | None:
    """Return what was given by keyword or in an options object.

    Raises:
        OptionConflictError: If both were given and differ.
    """
    if keyword is None or option is None or keyword == option:
        return option if keyword is None else keyword
    msg = f"{name} is given twice: {name}={_shown(keyword)} and {holder}({name}={_shown(option)})"
    raise OptionConflictError(
        msg,
        at=at,
        why="a keyword and an options object must agree",
        fix=f"leave out one of them, such as {name}=",
        fields={"option": name},
    )


def choose_serde(
    name: str, keyword: object, option: object, *, holder: str, at: Origin
) -> Serde[Any] | None:
    """Return the serde that was given by keyword or in an options object, None if neither.

    Args:
        name: ``key`` or ``value``.
        keyword: A type, a serde, or None.
        option: The same, from the options object.
        holder: Name of the options' class.
        at: The user's line.

    Raises:
        OptionConflictError: If both were given and differ.
        UnknownSerdeError: If there is no serde for what was given.
    """
    try:
        said = [
            None if spec is None else resolve_serde(spec, key=name == "key")
            for spec in (keyword, option)
        ]
    except UsageError as error:
        error.at = error.at or at
        raise
    if said[1] is not None and is_read(said[0]):
        return said[1]
    return choose(name, said[0], said[1], holder=holder, at=at)


def _shown(value: object) -> str:
    if isinstance(value, Serde):
        return str(value.name)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return value.__name__ if isinstance(value, type) else repr(value)
