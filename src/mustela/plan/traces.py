"""The trace context that a record carries: W3C's header ``traceparent``, read and written."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from xxhash import xxh3_64_hexdigest

from mustela.model import Headers

__all__ = ["TRACEPARENT", "TraceContext", "Traced", "context_of", "span_id_of", "with_context"]

TRACEPARENT: Final = "traceparent"
"""The header, as W3C names it."""

_FORM: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_SAMPLED: Final = 1
_LONGEST: Final = 256


class TraceContext(NamedTuple):
    """A span that something else continues.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
    """

    trace_id: str
    span_id: str


class Traced(NamedTuple):
    """A span that a task made for records; it is exported only when its epoch is committed.

    Attributes:
        name: The source topic of a record, or the step in which several records met.
        context: The span's own.
        parent: The span that it continues.
        links: Spans of the other records that met there.
        offset: The record's offset; -1 for a span of a step.
        partition: Its partition; -1 likewise.
    """

    name: str
    context: TraceContext
    parent: TraceContext
    links: tuple[TraceContext, ...] = ()
    offset: int = -1
    partition: int = -1


def context_of(headers: Headers) -> TraceContext | None:
    """Return the context that a record carries; None without one, or if it is not sampled.

    An invalid context is ignored, as W3C requires.

    Example:
        >>> context_of((("traceparent", b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-01"),)).span_id
        'cdcdcdcdcdcdcdcd'
        >>> context_of((("traceparent", b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-00"),))
        >>> context_of((("traceparent", b"nonsense"),))
    """
    for name, value in reversed(headers):
        if name == TRACEPARENT:
            if value is None or len(value) > _LONGEST:
                return None
            found = _FORM.fullmatch(value)
            if found is None or not int(found[3], 16) & _SAMPLED:
                return None
            if value.startswith(b"00-") and len(value) != 55:
                return None
            return TraceContext(found[1].decode(), found[2].decode())
    return None


def with_context(headers: Headers, context: TraceContext) -> Headers:
    """Return headers with a context, which replaces any that they had.

    Example:
        >>> with_context((("a", b"1"),), TraceContext("ab" * 16, "cd" * 8))[1][1]
        b'00-abababababababababababababababab-cdcdcdcdcdcdcdcd-01'
    """
    written = f"00-{context.trace_id}-{context.span_id}-01".encode()
    kept = tuple(header for header in headers if header[0] != TRACEPARENT)
    return (*kept, (TRACEPARENT, written))


def span_id_of(*facts: object) -> str:
    """Return the id of a span: a function of what it is for, so that a rerun gives the same.

    Example:
        >>> span_id_of("shop", "orders", 0, 17) == span_id_of("shop", "orders", 0, 17)
        True
    """
    return xxh3_64_hexdigest("\0".join(map(str, facts)).encode()).replace("0" * 16, "0" * 15 + "1")
