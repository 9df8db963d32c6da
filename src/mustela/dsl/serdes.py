"""Which serde a step uses: the one given for the step, else one known from earlier steps."""

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
    """Return the serde of a function's results: the one given, else one read from the function.

    Args:
        name: ``key`` or ``value``.
        said: A type, a serde, or None.
        function: The function.
        part: Which part of its result is meant.
        step: The step that calls it.
        at: The user's line.

    Raises:
        UnknownSerdeError: If there is no serde for what was given.
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
        said: What the user gave for the sink.
        known: What is known from earlier steps.
        find: Finds a node by its name.
        step: The step whose records are written.
        at: The user's line.

    Raises:
        MissingSerdeError: If neither is there, and no function shows it.
    """
    serde = said
    if serde is None:
        unsaid = known is None or _undeclared(known)
        half = "key" if name == "key" else "value"
        serde = told_serde(find, step, half, known) if unsaid else known
    if serde is not None:
        return serde
    plural = {"key": "keys", "value": "values"}[name]
    msg = f"no serde is known for the {plural} of {step!r}"
    raise MissingSerdeError(
        msg,
        at=at,
        why=f"an earlier step gives {plural} of a new type, which Python does not show in advance",
        fix=f"give it where they are written: to(..., {name}=str), or whatever type they have; or"
        f" where they are made, with {name}= or by the annotation of a named function",
        fields={"part": name, "step": step},
    )


def _undeclared(known: Serde[Any] | None) -> bool:
    """Say whether the keys inside windowed keys have the default serde."""
    windowed = type(known) in {WindowedSerde, SessionWindowedSerde}
    return windowed and isinstance(getattr(known, "inner", None), ValueSerde)
