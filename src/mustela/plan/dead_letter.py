"""A dead letter as it is read back: which record it was, why it failed, and how it is replayed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

from mustela.model import Headers
from mustela.plan.letters import FACT, KAFKA_FACT, is_fact

__all__ = [
    "REPLAYS",
    "Letter",
    "LetterFilter",
    "decode_done",
    "done_key",
    "encode_done",
    "replays_topic",
]

REPLAYS: Final = "mustela.replays"
_DIGITS_MAX: Final = 9
"""Header of a replayed record: how often it was replayed."""
_CUT = f"{FACT}cut."
_MADE = f"{FACT}value"
_KAFKAS = {"class": "exception", "text": "message", "line": "stacktrace"}


def replays_topic(letters: str) -> str:
    """Return the topic that says which letters are done with.

    Example:
        >>> replays_topic("shop-dead-letters")
        'shop-dead-letters-replays'
    """
    return f"{letters}-replays"


def _number(text: str) -> int | None:
    """Return a number of a header; whoever sends a record chooses what is in its headers."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS_MAX else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter.

    Attributes:
        partition: Its partition.
        offset: Its offset.
        timestamp: The record's time in milliseconds.
        key: The record's key.
        value: The record's value.
        headers: All headers.

    Example:
        >>> headers = (("trace", b"1"), ("mustela.error.topic", b"orders"))
        >>> letter = Letter(partition=0, offset=7, timestamp=1, key=b"k", value=b"v",
        ...                 headers=headers)
        >>> letter.place, letter.fact("topic"), letter.own_headers
        ('0:7', 'orders', (('trace', b'1'),))
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def place(self) -> str:
        """Partition and offset, as commands take them."""
        return f"{self.partition}:{self.offset}"

    def fact(self, name: str) -> str:
        """Return what a header says of the failure; empty where none does.

        The last one counts: a record that was replayed may have failed again.
        """
        found = dict(self.headers)
        value = found.get(f"{FACT}{name}")
        if value is None:
            value = found.get(f"{KAFKA_FACT}{_KAFKAS.get(name, name)}")
        return "" if value is None else value.decode("utf-8", "replace")

    @property
    def source(self) -> tuple[str, int | None]:
        """The topic and, where it is known, the partition that the record was read from."""
        partition = self.fact("partition")
        return self.fact("topic"), _number(partition)

    @property
    def is_made(self) -> bool:
        """Whether the letter has what reached the step, and not the record as it was read."""
        return any(name == _MADE for name, _ in self.headers)

    def with_record(self, record: Letter) -> Letter:
        """Return the letter with a record's key, value, headers and time as they were read."""
        facts = tuple((n, v) for n, v in self.headers if is_fact(n) and n != _MADE)
        return replace(
            self,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp,
            headers=(*record.headers, *facts),
        )

    @property
    def replays(self) -> int:
        """How often the record was replayed before it became this letter."""
        found = (dict(self.headers).get(REPLAYS) or b"").decode("ascii", "replace")
        return _number(found) or 0

    @property
    def own_headers(self) -> Headers:
        """The headers that the record had: those before what is said of its failure.

        What comes after that was added to the letter, as the number of its epoch is.
        """
        own = takewhile(lambda header: not is_fact(header[0]), self.headers)
        return tuple((name, value) for name, value in own if name != REPLAYS)

    def why_not(self, *, elsewhere: bool = False) -> str | None:
        """Say why the letter cannot be replayed; None if it can.

        Args:
            elsewhere: Whether a topic is named for it.
        """
        names = {name for name, _ in self.headers}
        if any(name.startswith(_CUT) for name in names):
            return "it was too large for its topic, and is cut"
        if elsewhere:
            return None
        if self.is_made:
            return "it is not the record as it was read, which its topic does not have any more"
        return None if self.source[0] else "no header names its topic"

    def facts(self) -> dict[str, Any]:
        """Return all that is known of the letter, in plain values."""
        names = ("step", "code", "class", "text", "line", "attempts")
        topic, partition = self.source
        told = {name: self.fact(name) for name in names}
        told["text"] = told["text"] or self.fact("message")
        offset = self.fact("offset")
        return {
            "letter": self.place,
            "timestamp": self.timestamp,
            "topic": topic or None,
            "partition": partition,
            "offset": int(offset) if offset.isdigit() else None,
            **{name: value or None for name, value in told.items()},
            "replays": self.replays,
            "key": self.key,
            "value": self.value,
            "headers": [[name, value] for name, value in self.own_headers],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters are meant; all, where nothing is said.

    Attributes:
        places: Their places, such as ``0:17``.
        step: The step that failed.
        error: The class of what was raised, or the error's code.
        topic: The topic that the record was read from.
        key: The record's key, as text.
        grep: A text in the record's value, or in what the error says.
        since: The earliest time of the record, in milliseconds.
        until: The time before which it is.

    Example:
        >>> LetterFilter(places=frozenset({"0:1"})).fits(
        ...     Letter(partition=0, offset=2, timestamp=1, key=None, value=None))
        False
    """

    places: frozenset[str] = frozenset()
    step: str | None = None
    error: str | None = None
    topic: str | None = None
    key: str | None = None
    grep: str | None = None
    since: int | None = None
    until: int | None = None

    def fits(self, letter: Letter) -> bool:
        """Say whether a letter is one of them."""
        wanted = (
            (self.step, (letter.fact("step"),)),
            (self.error, (letter.fact("class"), letter.fact("code"))),
            (self.topic, (letter.source[0],)),
            (self.key, ("" if letter.key is None else letter.key.decode("utf-8", "replace"),)),
        )
        if any(one is not None and one not in found for one, found in wanted):
            return False
        if self.places and letter.place not in self.places:
            return False
        if self.since is not None and letter.timestamp < self.since:
            return False
        if self.until is not None and letter.timestamp >= self.until:
            return False
        if self.grep is None:
            return True
        text = (letter.value or b"").decode("utf-8", "replace")
        return self.grep in text or self.grep in letter.fact("text")


def done_key(topic_id: str, partition: int, offset: int) -> bytes:
    """Return the key under which it stands that a letter is done with.

    The id tells a topic from a later one of its name.
    """
    return f"{topic_id}/{partition}/{offset}".encode()


def encode_done(what: str, at_ms: int, topic: str = "") -> bytes:
    """Return what stands there: what was done, when, and where the record went."""
    told: dict[str, Any] = {"done": what, "at": at_ms}
    if topic:
        told["to"] = topic
    return json.dumps(told).encode()


def decode_done(key: bytes, value: bytes) -> tuple[tuple[str, int, int], Mapping[str, Any]]:
    """Return topic id, partition and offset of a letter, and what was done with it.

    Example:
        >>> decode_done(done_key("x1", 0, 7), encode_done("dropped", 5))
        (('x1', 0, 7), {'done': 'dropped', 'at': 5})
    """
    topic_id, partition, offset = key.decode().rsplit("/", 2)
    return (topic_id, int(partition), int(offset)), json.loads(value)
