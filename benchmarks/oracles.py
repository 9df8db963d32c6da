"""What the output must be, worked out from the input alone, and what it was.

An oracle sees every input record while the topic is filled. It shares no code with any peer. After
a run it reads the whole output and says what is wrong; a run with anything wrong has no number.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from benchmarks.records import Record

_HASH_SPACE = 1 << 128
_BRANCHES = {"EUR": "eur", "USD": "usd"}
_SHOWN = 3

OutputRecord = tuple[str, bytes | None, bytes | None]
"""Which output topic (the part behind its stem, empty for the only one), key, value."""


class Oracle(Protocol):
    """Knows the right output of a workload."""

    def see(self, record: Any) -> None:
        """Take in one input record, with its time where the workload gives it one."""
        ...

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        """What is wrong with an output, in sentences; nothing when it is right."""
        ...


@dataclass(slots=True)
class Multiset:
    """A fingerprint of records that does not depend on their order."""

    count: int = 0
    total: int = 0

    def add(self, *parts: bytes) -> None:
        """Put in one record; two records are one when all their parts are."""
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            digest.update(struct.pack(">I", len(part)))
            digest.update(part)
        self.total = (self.total + int.from_bytes(digest.digest(), "big")) % _HASH_SPACE
        self.count += 1

    def difference(self, other: Multiset) -> list[str]:
        """What tells this (expected) from the other (found)."""
        if self.count != other.count:
            return [f"{self.count} records expected, {other.count} found"]
        if self.total != other.total:
            return [f"{self.count} records as expected, but not the same ones"]
        return []


@dataclass(slots=True)
class StatelessOracle:
    """Every input record gives a known list of output records, in any order."""

    expand: Callable[[Record], list[tuple[str, bytes, bytes]]]
    canonical: Callable[[bytes], bytes]
    _expected: Multiset = field(default_factory=Multiset)

    def see(self, record: Record) -> None:
        for branch, key, value in self.expand(record):
            self._expected.add(branch.encode(), key, self.canonical(value))

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        found = Multiset()
        for branch, key, value in output:
            if key is None or value is None:
                return [f"a record without key or value in output {branch!r}"]
            found.add(branch.encode(), key, self.canonical(value))
        return self._expected.difference(found)


@dataclass(slots=True)
class TableOracle:
    """The last value of every key must be known; changes on the way there are free."""

    fold: Callable[[dict[bytes, bytes], Record], None]
    _expected: dict[bytes, bytes] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        self.fold(self._expected, record)

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        found: dict[bytes, bytes] = {}
        for _, key, value in output:
            if key is None or value is None:
                return ["a record without key or value in the table's output"]
            found[key] = value
        return table_faults(self._expected, found)


@dataclass(slots=True)
class CountOracle:
    """How often each key was counted: the final table, as 8-byte big-endian numbers."""

    split: Callable[[Record], Iterable[bytes]]
    _counts: Counter[bytes] = field(default_factory=Counter[bytes])

    def see(self, record: Record) -> None:
        self._counts.update(self.split(record))

    def check(self, output: Iterable[OutputRecord]) -> list[str]:
        found: dict[bytes, bytes] = {}
        for _, key, value in output:
            if key is None or value is None or len(value) != 8:
                return [f"not a count: key {key!r}, value {value!r}"]
            found[key] = value
        expected = {key: struct.pack(">q", count) for key, count in self._counts.items()}
        return table_faults(expected, found)


def table_faults(expected: dict[bytes, bytes], found: dict[bytes, bytes]) -> list[str]:
    """What is wrong with a table, kind by kind, with examples."""
    missing = [key for key in expected if key not in found]
    extra = [key for key in found if key not in expected]
    wrong = [key for key in expected if key in found and found[key] != expected[key]]
    faults: list[str] = []
    for name, keys in (("missing", missing), ("unknown", extra), ("wrong", wrong)):
        if keys:
            shown = ", ".join(_shown(key, expected, found) for key in keys[:_SHOWN])
            faults.append(f"{len(keys)} keys {name}, such as {shown}")
    return faults


def _shown(key: bytes, expected: dict[bytes, bytes], found: dict[bytes, bytes]) -> str:
    if key in expected and key in found:
        return f"{key!r} with {found[key]!r}, not {expected[key]!r}"
    return repr(key)


def same_bytes(value: bytes) -> bytes:
    """For outputs that must agree byte by byte."""
    return value


def canonical_json(value: bytes) -> bytes:
    """For outputs that must agree as JSON: fields in order of their names, numbers as numbers."""
    return msgspec.json.encode(msgspec.json.decode(value), order="sorted")


def unchanged(record: Record) -> list[tuple[str, bytes, bytes]]:
    """W1a: the record itself."""
    key, value = record
    return [("", key or b"", value)]


def converted(record: Record) -> list[tuple[str, bytes, bytes]]:
    """W1b: payments of 100 and more, with the euro amount, two fields renamed."""
    key, value = record
    payment = json.loads(value)
    if payment["amount"] < 100:
        return []
    return [("", key or b"", json.dumps(_convert(payment)).encode())]


def advanced(record: Record) -> list[tuple[str, bytes, bytes]]:
    """W1c: two legs of each payment but every fifth, by account, to a topic by currency."""
    _, value = record
    payment = _convert(json.loads(value))
    branch = _BRANCHES.get(str(payment["currency"]), "other")
    account = str(payment["account_id"]).encode()
    number = payment["id"]
    assert isinstance(number, int)
    return [
        (branch, account, json.dumps({**payment, "leg": leg}).encode())
        for leg in (0, 1)
        if (number + leg) % 5
    ]


def _convert(payment: dict[str, object]) -> dict[str, object]:
    amount = payment["amount"]
    assert isinstance(amount, float)
    converted = {**payment, "amount_eur": round(amount * 0.908, 3)}
    converted["account_id"] = converted.pop("account")
    converted["merchant_id"] = converted.pop("merchant")
    return converted


def words_of(record: Record) -> list[bytes]:
    """The words of a line."""
    return record[1].split()


def key_of(record: Record) -> list[bytes]:
    """The key, once."""
    assert record[0] is not None
    return [record[0]]


def keep_newest(table: dict[bytes, bytes], record: Record) -> None:
    """A table of the newest value of every key."""
    assert record[0] is not None
    table[record[0]] = record[1]
