"""mustela bench: how fast a topology is in one process, and which step takes the time."""

from __future__ import annotations

import importlib
import json as json_text
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mustela.cli.asking import Application
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.runtime.app import App
    from mustela.testing.bench import Benched, Input

__all__ = ["BenchInputError", "bench"]

_NOT_MEASURED = (
    "not measured: the broker and its network, Spark and its processes, stores on disk, commits"
)
_READ_MAX = 10_000
_COLUMNS = ("step", "in", "out", "cpu_ns_per_record")


class BenchInputError(UsageError):
    """It was not said what records to process, or they are none."""

    code = "BENCH_INPUT"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Which records are processed.

    Attributes:
        made_by: A function that makes them.
        file: A file of them.
        head: Topics whose first records they are.
        count: At most how many.
    """

    made_by: Annotated[
        str | None,
        Parameter(
            name="--records",
            help="MODULE:FUNCTION, called with a number: it gives (topic, key, value) or (topic, "
            "key, value, timestamp in milliseconds) so many times.",
        ),
    ] = None
    file: Annotated[
        Path | None,
        Parameter(
            name=["--file", "-f"],
            help="A file of JSON documents, a line each, as tail --json prints them: topic, key, "
            "value, and if need be timestamp. Without a topic: the only one that is read.",
        ),
    ] = None
    head: Annotated[
        list[str] | None,
        Parameter(
            name="--head", negative=(), help="The first records of this source topic; repeatable."
        ),
    ] = None
    count: Annotated[int, Parameter(name=["--count", "-n"], help="At most so many.")] = 100_000


_NONE = Records()


def bench(
    application: Application,
    /,
    *,
    records: Records = _NONE,
    epoch: Annotated[int, Parameter(name="--epoch", help="Records in an epoch.")] = 10_000,
    lanes: Annotated[int, Parameter(name="--lanes", help="Lanes, one after another.")] = 1,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Measure a topology in this process: records a second, processor time by step, bytes.

    Its kernel runs as in the test driver, on one core, with stores in memory. That is the part that
    the program decides. Not measured: the broker, Spark, stores on disk, commits.

    Args:
        application: The application.
        records: Which records.
        epoch: How many records an epoch has.
        lanes: How many lanes.
        bootstrap_servers: The brokers, for --head.
        json: Print JSON.
    """
    from mustela.cli.loading import load_app
    from mustela.clock import SystemClock
    from mustela.testing.bench import bench as measured

    app = load_app(application)
    if bootstrap_servers is not None:
        app.configure(bootstrap_servers=bootstrap_servers)
    with _inputs(records, app) as inputs:
        found = measured(
            app,
            islice(inputs, records.count),
            clock=SystemClock(),
            epoch_records=max(1, epoch),
            lanes=lanes,
        )
    if not found.records:
        what = "there are no records to process"
        raise BenchInputError(what, fix="name a file, a topic or a function that has some")
    _show(found, json=json)
    return ExitCode.OK


def _show(found: Benched, *, json: bool) -> None:
    steps = sorted(found.steps.items(), key=lambda item: -item[1].cpu_s)
    rates = {
        "records": found.records,
        "epochs": found.epochs,
        "seconds": round(found.seconds, 4),
        "cpu_seconds": round(found.cpu_s, 4),
        "records_per_second": round(found.records / max(found.seconds, 1e-9), 1),
        "cpu_ns_per_record": round(found.cpu_s * 1e9 / found.records),
        "bytes_in": found.bytes_in,
        "bytes_out": found.bytes_out,
        "bytes_for_changelogs": found.bytes_logged,
    }
    rows: list[dict[str, Any]] = [
        {
            "step": name,
            "in": step.taken,
            "out": step.given,
            "cpu_seconds": round(step.cpu_s, 4),
            "cpu_ns_per_record": round(step.cpu_s * 1e9 / step.taken) if step.taken else None,
            "share": round(step.cpu_s / max(found.cpu_s, 1e-9), 4),
        }
        for name, step in steps
    ]
    if json:
        print_json({**rates, "steps": rows, "note": _NOT_MEASURED})
        return
    print(
        f"{found.records} records in {found.epochs} epochs: {rates['records_per_second']:,.0f} "
        f"records/s, {rates['cpu_ns_per_record']:,} ns of processor time each"
    )
    print(
        f"bytes: {found.bytes_in:,} read, {found.bytes_out:,} written, "
        f"{found.bytes_logged:,} for changelogs"
    )
    told = ((*(row[name] or "-" for name in _COLUMNS), f"{row['share']:.0%}") for row in rows)
    print_table(["step", "in", "out", "ns/record", "share"], told)
    rest = 1 - sum(row["share"] or 0.0 for row in rows)
    print(f"decoding, exchanges and the rest: {max(rest, 0.0):.0%}")
    print(_NOT_MEASURED)


@contextmanager
def _inputs(records: Records, app: App) -> Generator[Iterator[Input]]:
    """Give the records.

    Raises:
        BenchInputError: If it was not said what they are, or said twice.
    """
    given = [one for one in (records.made_by, records.file, records.head) if one]
    if len(given) != 1:
        what = "no records were named" if not given else "records were named in several ways"
        fix = "write one of --file FILE, --head TOPIC and --records MODULE:FUNCTION"
        raise BenchInputError(what, fix=fix)
    if records.made_by is not None:
        yield _made(records.made_by, records.count)
    elif records.file is not None:
        if not records.file.is_file():
            what = f"there is no file {records.file}"
            raise BenchInputError(what, fix="name a file of JSON documents, a line each")
        with records.file.open(encoding="utf-8") as lines:
            yield _read(lines, [*app.built_plan().topics])
    else:
        yield _heads(app.settings, records.head or [], records.count)


def _made(target: str, count: int) -> Iterator[Input]:
    from mustela.testing.bench import Input

    module, _, name = target.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        what = f"there is no function {target!r}"
        fix = "name it as MODULE:FUNCTION, in this directory or installed"
        raise BenchInputError(what, evidence={"error": error}, fix=fix) from error
    for made in function(count):
        try:
            yield Input(*made)
        except TypeError as error:
            what = f"{target} gave {made!r:.60}"
            fix = "give (topic, key, value), or (topic, key, value, timestamp)"
            raise BenchInputError(what, fix=fix) from error


def _read(lines: Iterable[str], topics: list[str]) -> Iterator[Input]:
    from mustela.testing.bench import Input

    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            told: Any = json_text.loads(line)
            topic: str = told.get("topic") or (topics[0] if len(topics) == 1 else "")
            found = Input(topic, told.get("key"), told["value"], told.get("timestamp"))
        except (ValueError, KeyError, AttributeError) as error:
            what = f"line {number} is no record: {line.strip():.60}"
            fix = 'write {"topic": ..., "key": ..., "value": ...}, as tail --json does'
            raise BenchInputError(what, fix=fix) from error
        if not topic:
            what = f"line {number} names no topic, and the program reads {', '.join(topics)}"
            raise BenchInputError(what, fix='add "topic" to each line')
        yield found


def _heads(settings: Settings, topics: list[str], count: int) -> Iterator[Input]:
    from mustela.cli.clients import open_admin
    from mustela.config.clients import client_properties
    from mustela.connectors.kafka.ranges import RangeReader
    from mustela.model import TopicPartition
    from mustela.testing.bench import Input

    reader = RangeReader(client_properties(settings, "consumer"))
    try:
        with open_admin(settings.bootstrap_servers) as admin:
            for topic in topics:
                partitions = range(admin.partitions(topic))
                places = [TopicPartition(topic, partition) for partition in partitions]
                first, ends = admin.earliest_offsets(places), admin.end_offsets(places)
                left = max(1, count // len(topics))
                for place in places:
                    begin = first[place]
                    end = min(ends[place], begin + left)
                    if begin >= end:
                        continue
                    for chunk in reader.read(*place, begin, end, max_batch=_READ_MAX):
                        columns = (chunk.keys, chunk.values, chunk.timestamps)
                        for key, value, timestamp in zip(*columns, strict=True):
                            left -= 1
                            yield Input(topic, key, value, timestamp)
    finally:
        reader.close()
