"""How the keys of two sides of a join come together."""

from __future__ import annotations

from typing import Any

from mustela.dsl.given_types import is_read
from mustela.dsl.handle import Handle
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.errors import JoinKeysError

__all__ = ["join_key"]


def join_key(
    left: Handle[Any, Any], right: Handle[Any, Any], said: Serde[Any] | None, *, at: Origin
) -> Serde[Any]:
    """Return the serde by whose bytes both sides of a join find each other.

    Args:
        left: The left side.
        right: The right side.
        said: What the user said at the join.
        at: The user's line.

    Raises:
        JoinKeysError: If nothing was said and the sides' keys are written in two ways.
    """
    one, other = left._key, right._key  # pyright: ignore[reportPrivateUsage]
    if is_read(one) and other is not None:
        one = None if not is_read(other) else one
    elif is_read(other) and one is not None:
        other = None
    if said is None and one is not None and other is not None and one != other:
        msg = f"{left.name!r} and {right.name!r} cannot be joined: their keys differ"
        raise JoinKeysError(
            msg,
            evidence={"left": f"key {one.name}", "right": f"key {other.name}"},
            at=at,
            why='a join matches keys byte for byte, and 7 and "7" are different bytes',
            fix=f"give the left side keys of the right side's type first, with select_key, or say "
            f"key= at the join if {one.name} and {other.name} hold the same Python values",
            fields={"left": one.name, "right": other.name},
        )
    return said or one or other or ValueSerde(sort_keys=True)
