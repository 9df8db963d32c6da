"""The options of a data frame, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mustela.frames.errors import FrameOptionError

__all__ = ["OPTIONS", "FrameOptions", "options_of"]

OPTIONS: Final = (
    "app",
    "stateDir",
    "url",
    "tokenFile",
    "tokenEnv",
    "certificate",
    "store",
    "columns",
    "epoch",
    "lifetime",
    "partitions",
    "keyFrom",
    "keyTo",
)
"""The options, as they are written; upper and lower case are the same to Spark."""

_PARTITIONS_MAX: Final = 1_024
_BY_LOWER: Final = {name.lower(): name for name in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOptions:
    """The options of a data frame.

    Attributes:
        app: The application, if it runs on this host.
        state_dir: Its directory of state, if that is not the usual one.
        url: The address of the admin server, of an application or of a replica.
        token_file: The file with a token for it.
        token_env: The name of the environment variable with that token.
        certificate: The file with the certificate to trust.
        store: The store.
        columns: The columns; None for all.
        epoch: The epoch; None for the newest.
        lifetime: For how long the data frame can be read, in seconds.
        partitions: The most partitions.
        key_from: The lowest key, as text; None leaves the side open.
        key_to: The highest key, included.
    """

    app: str | None = None
    state_dir: str | None = None
    url: str | None = None
    token_file: str | None = None
    token_env: str | None = None
    certificate: str | None = None
    store: str = ""
    columns: tuple[str, ...] | None = None
    epoch: int | None = None
    lifetime: float = 120.0
    partitions: int = 8
    key_from: str | None = None
    key_to: str | None = None


def options_of(given: Mapping[str, str], *, needs_store: bool = True) -> FrameOptions:
    """Return checked options.

    Args:
        given: The options as text.
        needs_store: Whether a store must be named.

    Raises:
        FrameOptionError: If one is missing, unknown, or cannot be read.

    Example:
        >>> options_of({"app": "orders", "store": "counts", "partitions": "2"}).partitions
        2
    """
    found = {name.lower(): value for name, value in given.items()}
    _check_known(found)
    url, app = found.get("url"), found.get("app")
    if bool(url) == bool(app):
        what = "a data frame needs an application: neither app nor url is given"
        if url:
            what = "a data frame has one source: app and url are both given"
        fix = 'give option("app", APPLICATION_ID) on its host, or option("url", ADDRESS) elsewhere'
        raise FrameOptionError(what, fix=fix)
    if url and not url.startswith(("http://", "https://")):
        what = "the option url is no address of a server"
        raise FrameOptionError(what, fix="begin it with http:// or https://")
    if found.get("tokenfile") and found.get("tokenenv"):
        what = "a data frame has one token: tokenFile and tokenEnv are both given"
        raise FrameOptionError(what, fix="leave out one of them")
    if needs_store and not found.get("store"):
        fix = 'give option("store", NAME); `mustela state list` has the names'
        msg = "a data frame is of one store, and none is given"
        raise FrameOptionError(msg, fix=fix)
    columns = [each.strip() for each in found.get("columns", "").split(",") if each.strip()]
    epoch = found.get("epoch")
    return FrameOptions(
        app=app or None,
        state_dir=found.get("statedir"),
        url=url or None,
        token_file=found.get("tokenfile"),
        token_env=found.get("tokenenv"),
        certificate=found.get("certificate"),
        store=found.get("store", ""),
        columns=tuple(columns) or None,
        epoch=None if epoch is None else _whole("epoch", epoch, 0, 2**62),
        lifetime=_whole("lifetime", found.get("lifetime", "120"), 1, 300),
        partitions=_whole("partitions", found.get("partitions", "8"), 1, _PARTITIONS_MAX),
        key_from=found.get("keyfrom"),
        key_to=found.get("keyto"),
    )


def _check_known(found: Mapping[str, str]) -> None:
    for name in found:
        if name in ("token", "path"):
            what = f"the option {name} is not taken: options are shown in plans and logs"
            if name == "path":
                what = "a data frame of a store has no path"
            fix = "name the token's file with tokenFile, or its environment variable with tokenEnv"
            fix = fix if name == "token" else 'use load() without a path, and option("store", NAME)'
            raise FrameOptionError(what, fix=fix)
        if name not in _BY_LOWER:
            what = f"there is no option {name}"
            raise FrameOptionError(what, fix=f"use {', '.join(OPTIONS)}")


def _whole(name: str, text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdigit() and least <= int(text) <= most:
        return int(text)
    what = f"the option {name} is not a whole number from {least} to {most}"
    raise FrameOptionError(what, fix=f'give option("{name}", {max(least, min(most, 120))})')
