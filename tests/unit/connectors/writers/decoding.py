"""Reads record batches as Kafka describes their format, and knows nothing of what writes them."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import google_crc32c
import lz4.frame
import zstandard

from mustela.model import Headers

Row = tuple[bytes | None, bytes | None, int, Headers]


class Reader:
    """Reads the records of a batch as Kafka's description of its format says."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number // 2 if number % 2 == 0 else -(number // 2) - 1

    def sized(self) -> bytes | None:
        size = self.varint()
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at]

    def row(self, first: int, delta: int) -> Row:
        size = self.varint()
        end = self.at + size
        assert self.data[self.at] == 0
        self.at += 1
        stamp = first + self.varint()
        assert self.varint() == delta
        key, value = self.sized(), self.sized()
        headers = tuple(
            ((self.sized() or b"").decode(), self.sized()) for _ in range(self.varint())
        )
        assert self.at == end
        return key, value, stamp, headers


def decode(*parts: bytes) -> tuple[dict[str, int], list[Row]]:
    """Read a batch: what its head says, and its rows."""
    data = b"".join(parts)
    _, length, _, magic, crc = struct.unpack(">qiibI", data[:21])
    names = ("attributes", "last", "first time", "last time", "id", "epoch", "sequence", "count")
    head: dict[str, int] = dict(zip(names, struct.unpack(">hiqqqhii", data[21:61]), strict=True))
    assert (magic, length, crc) == (2, len(data) - 12, google_crc32c.value(data[21:]))
    unpack: Any = {0: bytes, 1: gzip.decompress, 3: lz4.frame.decompress, 4: zstandard.decompress}[
        head["attributes"] & 7
    ]
    reader = Reader(unpack(data[61:]))
    rows = [reader.row(head["first time"], delta) for delta in range(head["count"])]
    assert reader.at == len(reader.data)
    return head, rows
