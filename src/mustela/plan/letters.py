"""The headers that describe a dead letter: Mustela's, and Kafka Streams'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mustela.config.masking import mask_text
from mustela.model import Headers

__all__ = ["FACT", "KAFKA_FACT", "TEXT_MAX", "is_fact", "letter_headers"]

FACT: Final = "mustela.error."
"""The prefix of Mustela's headers."""
KAFKA_FACT: Final = "__streams.errors."
"""The prefix of Kafka Streams' headers (KIP-1034)."""
TEXT_MAX: Final = 1_000
"""How many characters of an error's text a dead letter contains."""
_KAFKA = {
    "class": "exception",
    "text": "message",
    "message": "message",
    "line": "stacktrace",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
}
"""Kafka Streams' names, by Mustela's. The failing line replaces the stack trace."""


def letter_headers(facts: Mapping[str, object]) -> Headers:
    """Return the headers that say why a record became a dead letter.

    Texts are cut at `TEXT_MAX` characters, and anything in them that looks like a secret is masked.

    Args:
        facts: ``step``, ``code``, ``class``, ``text``, ``attempts``, ``topic``, …

    Example:
        >>> for name, value in letter_headers({"class": "KeyError", "text": "token=abc"}):
        ...     print(name, value.decode())
        mustela.error.class KeyError
        mustela.error.text token=******
        __streams.errors.exception KeyError
        __streams.errors.message token=******
    """
    told = {name: _told(fact).encode() for name, fact in facts.items()}
    own = tuple((f"{FACT}{name}", value) for name, value in told.items())
    known = ((_KAFKA[name], value) for name, value in told.items() if name in _KAFKA)
    return own + tuple((f"{KAFKA_FACT}{name}", value) for name, value in known)


def is_fact(header: str) -> bool:
    """Say whether a header was added when a record became a dead letter.

    Example:
        >>> is_fact("mustela.error.topic"), is_fact("trace-id")
        (True, False)
    """
    return header.startswith((FACT, KAFKA_FACT))


def _told(fact: object) -> str:
    text = mask_text(str(fact))
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"
