"""How the keys of the two sides of a join are matched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mustela.api.errors import JoinKeysError
from mustela.api.given_types import is_read
from mustela.dsl.handle import Handle
from mustela.errors import Origin
from mustela.model import TIME_MAX
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde

__all__ = ["join_key"]


def join_key(
    left: Handle[Any, Any], right: Handle[Any, Any], said: Serde[Any] | None, *, at: Origin
) -> Serde[Any]:
    """Return the serde by whose bytes the two sides of a join are matched.

    Args:
        left: The left side.
        right: The right side.
        said: The serde that the user gave for the join.
        at: The user's line.

    Raises:
        JoinKeysError: If none was given and the sides encode their keys differently, or the keys
            are in different windows.
    """
    one, other = left.serdes[0], right.serdes[0]
    if is_read(one) and other is not None:
        one = None if not is_read(other) else one
    elif is_read(other) and one is not None:
        other = None
    if said is None and one is not None and other is not None and one != other:
        _check_windows(left, right, (one, other), at)
        msg = f"{left.name!r} and {right.name!r} cannot be joined: their keys differ"
        raise JoinKeysError(
            msg,
            evidence={"left": f"key {one.name}", "right": f"key {other.name}"},
            at=at,
            why='a join matches keys byte for byte, and 7 and "7" are different bytes',
            fix=f"first give the left side keys of the right side's type, with select_key, or give "
            f"key= at the join if {one.name} and {other.name} hold the same Python values",
            fields={"left": one.name, "right": other.name},
        )
    return said or one or other or ValueSerde(sort_keys=True)


def _check_windows(
    left: Handle[Any, Any],
    right: Handle[Any, Any],
    keys: tuple[Serde[Any], Serde[Any]],
    at: Origin,
) -> None:
    """Check that keys in windows are joined with keys in the same windows.

    Raises:
        JoinKeysError: If they are not.
    """
    told = [_windows(serde) for serde in keys]
    if told[0] == told[1]:
        return
    one, other = (what or "no windows" for what in told)
    if all(told):
        fix = "give both aggregations the same windows: windowed_by(...)"
    else:
        side = left if told[0] else right
        fix = (
            f"aggregate both sides in the same windows; or make a stream of {side.name!r} with"
            " plain keys, and join that: "
            "to_stream(lambda window, value: window.key, key=...)"
        )
    msg = f"{left.name!r} and {right.name!r} cannot be joined: their windows differ"
    raise JoinKeysError(
        msg,
        evidence={"left": one, "right": other},
        at=at,
        why="the key of a windowed aggregation includes its window, and only matches the same key"
        " in the same window",
        fix=fix,
        fields={"left": keys[0].name, "right": keys[1].name},
    )


def _windows(serde: Serde[Any]) -> str | None:
    """Return the windows that keys are in, None if they are in none."""
    if isinstance(serde, SessionWindowedSerde):
        return "sessions"
    if not isinstance(serde, WindowedSerde):
        return None
    if serde.size_ms == TIME_MAX:
        return "windows without end"
    return f"windows of {timedelta(milliseconds=serde.size_ms)}"
