"""The pending of an environment that was decoded last, so that it is decoded once."""

from __future__ import annotations

from pathlib import Path

from mustela.state.codec import BLOB_CHECK_BYTES, Layer, decode_pending
from mustela.state.interfaces import Token
from mustela.state.lmdb_files import damaged

__all__ = ["DecodedPending"]


class DecodedPending:
    """Keeps one decoded pending, by its token and its checksum."""

    def __init__(self) -> None:
        self._known: tuple[Token, bytes, Layer] | None = None

    def layer(self, token: Token, blob: bytes, path: Path) -> Layer:
        """Return a pending, already decoded in a process that wrote or read it before.

        Args:
            token: Names the pending.
            blob: What is stored.
            path: For messages.

        Raises:
            StateError: If it is not what was written.
        """
        known = self._known
        if known is not None and known[:2] == (token, blob[:BLOB_CHECK_BYTES]):
            return known[2]
        layer = decode_pending(blob)
        if layer is None:
            raise damaged(path, "a pending fails its check", token=token)
        self.note(token, blob, layer)
        return layer

    def note(self, token: Token, blob: bytes, layer: Layer) -> None:
        """Remember a pending that was written."""
        self._known = token, blob[:BLOB_CHECK_BYTES], layer

    def clear(self) -> None:
        """Forget it."""
        self._known = None
