"""Which partition of a topic a key goes to, as Kafka's clients choose it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["partition_of"]

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


@lru_cache(maxsize=8_192)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses: murmur2 of the key.

    Example:
        >>> partition_of(b"os.py", 4), partition_of(b"21", 1000)
        (1, 340)
    """
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ (word >> 24)) * _FACTOR & _MASK
        hashed = (hashed * _FACTOR & _MASK) ^ word
    if length > whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _FACTOR & _MASK
    hashed = (hashed ^ (hashed >> 13)) * _FACTOR & _MASK
    return hashed ^ (hashed >> 15)
