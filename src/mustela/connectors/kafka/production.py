"""What becomes of rows that the broker refuses: an error, nothing, or dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mustela.connectors.kafka.columns import RowColumns
from mustela.connectors.kafka.errors import RefusedRow, RowsRefused
from mustela.errors import DataError
from mustela.model import Headers
from mustela.plan.letters import FACT, letter_headers

__all__ = [
    "LETTER_HEADS",
    "SEARCHES_MAX",
    "ChangelogRowError",
    "Letters",
    "ProductionError",
    "can_be_mended",
    "changelog_error",
    "letters_of",
    "mended_letters",
    "production_error",
]

SEARCHES_MAX = 8
"""How often rows are sent again to find out which of them the broker refuses."""
_SHOWN_MAX = 3
_KEY_SHOWN_MAX = 80
_OVERHEAD = 1_000
"""Bytes around a row, at most: its batch, and what compression may add."""

LETTER_HEADS: Final = (64 * 1024, 1024)
"""How many bytes are kept of a dead letter that is too large for its topic: first so many of its
key, its value and its headers each, and if the broker refuses that too, so many."""
_FACT_BYTES_MAX = 256
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG_SIZE"})
_MENDABLE = _TOO_LARGE | {"INVALID_TIMESTAMP", "INVALID_RECORD"}


class ProductionError(DataError):
    """The broker refuses an output row."""

    code = "PRODUCTION"


class ChangelogRowError(DataError):
    """The broker refuses a row of a changelog; ``fields`` as in store, key and size."""

    code = "CHANGELOG_ROW"


@dataclass(slots=True)
class Letters:
    """Dead letters as columns; they get the time of sending."""

    topics: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int] | None
    headers: list[Headers] | None
    partitions: list[int | None] | int | None = None


def letters_of(
    refused: Iterable[RefusedRow], columns_of: Callable[[RefusedRow], RowColumns], topic: str
) -> Letters:
    """Return refused rows as dead letters: their own bytes, and why they were refused.

    Args:
        refused: The rows.
        columns_of: Finds the columns that a row is in.
        topic: Where dead letters go.
    """
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    for row in refused:
        columns = columns_of(row)
        errors = _facts({"class": row.reason, "message": row.text, "topic": row.topic})
        keys.append(columns.keys[row.row])
        values.append(columns.values[row.row])
        headers.append((columns.headers[row.row] if columns.headers else ()) + errors)
    return Letters(topic, keys, values, None, headers)


def mended_letters(letters: RowColumns, refused: Sequence[RefusedRow]) -> RowColumns:
    """Return dead letters of which the broker refused some, so that it takes them.

    A letter must not stop the epoch for what made its record one. Of what is too large the head is
    kept, and headers ``mustela.error.cut.*`` say how many bytes there were. Where the topic does
    not take the time of one, all have the time of sending, and their own as a header,
    ``mustela.error.timestamp``. Where it wants keys, a letter without one gets an empty one.

    Args:
        letters: The letters.
        refused: What was refused, each row as often as it was.
    """
    times = Counter(row.row for row in refused)
    if not times:
        return letters
    reasons: dict[int, set[str]] = {}
    for one in refused:
        reasons.setdefault(one.row, set()).add(one.reason)
    assert isinstance(letters.topics, str), "dead letters go to one topic"
    keys, values = list(letters.keys), list(letters.values)
    stamps = None if letters.timestamps is None else list(letters.timestamps)
    headers: list[Headers] = list(letters.headers or [()] * len(values))
    for row, count in times.items():
        facts: dict[str, int] = {}
        if reasons[row] & _TOO_LARGE:
            head = LETTER_HEADS[min(count, len(LETTER_HEADS)) - 1]
            keys[row] = _head_of("key", keys[row], head, facts)
            values[row] = _head_of("value", values[row], head, facts)
            headers[row] = _fewer_headers(headers[row], head, facts)
        if "INVALID_RECORD" in reasons[row] and keys[row] is None:
            keys[row] = b""
        headers[row] += _facts(facts)
    if stamps is not None and any("INVALID_TIMESTAMP" in some for some in reasons.values()):
        headers = [
            own + _facts({"timestamp": stamp}) for own, stamp in zip(headers, stamps, strict=True)
        ]
        stamps = None
    return Letters(letters.topics, keys, values, stamps, headers, letters.partitions)


def can_be_mended(letter: RefusedRow, before: Iterable[RefusedRow]) -> bool:
    """Say whether a dead letter that was refused can be changed so that it may be taken.

    Args:
        letter: The letter, as it was refused now.
        before: What was refused in earlier attempts.
    """
    times = sum((one.tag, one.row) == (letter.tag, letter.row) for one in before)
    return letter.reason in _MENDABLE and times < len(LETTER_HEADS)


def _facts(facts: Mapping[str, object]) -> Headers:
    return letter_headers(facts)


def _head_of(part: str, whole: bytes | None, head: int, facts: dict[str, int]) -> bytes | None:
    if whole is None or len(whole) <= head:
        return whole
    facts[f"cut.{part}"] = len(whole)
    return whole[:head]


def _fewer_headers(headers: Headers, head: int, facts: dict[str, int]) -> Headers:
    """Return headers that are small enough: if not all, those that say what went wrong."""
    size = sum(len(name) + len(value or b"") for name, value in headers)
    if size <= head:
        return headers
    facts["cut.headers"] = size
    return tuple(
        (name, value and value[:_FACT_BYTES_MAX])
        for name, value in headers
        if name.startswith(FACT)
    )


def production_error(
    rows: Sequence[RefusedRow], cause: RowsRefused, *, handled: bool = True
) -> ProductionError:
    """Make the error that ends an application whose rows the broker refuses.

    Args:
        rows: The rows.
        cause: What the sink said of them.
        handled: Whether a handler could leave them out; none can leave out dead letters.
    """
    handler = ", or set production_handler to continue or dead_letter" if handled else ""
    evidence: dict[str, Any] = {
        f"row {row.row}": f"topic {row.topic}, {row.reason}: {row.text}"
        for row in rows[:_SHOWN_MAX]
    }
    return ProductionError(
        cause.what,
        evidence=evidence or cause.evidence,
        why="an output row that the broker refuses would stop the epoch forever",
        fix=f"make the rows fit the topic, or raise its limits ({_limits_of(rows)}){handler}",
        fields=cause.fields,
    )


def _limits_of(rows: Sequence[RefusedRow]) -> str:
    """Name the settings of a topic that refused rows."""
    if any(row.reason == "INVALID_TIMESTAMP" for row in rows):
        return "message.timestamp.after.max.ms, message.timestamp.before.max.ms"
    return "max.message.bytes"


def changelog_error(row: RefusedRow, store: str, columns: RowColumns) -> ChangelogRowError:
    """Make the error of a store's row that the broker refuses: no handler can leave it out.

    Args:
        row: The row.
        store: Its store.
        columns: The rows that it is one of.
    """
    key, value = columns.keys[row.row] or b"", columns.values[row.row] or b""
    size = len(key) + len(value)
    shown = repr(key[:_KEY_SHOWN_MAX]) + (" …" if len(key) > _KEY_SHOWN_MAX else "")
    if row.reason in _TOO_LARGE:
        limit = size + _OVERHEAD
        fix = (
            f"keep less under one key; or raise the limits of the topic and of the client: mustela "
            f"kafka-configs --alter --entity-type topics --entity-name {row.topic} "
            f"--add-config max.message.bytes={limit}, and kafka.message.max.bytes = {limit}"
        )
    else:
        fix = f"correct the settings of {row.topic}: mustela kafka-configs --describe " + (
            f"--entity-type topics --entity-name {row.topic}"
        )
    return ChangelogRowError(
        f"the broker refuses a row of store '{store}' with {size} bytes",
        evidence={
            "store": store,
            "key": shown,
            "topic": f"{row.topic}, partition {columns.partitions}",
            "kafka": f"{row.reason}: {row.text}",
        },
        why="a row missing from a changelog would be missing from the store after a restore; no "
        "handler can skip it",
        fix=fix,
        fields={"store": store, "key": key, "size": size, "topic": row.topic},
    )
