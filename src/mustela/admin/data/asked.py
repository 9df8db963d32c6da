"""A request for data: its path, parameters and body, checked one by one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

__all__ = ["Asked", "DataRefusal", "asked_of", "read_body"]

_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_FIELDS_MAX: Final = 64


class DataRefusal(Exception):
    """A request for data is refused.

    Args:
        status: The HTTP status.
        code: What is wrong, for programs.
        what: What is wrong, for people.
        fix: What to do.
        more: Further fields of the answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        what: str,
        fix: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.status = status
        self.code = code
        self.what = what
        self.fix = fix
        self.more = dict(more or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request.

    Attributes:
        method: ``GET``, ``HEAD`` or ``POST``.
        path: The parts of the path, decoded; a key may contain a slash.
        parameters: The query parameters.
        headers: The headers, by their names in lower case.
        body: The body.
        client: The client's address.
        scope: The scope of the token.
    """

    method: str = "GET"
    path: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    client: str = "?"
    scope: str = "nobody"

    def only(self, *known: str) -> None:
        """Refuse parameters other than these.

        Raises:
            DataRefusal: If there is another one.
        """
        for name in self.parameters:
            if name not in known:
                what = "a parameter is not known here"
                fix = f"use {', '.join(known)}" if known else "leave the parameters out"
                raise DataRefusal(400, "QUERY_PARAMETER", what, fix)

    def whole(self, name: str, default: int | None = None) -> int | None:
        """Return a parameter that is a whole number.

        Raises:
            DataRefusal: If it is none.
        """
        text = self.parameters.get(name)
        if text is None:
            return default
        if _WHOLE.fullmatch(text) is None:
            raise DataRefusal(400, "QUERY_PARAMETER", f"{name} is not a whole number")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return a parameter that is ``true`` or ``false``; without it, False.

        Raises:
            DataRefusal: If it is something else.
        """
        text = self.parameters.get(name, "false")
        if text not in ("true", "false"):
            raise DataRefusal(400, "QUERY_PARAMETER", f"{name} is not true or false")
        return text == "true"

    def document(self) -> Any:
        """Return the body, which is JSON, or MessagePack if the Content-Type says so.

        Raises:
            DataRefusal: If it is neither.
        """
        kind = self.headers.get("content-type", "application/json").partition(";")[0].strip()
        try:
            if kind in ("application/msgpack", "application/vnd.msgpack", "application/x-msgpack"):
                return msgspec.msgpack.decode(self.body)
            return msgspec.json.decode(self.body)
        except (ValueError, RecursionError):
            what = "the body is not JSON"
            raise DataRefusal(400, "QUERY_BODY", what, "send JSON or MessagePack") from None


def asked_of(scope: Mapping[str, Any]) -> Asked:
    """Return the request of an ASGI scope, without its body.

    Raises:
        DataRefusal: If path or parameters cannot be read.
    """
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }
    return Asked(
        method=scope["method"],
        path=_path(scope),
        parameters=_parameters(scope["query_string"]),
        headers=headers,
        client=str((scope.get("client") or ("?", 0))[0]),
        scope=str(scope.get("state", {}).get("mustela_scope", "nobody")),
    )


def _path(scope: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of the path, where the application is mounted.

    They are split before they are decoded, so that a key may contain a slash.
    """
    raw = scope.get("raw_path")
    parts = (raw if raw else scope["path"].encode()).partition(b"?")[0].split(b"/")[1:]
    above = [part for part in (scope.get("root_path") or "").split("/") if part]
    try:
        decoded = tuple(unquote_to_bytes(part).decode() for part in parts)
    except UnicodeDecodeError:
        what = "the path is not UTF-8"
        raise DataRefusal(400, "QUERY_PATH", what, "encode keys as UTF-8, then by %") from None
    return decoded[len(above) :] if list(decoded[: len(above)]) == above else decoded


def _parameters(given: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            given.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except (UnicodeError, ValueError):
        what = "the parameters cannot be read"
        raise DataRefusal(400, "QUERY_PARAMETER", what, "encode them as UTF-8, then by %") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        what = "a parameter is given twice"
        raise DataRefusal(400, "QUERY_PARAMETER", what, "give it once")
    return found


async def read_body(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]], bytes_max: int
) -> bytes:
    """Return the body of a request.

    Raises:
        DataRefusal: If it is too large, or the client has gone.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise DataRefusal(400, "QUERY_BODY", "the body is not complete")
        body += message.get("body", b"")
        if len(body) > bytes_max:
            what = f"a body has at most {bytes_max} bytes"
            raise DataRefusal(413, "QUERY_BODY", what, "ask for fewer keys at once")
        if not message.get("more_body", False):
            return bytes(body)
