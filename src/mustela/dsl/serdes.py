"""Which serde a step uses: what was said in this step, else what is known from the steps before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mustela.api.errors import MissingSerdeError
from mustela.api.given_types import Part, read_serde
from mustela.api.serdes import choose_serde
from mustela.dsl.told_types import told_serde
from mustela.errors import Origin, UsageError
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.topology.node import Node

__all__ = ["said_or_read", "serde_to_write"]

T = TypeVar("T")


def said_or_read(
    name: str, said: object, function: object, part: Part = "all", *, step: str, at: Origin
) -> Serde[Any] | None:
    """Return the serde of what a function gives: what is said of it, else what can be read of it.

    Args:
        name: ``key`` or ``value``.
        said: A type, a serde, or None.
        function: The function.
        part: What of its result is meant.
        step: The step that calls it.
        at: The user's line.

    Raises:
        UnknownSerdeError: If what was said has no serde.
        SerdeTypeError: If it is a type with a field that has none.
    """
    try:
        found = choose_serde(name, said, None, holder="", at=at)
    except UsageError as error:
        error.evidence.setdefault("step", step)
        raise
    return found or read_serde(function, part, key=name == "key")


def serde_to_write(
    name: str,
    said: Serde[Any] | None,
    known: Serde[Any] | None,
    *,
    find: Callable[[str], Node],
    step: str,
    at: Origin,
) -> Serde[Any]:
    """Return the serde with which a sink writes.

    Args:
        name: ``key`` or ``value``.
        said: What the user said at the sink.
        known: What is known from the steps before.
        find: Gives the node of a name.
        step: The step whose records are written.
        at: The user's line.

    Raises:
        MissingSerdeError: If neither is there, and no function tells.
    """
    serde = said
    if serde is None:
        unsaid = known is None or _undeclared(known)
        half = "key" if name == "key" else "value"
        serde = told_serde(find, step, half, known) if unsaid else known
    if serde is not None:
        return serde
    plural = {"key": "keys", "value": "values"}[name]
    msg = f"nothing says how the {plural} of {step!r} become bytes"
    raise MissingSerdeError(
        msg,
        at=at,
        why=f"a step before gives {plural} of a new type, which Python does not tell in advance",
        fix=f"say it where they are written: to(..., {name}=str), or whatever type they have; or"
        f" where they are made, with {name}= or by the annotation of a named function",
        fields={"part": name, "step": step},
    )


def _undeclared(known: Serde[Any] | None) -> bool:
    """Say whether the keys inside windowed keys have the serde of what nobody declared."""
    windowed = type(known) in {WindowedSerde, SessionWindowedSerde}
    return windowed and isinstance(getattr(known, "inner", None), ValueSerde)
