"""What an answer is written as: JSON or MessagePack, as the client accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mustela.admin.data.asked import DataRefusal

__all__ = ["ARROW", "JSON", "MSGPACK", "Encoding", "by_preference", "encoding_for"]

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
ARROW: Final = "application/vnd.apache.arrow.stream"
_ALIASES: Final = {"application/x-msgpack": MSGPACK, "application/vnd.msgpack": MSGPACK}


class Encoding(NamedTuple):
    """How documents are written.

    Attributes:
        kind: The media type.
        encode: Writes a document.
    """

    kind: str
    encode: Callable[[Mapping[str, Any]], bytes]


def encoding_for(accept: str) -> Encoding:
    """Return what a client accepts most, JSON if it accepts anything.

    Args:
        accept: The Accept header.

    Raises:
        DataRefusal: If none of them is accepted.

    Example:
        >>> encoding_for("text/html, application/msgpack;q=0.9").kind
        'application/msgpack'
        >>> encoding_for("").encode({"a": 1})
        b'{"a":1}'
    """
    for kind in by_preference(accept or "*/*"):
        if kind in ("*/*", "application/*"):
            return Encoding(JSON, _json)
        if kind in _OFFERED:
            return Encoding(kind, _OFFERED[kind])
    what = "none of the accepted media types is available"
    fix = f"accept {' or '.join(_OFFERED)}"
    raise DataRefusal(406, "QUERY_ACCEPT", what, fix)


def by_preference(accept: str) -> list[str]:
    """Return the media types of an Accept header, the one that is wanted most first."""
    found: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept.split(",")[:50]):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = _weight(parameters)
        if weight > 0:
            found.append((-weight, place, _ALIASES.get(kind, kind)))
    return [kind for _, _, kind in sorted(found)]


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _json(document: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(document)


def _msgpack(document: Mapping[str, Any]) -> bytes:
    return msgspec.msgpack.encode(document)


_OFFERED: Final = {JSON: _json, MSGPACK: _msgpack}
