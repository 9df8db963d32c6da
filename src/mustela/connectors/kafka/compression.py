"""How writers of transactions compress: large batches by lz4, unless properties say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["UNASKED", "codec_of"]

UNASKED: Final = "lz4 where it pays"
"""What is done where nothing is said: a small batch, or one that shrinks little, costs more to pack
and to unpack than it spares."""


def codec_of(properties: Mapping[str, Any]) -> str:
    """Return the name of the compression that a client's properties ask for, or `UNASKED`.

    Example:
        >>> codec_of({"compression.codec": "zstd"}), codec_of({"linger.ms": 5})
        ('zstd', 'lz4 where it pays')
    """
    named = ("compression.type", "compression.codec")
    return str(next((properties[name] for name in named if properties.get(name)), UNASKED))
