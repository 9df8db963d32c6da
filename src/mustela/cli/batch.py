"""mustela batch: an application over Parquet files, into Parquet files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mustela.cli.applications import Assignments, Target, parse_assignments
from mustela.cli.console import ExitCode, Json, print_json
from mustela.cli.loading import load_app
from mustela.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mustela.runtime.batch import BatchInput

__all__ = ["BatchArgumentError", "batch"]

_EXAMPLE = "--input orders=orders.parquet,key=customer,timestamp=at"


class BatchArgumentError(UsageError):
    """An input or the output of a batch on the command line is not right."""

    code = "CLI_BATCH"


def batch(
    target: Target,
    /,
    *,
    input: Annotated[
        list[str],
        Parameter(
            name="--input",
            negative=(),
            help="TOPIC=PATH of a Parquet file or directory; repeatable. Columns with other names "
            "than Kafka's follow: orders=orders.parquet,key=customer,timestamp=at.",
        ),
    ],
    output: Annotated[Path, Parameter(name="--output", help="An empty or new directory.")],
    flush: Annotated[
        bool,
        Parameter(name="--flush", negative=(), help="Close the windows that are open at the end."),
    ] = False,
    set: Assignments = None,
    json: Json = False,
) -> int:
    """Run an application over Parquet files, without a broker: a backtest or a backfill.

    Each topic that it writes becomes a directory of Parquet files, and so do dead letters if there
    are any. Nothing of the application in Kafka is read or changed.

    Args:
        target: The module, and the name of the application in it.
        input: The records of each source topic.
        output: Where the results go.
        flush: Move event time on after the last record until no window is open.
        set: Settings for this run.
        json: Print the counts as JSON.
    """
    from mustela.runtime.batch import batch as run_batch

    inputs = dict(map(_read_input, input))
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        msg = f"{output} is not empty"
        raise BatchArgumentError(msg, fix="name a new directory with --output")
    app = load_app(target)
    app.configure(**parse_assignments(set or ()))
    with run_batch(app, inputs, flush=flush) as result:
        written: dict[str, str] = {}
        frames = {topic: result[topic] for topic in result}
        if result.has_dead_letters:
            frames[app.settings.dead_letter_topic] = result.dead_letters
        for topic, frame in frames.items():
            written[topic] = str(output.absolute() / topic)
            frame.sortWithinPartitions("offset").write.parquet(written[topic])
        sources = {node.name for node in app.built_plan().stages[0].sources}
        read = {
            name.removeprefix("records:"): count
            for name, count in result.counters.items()
            if name.removeprefix("records:") in sources
        }
        if json:
            print_json(
                {"read": read, "written": written, "epochs": result.epochs,
                 "watermark": result.watermark, "counters": dict(result.counters)}
            )  # fmt: skip
        else:
            _tell(read, written)
    return ExitCode.OK


def _tell(read: dict[str, int], written: dict[str, str]) -> None:
    for name, count in read.items():
        print(f"read {count:,} records of {name}")
    for topic, directory in written.items():
        print(f"wrote {topic} to {directory}")


def _read_input(text: str) -> tuple[str, BatchInput]:
    """Return a topic and its input from ``TOPIC=PATH,OPTION=COLUMN``.

    Raises:
        BatchArgumentError: If it is not that.
    """
    from mustela.runtime.batch import BatchInput

    first, *others = text.split(",")
    topic, separator, path = first.partition("=")
    options = _options(others)
    if not (separator and topic and path) or options is None:
        msg = f"--input {text!r} is not TOPIC=PATH"
        raise BatchArgumentError(msg, fix=f"write, for example, {_EXAMPLE}")
    return topic, BatchInput(data=path, **options)


def _options(texts: Sequence[str]) -> dict[str, str] | None:
    from mustela.runtime.batch import BatchInput

    known = {field.name for field in fields(BatchInput)} - {"data"}
    pairs = [text.partition("=") for text in texts]
    if all(name in known and value for name, _, value in pairs):
        return {name: value for name, _, value in pairs}
    return None
