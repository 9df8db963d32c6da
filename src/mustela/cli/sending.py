"""mustela send: records into a topic, typed, from lines, or from JSON documents with headers."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO, cast

from cyclopts import Parameter

from mustela.cli.clients import open_admin, open_sink
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, say
from mustela.cli.records import (
    BadValueError,
    KeySerde,
    ValueSerde,
    parse_value,
    topic_serdes,
)
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.serdes.base import Serde

__all__ = ["BadRecordError", "NothingToSendError", "encode_typed", "send"]

STDIN = "-"
BATCH = 10_000
"""So many records are sent before they are waited for."""

Headers = tuple[tuple[str, bytes | None], ...]


class BadRecordError(UsageError):
    """A line of a file is no record that can be sent."""

    code = "CLI_RECORD"


class NothingToSendError(UsageError):
    """It was not said what to send, or it was said twice."""

    code = "CLI_NOTHING_TO_SEND"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Where records come from, when they are not typed.

    Attributes:
        file: A file; - is standard input.
        format: How its lines are written.
        separator: Between key and value of a line.
    """

    file: Annotated[
        str | None, Parameter(name=["--file", "-f"], help="A file of records; - reads stdin.")
    ] = None
    format: Annotated[
        Literal["lines", "json"],
        Parameter(
            name="--format",
            help="lines: a value, or key and value, a line. json: a document a line, as tail "
            "--json prints them: value, and if need be key, headers, timestamp and partition.",
        ),
    ] = "lines"
    separator: Annotated[
        str, Parameter(name="--separator", help="Between key and value of a line.")
    ] = "\t"


class Sent(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


_TYPED = Input()


def send(  # noqa: PLR0913 - its options are its interface
    topic: Annotated[str, Parameter(name="TOPIC")],
    first: Annotated[str | None, Parameter(name="KEY-OR-VALUE", allow_leading_hyphen=True)] = None,
    second: Annotated[str | None, Parameter(name="VALUE", allow_leading_hyphen=True)] = None,
    /,
    *,
    key: KeySerde = "str",
    value: ValueSerde = "str",
    header: Annotated[
        list[str] | None,
        Parameter(
            name=["--header", "-H"], negative=(), help="A header, as name=value; repeatable."
        ),
    ] = None,
    input: Input = _TYPED,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Send records: TOPIC VALUE, TOPIC KEY VALUE, TOPIC - or TOPIC --file FILE.

    Args:
        topic: The topic.
        first: The key if a value follows, otherwise the value; - reads lines from standard input.
        second: The value.
        key: Type of the keys.
        value: Type of the values.
        header: Headers of every record.
        input: Where records come from.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    serdes = topic_serdes(topic, key, value)
    common = tuple(_header(text) for text in header or ())
    with _rows(first, second, input, serdes) as rows, open_admin(bootstrap_servers) as admin:
        admin.partitions(topic)
        sent = 0
        with open_sink(bootstrap_servers) as sink:
            for batch in _batches(rows):
                timestamps = [row.timestamp or 0 for row in batch]  # 0 is now
                sink.produce_columns(
                    topic,
                    [row.key for row in batch],
                    [row.value for row in batch],
                    timestamps if any(timestamps) else None,
                    [(*row.headers, *common) for row in batch],
                    [row.partition for row in batch],
                )
                sent += len(batch)
                sink.flush()
    if json:
        print_json({"topic": topic, "sent": sent})
    else:
        say(f"sent {sent} record{'' if sent == 1 else 's'} to {topic}")
    return ExitCode.OK


@contextmanager
def _rows(
    first: str | None, second: str | None, given: Input, serdes: tuple[Serde[Any], Serde[Any]]
) -> Generator[Iterator[Sent]]:
    file = STDIN if first == STDIN and second is None and given.file is None else given.file
    if file is None:
        if first is None:
            what = "there is nothing to send"
            raise NothingToSendError(what, fix="type a value, or add --file FILE; - reads stdin")
        typed = (None, first) if second is None else (first, second)
        yield iter([_typed(*typed, serdes)])
        return
    if first not in (None, STDIN):
        what = f"both the value {first!r} and --file {file} are to be sent"
        raise NothingToSendError(what, fix="leave out one of them")
    with _opened(file) as lines:
        if given.format == "json":
            yield _documents(file, lines, serdes)
        else:
            yield _lines(lines, given.separator, serdes)


@contextmanager
def _opened(file: str) -> Generator[TextIO]:
    if file == STDIN:
        yield sys.stdin
        return
    try:
        lines = Path(file).open(encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        what = f"cannot read {file}: {error.strerror}"
        raise NothingToSendError(what, fix="name a file that exists") from error
    with lines:
        yield lines


def _lines(
    stream: Iterable[str], separator: str, serdes: tuple[Serde[Any], Serde[Any]]
) -> Iterator[Sent]:
    for line in stream:
        text = line.rstrip("\n")
        left, found, right = text.partition(separator)
        yield _typed(left, right, serdes) if found else _typed(None, text, serdes)


def _typed(key: str | None, value: str, serdes: tuple[Serde[Any], Serde[Any]]) -> Sent:
    return Sent(
        None if key is None else encode_typed(serdes[0], key), encode_typed(serdes[1], value)
    )


def _documents(
    file: str, stream: Iterable[str], serdes: tuple[Serde[Any], Serde[Any]]
) -> Iterator[Sent]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            yield _document(json_text.loads(line), serdes)
        except BadValueError:
            raise
        except (ValueError, TypeError, KeyError) as error:
            what = f"line {number} of {file} is no record: {error}"
            raise BadRecordError(
                what,
                evidence={"line": line.strip()[:200]},
                fix='write, for example, {"key": "a", "value": "b", "headers": {"trace": "1"}}',
            ) from error


def _document(found: Any, serdes: tuple[Serde[Any], Serde[Any]]) -> Sent:
    if not isinstance(found, dict) or "value" not in found:
        msg = "an object with a value is expected"
        raise ValueError(msg)
    row = cast("dict[str, Any]", found)
    unknown = set(row) - {"key", "value", "headers", "timestamp", "partition", "topic", "offset"}
    if unknown:
        msg = f"unknown field {sorted(unknown)[0]!r}"
        raise ValueError(msg)
    headers: Any = row.get("headers") or ()
    pairs: Iterable[tuple[Any, Any]] = (
        cast("dict[str, Any]", headers).items() if isinstance(headers, dict) else headers
    )
    return Sent(
        _plain(serdes[0], row.get("key")),
        _plain(serdes[1], row["value"]),
        tuple((str(name), None if text is None else str(text).encode()) for name, text in pairs),
        _whole(row.get("timestamp"), "timestamp"),
        _whole(row.get("partition"), "partition"),
    )


def _whole(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"{name} is a whole number from 0 up, in milliseconds if it is a time"
        raise ValueError(msg)
    return value


def _plain(serde: Serde[Any], value: Any) -> bytes | None:
    """Encode what stands in a JSON document: text as it is typed, anything else as JSON."""
    if value is None:
        return None
    return encode_typed(serde, value if isinstance(value, str) else json_text.dumps(value))


def encode_typed(serde: Serde[Any], text: str) -> bytes | None:
    """Return what a user typed as bytes.

    Raises:
        BadValueError: If it is no value of the serde's type.
    """
    try:
        value = parse_value(text, serde.name)
    except (ValueError, KeyError) as problem:
        what = f"{text!r} is not a value of type {serde.name}"
        raise BadValueError(what, fix="correct it, or name another type") from problem
    return serde.serialize(value)


def _header(text: str) -> tuple[str, bytes]:
    name, found, value = text.partition("=")
    if not found or not name:
        what = f"--header {text!r} is not name=value"
        raise BadValueError(what, fix="write, for example, --header trace=17")
    return name, value.encode()


def _batches(rows: Iterable[Sent]) -> Iterator[list[Sent]]:
    batch: list[Sent] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
