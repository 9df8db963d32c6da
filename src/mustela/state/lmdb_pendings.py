"""Pendings in an LMDB environment: cut into pages, and decoded once.

A value above a page lies on as many pages side by side. LMDB makes the file longer where so many
free ones are not side by side, so a large pending is stored in pieces of two pages each: the
first under its token, the others under the token and their number. Of pieces of one page LMDB would
keep the memory that it wrote them from, for each environment as much as its largest pending took.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mustela.state.codec import BLOB_CHECK_BYTES, Layer, decode_pending, token_key
from mustela.state.interfaces import Token
from mustela.state.lmdb_files import OpenEnvironment, damaged

if TYPE_CHECKING:
    import lmdb

    Txn = lmdb.Transaction[bytes]

__all__ = ["DecodedPending", "has_pending", "pieces_of", "put_pending"]

_SMALL_BYTES = 4_000
_PAGE_HEAD_BYTES = 16
_PIECE_PAGES = 2
_NUMBER_BYTES = 4


def has_pending(txn: Txn, handle: OpenEnvironment, token: Token | None) -> bool:
    """Return whether there is a pending of that token."""
    return token is not None and txn.get(token_key(token), None, handle.pending) is not None


def put_pending(txn: Txn, handle: OpenEnvironment, token: Token, blob: bytes) -> None:
    """Store a pending."""
    key = token_key(token)
    if len(blob) <= _SMALL_BYTES:
        txn.put(key, blob, db=handle.pending)
        return
    size = _PIECE_PAGES * handle.env.stat()["psize"] - _PAGE_HEAD_BYTES
    txn.cursor(handle.pending).putmulti(pieces_of(key, blob, size))


def pieces_of(key: bytes, blob: bytes, size: int) -> list[tuple[bytes, bytes]]:
    """Return the rows that hold a pending.

    Args:
        key: That of its token.
        blob: What is to be stored.
        size: The most bytes of a row.

    Example:
        >>> [piece for _, piece in pieces_of(b"token", b"abcdefg", 3)]
        [b'abc', b'def', b'g']
    """
    others = enumerate(range(size, len(blob), size), 1)
    rows = [(key + number.to_bytes(_NUMBER_BYTES), blob[at : at + size]) for number, at in others]
    return [(key, blob[:size]), *rows]


def _others(txn: Txn, handle: OpenEnvironment, key: bytes) -> Iterator[bytes]:
    """Iterate over the pieces after the first."""
    cursor = txn.cursor(handle.pending)
    if cursor.set_key(key):
        for found, piece in cursor.iternext():
            if not found.startswith(key):
                return
            if found != key:
                yield piece


class DecodedPending:
    """Keeps one decoded pending, by its token and its checksum."""

    def __init__(self) -> None:
        self._known: tuple[Token, bytes, Layer] | None = None
        self.size = 0
        """Its bytes."""

    def layer(self, txn: Txn, handle: OpenEnvironment, token: Token, path: Path) -> Layer:
        """Return a pending, already decoded in a process that wrote or read it before.

        Args:
            txn: Reads it.
            handle: Where it is.
            token: Names the pending.
            path: For messages.

        Raises:
            StateError: If it is not what was written.
        """
        key = token_key(token)
        first = txn.get(key, None, handle.pending)
        if first is None:
            raise damaged(path, "a pending is gone", token=token)
        known = self._known
        if known is not None and known[:2] == (token, first[:BLOB_CHECK_BYTES]):
            return known[2]
        blob = b"".join([first, *_others(txn, handle, key)])
        layer = decode_pending(blob)
        if layer is None:
            raise damaged(path, "a pending fails its check", token=token)
        self.note(token, blob, layer)
        return layer

    def note(self, token: Token, blob: bytes, layer: Layer) -> None:
        """Remember a pending that was written."""
        self._known = token, blob[:BLOB_CHECK_BYTES], layer
        self.size = len(blob)

    def keep_only(self, token: Token | None) -> None:
        """Forget it, unless it is of this token."""
        if self._known is not None and self._known[0] != token:
            self.clear()

    def clear(self) -> None:
        """Forget it."""
        self._known = None
