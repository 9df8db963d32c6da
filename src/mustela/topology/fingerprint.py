"""A hash of a topology's shape: what must stay the same for its state to keep its meaning."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from mustela.serdes.base import Serde
from mustela.topology.node import Node

__all__ = ["FINGERPRINT_FORMAT", "fingerprint"]

FINGERPRINT_FORMAT = 1
"""Version of the way in which a topology is hashed."""

_IGNORED = frozenset(
    {
        "origin",
        "on_error",
        "explicit_name",
        "explicit_store",
        "rules",
        "watermark",
        "late",
        "schedule",
        "catch_up",
        "asks",
        "null_keys",
        "subscribed",
        "own_kind",
        "indexes",
        "engine",
    }
)

_ADDED_SINCE = frozenset(
    {
        *("supplier", "plain"),
        *("timestamp_extractor", "pattern"),
        *("window_ms", "segment_ms", "history_retention_ms", "duplicates", "indexed"),
        *("max_entries", "cached", "with_headers", "renamed_from", "row_versions"),
        "spans",
        "by_value",
        *("ttl_ms", "ttl_by"),
        *("back", "held"),
    }
)
"""Fields that were added to nodes and stores later: left out if they hold their default, so that
the hash of a topology that does not use them does not change."""


def fingerprint(nodes: Iterable[Node]) -> str:
    """Return a hash of names, kinds, edges, serdes, stores, topics and options.

    The bodies of user functions, their line numbers and the order of independent steps do not
    count: a function can be corrected without losing its state.

    Args:
        nodes: A `Topology`, or its nodes.

    Example:
        >>> len(fingerprint(()))
        32
    """
    shape = [_shape(node) for node in sorted(nodes, key=lambda node: node.name)]
    text = json.dumps([FINGERPRINT_FORMAT, shape], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _shape(value: object) -> Any:
    if isinstance(value, Serde):
        return {"serde": cast("Serde[Any]", value).name}
    if is_dataclass(value) and not isinstance(value, type):
        shown = {
            field.name: _shape(getattr(value, field.name))
            for field in fields(value)
            if field.name not in _IGNORED
            and not (field.name in _ADDED_SINCE and getattr(value, field.name) == field.default)
        }
        return {"kind": type(value).__name__, **shown}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name): _shape(item) for name, item in items}
    if isinstance(value, Sequence):
        return [_shape(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, re.Pattern):
        pattern = cast("re.Pattern[str]", value)
        return {"pattern": pattern.pattern, "flags": pattern.flags}
    return "function" if callable(value) else type(value).__name__
