"""Values compressed with zstd, one by one, with a dictionary that was made of rows like them.

A value of a hundred bytes has little to compress in itself, so the dictionary does it. Values stay
separate rows, because a read has one key and a write changes one row.

A compressed row looks like any other: four bytes of XXH32, then the value. The checksum's seed
tells them apart, so rows of both forms may lie in one table, and rows from before the compression
cost nothing. Frames have no magic number, no checksum and no id of a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from xxhash import xxh32_digest

from mustela.state.codec import CHECK_BYTES, seal, unseal
from mustela.state.faults import StateLibraryError

__all__ = ["PACKED_SEED", "Packing", "is_sound_row", "make_dictionary", "zstandard_module"]

PACKED_SEED = 0x7A737464
"""Seed of the checksum of a compressed value."""

_LEVEL = 3
_DICTIONARY_BYTES = 2_048
_WORTH = 0.8
"""A sample has to shrink to this part of itself."""


def zstandard_module() -> Any:
    """Return the library.

    Raises:
        StateLibraryError: If it is not installed.
    """
    try:
        import zstandard
    except ImportError as error:
        msg = "state with compressed values needs the library zstandard, which is not installed"
        fix = "pip install 'mustela[zstd]' on each host that runs or reads the application"
        raise StateLibraryError(msg, fix=fix) from error
    return zstandard


class Packing:
    """Seals and opens the rows of one table, with its dictionary.

    Args:
        dictionary: What `make_dictionary` returned.

    Raises:
        StateLibraryError: If the library is not installed.

    Example:
        >>> rows = [b'{"city": "Rome", "order": %d}' % number for number in range(1000)]
        >>> packing = Packing(make_dictionary(rows))
        >>> sealed = packing.seal(b"k", rows[7])
        >>> len(sealed) < len(rows[7]), packing.open(b"k", sealed) == rows[7]
        (True, True)
    """

    def __init__(self, dictionary: bytes) -> None:
        zstd: Any = zstandard_module()
        form = zstd.FORMAT_ZSTD1_MAGICLESS
        known = zstd.ZstdCompressionDict(dictionary)
        how = zstd.ZstdCompressionParameters.from_level(
            _LEVEL, format=form, write_content_size=1, write_checksum=0, write_dict_id=0
        )
        self._compress = zstd.ZstdCompressor(dict_data=known, compression_params=how).compress
        self._decompress = zstd.ZstdDecompressor(dict_data=known, format=form).decompress
        self._error: type[Exception] = zstd.ZstdError
        self._lock = Lock()  # the library's objects are for one thread at a time

    def seal(self, key: bytes, value: bytes) -> bytes:
        """Return the stored form of a value: compressed, if that is smaller."""
        with self._lock:
            packed = self._compress(value)
        if len(packed) >= len(value):
            return seal(key, value)
        return xxh32_digest(key + packed, PACKED_SEED) + packed

    def open(self, key: bytes, sealed: bytes) -> bytes | None:
        """Return the value in its stored form, of either kind; None if it was not written so."""
        packed = sealed[CHECK_BYTES:]
        if sealed[:CHECK_BYTES] == xxh32_digest(key + packed, PACKED_SEED):
            try:
                with self._lock:
                    return self._decompress(packed)
            except self._error:  # a plain row whose checksum is the other kind's, too
                return unseal(key, sealed)
        return unseal(key, sealed)


def is_sound_row(key: bytes, sealed: bytes) -> bool:
    """Return whether a row of either kind is what was written; needs no library."""
    packed = sealed[CHECK_BYTES:]
    checks = xxh32_digest(key + packed), xxh32_digest(key + packed, PACKED_SEED)
    return sealed[:CHECK_BYTES] in checks


def make_dictionary(values: Sequence[bytes]) -> bytes:
    """Return a dictionary for values like these; empty if it would save too little.

    Raises:
        StateLibraryError: If the library is not installed.

    Example:
        >>> import random
        >>> make_dictionary([random.randbytes(50) for _ in range(1000)])
        b''
    """
    zstd: Any = zstandard_module()
    probes = values[::5]
    learned = [value for at, value in enumerate(values) if at % 5]
    try:
        dictionary = zstd.train_dictionary(_DICTIONARY_BYTES, learned).as_bytes()
    except zstd.ZstdError:  # too few bytes, or too much alike
        return b""
    packing = Packing(dictionary)
    packed = sum(len(packing.seal(b"", value)) - CHECK_BYTES for value in probes)
    return dictionary if packed <= _WORTH * sum(map(len, probes)) else b""
