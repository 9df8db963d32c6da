"""Names of steps, stores and topics: checked if given, made from the path if not.

No name comes from a counter. A step's default name is its parent's name and the verb, so adding a
step does not rename the others, and state keeps its store.
"""

from __future__ import annotations

import hashlib
import re

from mustela.api.errors import BadNameError
from mustela.errors import Origin

__all__ = ["NAME_LENGTH_MAX", "STORE_NAME_LENGTH_MAX", "check_name", "path_name", "snake_case"]

NAME_LENGTH_MAX = 249
"""The longest name that Kafka allows for a topic."""

STORE_NAME_LENGTH_MAX = 200
"""Leaves room for the application's id and ``-changelog`` in the name of the store's topic."""

_ALLOWED = re.compile(r"[A-Za-z0-9._-]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]")


def snake_case(name: str) -> str:
    """Return a Java name as Python writes it.

    Example:
        >>> snake_case("flatMapValues")
        'flat_map_values'
    """
    return _HUMP.sub("_", name).lower()


def check_name(name: object, *, what: str, at: Origin, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return a name that the user gave, if it follows Kafka's rule for names.

    Raises:
        BadNameError: If it does not.
    """
    good = (
        isinstance(name, str)
        and len(name) <= length_max
        and name not in {".", ".."}
        and _ALLOWED.fullmatch(name) is not None
    )
    if good:
        return str(name)
    fix = f"use 1 to {length_max} letters, digits, dots, underscores and hyphens"
    if isinstance(name, str) and (mended := _NOT_ALLOWED.sub("-", name)[:length_max].strip(".")):
        fix += f", as in {mended!r}"
    msg = f"{name!r} cannot be the name of a {what}"
    raise BadNameError(
        msg,
        at=at,
        why=f"names follow Kafka's rule for topics: [a-zA-Z0-9._-], 1 to {length_max} of them",
        fix=fix,
        fields={"name": name, "what": what},
    )


def path_name(*parts: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Join the parts of a path; if the name is too long, keep its end and a hash of the rest.

    Example:
        >>> path_name("lines", "map_values")
        'lines.map_values'
    """
    name = ".".join(part for part in parts if part)
    if len(name) <= length_max:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{digest}.{name[len(name) - length_max + 13 :].lstrip('.')}"
