"""mustela tail: records out of a topic, and how their types are written."""

from __future__ import annotations

import json as json_text
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec
from cyclopts import Parameter

from mustela.cli.clients import Follower
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json
from mustela.cli.repairing import moment_ms
from mustela.cli.settings import loose_settings
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.cli.clients import PartitionChunk
    from mustela.serdes.base import Serde

__all__ = ["BadValueError", "KeySerde", "ValueSerde", "parse_value", "tail", "topic_serdes"]

POLL_S = 0.2
EPOCH_HEADER = "mustela.epoch"
"""On each row that an application writes, so it is shown as JSON alone."""

KeySerde = Annotated[str, Parameter(name="--key", help="Type of the keys: str, int, json, …")]
ValueSerde = Annotated[str, Parameter(name="--value", help="Type of the values: str, int, json, …")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """Which records are printed.

    Attributes:
        key: Those with this key.
        header: Those with this header.
        grep: Those with this text in key, value or a header.
    """

    key: Annotated[str | None, Parameter(name="--with-key", help="Only records with this key.")] = (
        None
    )
    header: Annotated[
        str | None,
        Parameter(name="--header", help="Only records with this header: NAME or NAME=VALUE."),
    ] = None
    grep: Annotated[
        str | None,
        Parameter(name="--grep", help="Only records with this text in key, value or a header."),
    ] = None

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Say whether a record is to be printed.

        Example:
            >>> row = {"key": 7, "value": "sun", "headers": [["trace", b"1"]]}
            >>> Only(key="7").fits(row), Only(header="trace=2").fits(row), Only(grep="su").fits(row)
            (True, False, True)
        """
        if self.key is not None and _shown(row["key"]) != self.key:
            return False
        headers = [(name, _shown(content)) for name, content in row["headers"]]
        if self.header is not None:
            name, separator, wanted = self.header.partition("=")
            found = [content for header, content in headers if header == name]
            if not found or (separator and wanted not in found):
                return False
        if self.grep is None:
            return True
        texts = (_shown(row["key"]), _shown(row["value"]), *(f"{n}={c}" for n, c in headers))
        return any(self.grep in text for text in texts)


_EVERY = Only()


class BadValueError(UsageError):
    """A text is not a value of the named type."""

    code = "CLI_VALUE"


def tail(  # noqa: PLR0913 - its options are its interface
    topic: Annotated[str, Parameter(name="TOPIC")],
    /,
    *,
    from_beginning: Annotated[bool, Parameter(negative=())] = False,
    since: Annotated[str | None, Parameter(name="--from")] = None,
    max: Annotated[int | None, Parameter(name=["--max", "-n"])] = None,
    key: KeySerde = "str",
    value: ValueSerde = "str",
    only: Only = _EVERY,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Print the committed records of a topic as they arrive, until Ctrl-C.

    Args:
        topic: The topic.
        from_beginning: Start with the first record in the topic.
        since: Start with the first record of this time or later: 2026-05-04T10:00:00Z.
        max: Stop after this many records.
        key: Type of the keys.
        value: Type of the values.
        only: Which records to print.
        bootstrap_servers: The brokers.
        json: Print each record as JSON, with headers and metadata.
    """
    key_serde, value_serde = topic_serdes(topic, key, value)
    printed = 0
    from_ms = None if since is None else moment_ms(since)
    follower = Follower(topic, bootstrap_servers, from_beginning=from_beginning, from_ms=from_ms)
    waiting = threading.Event()
    try:
        follower.start()
        while max is None or printed < max:
            for chunk in follower.read():
                for row in _rows(chunk, key_serde, value_serde):
                    if max is not None and printed >= max:
                        break
                    if not only.fits(row):
                        continue
                    _print_row(topic, row, json=json)
                    printed += 1
            if max is None or printed < max:
                waiting.wait(POLL_S)
    except KeyboardInterrupt:
        pass
    finally:
        follower.close()
    return ExitCode.OK


def topic_serdes(topic: str, key: str, value: str) -> tuple[Serde[Any], Serde[Any]]:
    """Return the serdes of a topic, with the schema registry of the settings if they need one."""
    from mustela.plan.bound import SerdeBinder
    from mustela.serdes.resolve import resolve_serde

    binder = SerdeBinder("", loose_settings().schema_registry)
    return (
        binder.serde(resolve_serde(key, key=True), topic, key=True),
        binder.serde(resolve_serde(value), topic, key=False),
    )


_WRITTEN: dict[str, Any] = {
    "uuid": UUID,
    "decimal": Decimal,
    "date": date,
    "datetime": datetime,
    "timedelta": timedelta,
}
"""Types by their serdes; in text they are as in JSON: ISO 8601, and digits."""


def parse_value(text: str, serde_name: str) -> Any:
    """Turn what a user types into a value of a serde.

    Raises:
        ValueError: If the text is none.

    Example:
        >>> parse_value("7", "int"), parse_value("true", "bool"), parse_value("[1]", "json")
        (7, True, [1])
        >>> parse_value("PT1M30S", "timedelta")
        datetime.timedelta(seconds=90)
    """
    if serde_name.startswith(("int", "short", "long")):
        return int(text)
    if serde_name.startswith(("float", "double")):
        return float(text)
    if serde_name.startswith("bool"):
        return {"true": True, "false": False}[text.lower()]
    if serde_name.startswith("bytes"):
        return text.encode()
    if serde_name in _WRITTEN:
        return msgspec.convert(text, _WRITTEN[serde_name])
    return text if serde_name.startswith("str") else json_text.loads(text)


def _rows(
    chunk: PartitionChunk, key_serde: Serde[Any], value_serde: Serde[Any]
) -> Iterator[dict[str, Any]]:
    rows = chunk.rows
    for at, offset in enumerate(rows.offsets):
        headers = rows.headers[at] if rows.headers is not None else ()
        yield {
            "partition": chunk.partition,
            "offset": offset,
            "timestamp": rows.timestamps[at],
            "key": key_serde.deserialize(rows.keys[at]),
            "value": value_serde.deserialize(rows.values[at]),
            "headers": [[name, value] for name, value in headers],
        }


def _print_row(topic: str, row: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json({"topic": topic, **row})
        return
    moment = datetime.fromtimestamp(row["timestamp"] / 1000, UTC).astimezone()
    place = f"{row['partition']}:{row['offset']}"
    shown = [f"{name}={_shown(value)}" for name, value in row["headers"] if name != EPOCH_HEADER]
    headers = f"  [{', '.join(shown)}]" if shown else ""
    told = f"{_shown(row['key'])}  {_shown(row['value'])}{headers}"
    print(f"{moment:%H:%M:%S}  {place:<10}  {told}", flush=True)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "-" if value is None else str(value)
