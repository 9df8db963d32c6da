"""Cursors: where the next page begins, signed so that only this server can have written them."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

import msgspec

from mustela.admin.data.asked import DataRefusal

__all__ = ["Cursor", "Cursors"]

_MAC_BYTES: Final = 16
_LENGTH_MAX: Final = 3_000
_FORM: Final = 1


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page ended.

    Attributes:
        epoch: The epoch of the page.
        question: A hash of what was asked.
        after: The position of the page's last row.
    """

    epoch: int
    question: bytes
    after: bytes


class Cursors:
    """Writes cursors, and reads back only its own.

    Args:
        key: What they are signed with; a run has its own, so a cursor lives no longer than it.

    Example:
        >>> cursors = Cursors(b"k" * 32)
        >>> text = cursors.write(7, ("counts", "a"), b"last key")
        >>> cursors.read(text, ("counts", "a"))
        Cursor(epoch=7, question=b'...', after=b'last key')
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, epoch: int, question: tuple[object, ...], after: bytes) -> str:
        """Return the cursor for the rows after a position.

        Args:
            epoch: The epoch of the page.
            question: What was asked: a cursor continues only the same question.
            after: The position of the last row.
        """
        data = msgspec.msgpack.encode(Cursor(epoch, _hash(question), after))
        return urlsafe_b64encode(bytes([_FORM]) + self._mac(data) + data).rstrip(b"=").decode()

    def read(self, text: str, question: tuple[object, ...]) -> Cursor:
        """Return what a cursor says.

        Raises:
            DataRefusal: If it was not written by this server in this run, or for this question.
        """
        try:
            if len(text) > _LENGTH_MAX:
                raise _foreign()
            given = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except ValueError:
            raise _foreign() from None
        if urlsafe_b64encode(given).rstrip(b"=") != text.encode("ascii"):
            raise _foreign()
        mac, data = given[1 : 1 + _MAC_BYTES], given[1 + _MAC_BYTES :]
        if given[:1] != bytes([_FORM]) or not hmac.compare_digest(mac, self._mac(data)):
            raise _foreign()
        cursor = msgspec.msgpack.decode(data, type=Cursor)
        if not hmac.compare_digest(cursor.question, _hash(question)):
            what = "the cursor belongs to another question"
            fix = "repeat the parameters of the first page; limit may change"
            raise DataRefusal(400, "QUERY_CURSOR", what, fix)
        return cursor

    def _mac(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")[:_MAC_BYTES]


def _hash(question: tuple[object, ...]) -> bytes:
    return sha256(msgspec.msgpack.encode(question)).digest()[:_MAC_BYTES]


def _foreign() -> DataRefusal:
    what = "the cursor is not one of this server's, or of an earlier run"
    return DataRefusal(400, "QUERY_CURSOR", what, "ask without cursor, from the first page")
