"""How producers compress: by lz4, unless their properties say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["COMPRESSION", "codec_of", "names_codec"]

COMPRESSION: Final = "compression.type"
_DEFAULT = "lz4"
"""The way that takes less time than the bytes that it spares: of JSON it leaves a third or less."""
_NAMES = (COMPRESSION, "compression.codec")


def names_codec(properties: Mapping[str, Any]) -> bool:
    """Whether a client's properties say how to compress, be it not at all.

    Example:
        >>> names_codec({"compression.codec": "none"}), names_codec({"linger.ms": 5})
        (True, False)
    """
    return any(properties.get(name) for name in _NAMES)


def codec_of(properties: Mapping[str, Any]) -> str:
    """Return the name of the compression that a client's properties ask for.

    Example:
        >>> codec_of({"compression.codec": "zstd"}), codec_of({})
        ('zstd', 'lz4')
    """
    return str(next((properties[name] for name in _NAMES if properties.get(name)), _DEFAULT))
