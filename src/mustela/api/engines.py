"""How a store's rows lie on disk, as users say it."""

from __future__ import annotations

from typing import get_args

from mustela.api.errors import BadOptionError
from mustela.errors import Origin
from mustela.state.engine import PLAIN_ENGINE, Compression, Engine
from mustela.state.packing import zstandard_module

__all__ = ["checked_engine"]

_FILL_MAX = 0.95
_MAP_BYTES_MIN = 1 << 20


def checked_engine(given: object, *, at: Origin) -> Engine:
    """Return what a user says of a store's files.

    Raises:
        BadOptionError: If it says what cannot be.
        StateLibraryError: If it needs a library that is not installed.
    """
    if given is None:
        return PLAIN_ENGINE
    if not isinstance(given, Engine):
        fix = 'pass mustela.stores.Engine(compression="zstd"), or leave out engine='
        raise _bad(at, "engine", given, fix)
    if given.compression not in get_args(Compression):
        fix = f"use one of {', '.join(get_args(Compression))}"
        raise _bad(at, "compression", given.compression, fix)
    fill, size = given.page_fill, given.map_size
    if fill is not None and not (_is_number(fill) and 0 <= fill <= _FILL_MAX):
        fix = f"give a part of a page, from 0 to {_FILL_MAX}: Engine(page_fill=0.9)"
        raise _bad(at, "page_fill", fill, fix)
    if size is not None and not (type(size) is int and size >= _MAP_BYTES_MIN):
        fix = "give a number of bytes, at least a megabyte: Engine(map_size=64 << 30)"
        raise _bad(at, "map_size", size, fix)
    if given.compression != "none":
        zstandard_module()
    return given


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _bad(at: Origin, option: str, value: object, fix: str) -> BadOptionError:
    msg = f"a store cannot have {option}={value!r}"
    return BadOptionError(msg, at=at, fix=fix, fields={"option": option})
