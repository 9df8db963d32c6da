"""Quix Streams as a peer: run by `quix_peer.py` in an environment of its own.

It is one thread per process, so an expert runs as many processes as there are cores and partitions:
the first one starts the others and passes commands on to them.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from quixstreams import Application, State
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.windows.aggregations import Aggregator, Count, Max, Min, Sum
from quixstreams.dataframe.windows.time_based import TimeWindow
from quixstreams.models import SerializationContext, Serializer, Topic

sys.path.insert(0, str(Path(__file__).parent))

from app_protocol import AppArguments, emit, parse_arguments

_SMALLEST_AMOUNT = 100
_JOINED_BYTES = 64
_SECOND_MS = 1_000
_GRACE_MS = 5 * _SECOND_MS
_GUARANTEES = {"eos": "exactly-once", "alo": "at-least-once"}


class LongSerializer(Serializer):
    """Kafka's 8-byte long, which every peer writes."""

    def __call__(self, value: int, ctx: SerializationContext) -> bytes:  # noqa: ARG002
        return struct.pack(">q", value)


class RowSerializer(Serializer):
    """Writes the second part of a pair; the first one is the record's key."""

    def __call__(self, value: tuple[str, str], ctx: SerializationContext) -> bytes:  # noqa: ARG002
        return value[1].encode()


def with_row(payment: bytes, row: str | None) -> bytes:
    """The beginning of a payment and the row of its customer."""
    return payment[:_JOINED_BYTES] + b"|" + (b"nobody" if row is None else row.encode())


def count_one(_value: object, state: State) -> int:
    """One more of this key."""
    count = state.get("count", 0) + 1
    state.set("count", count)
    return count


def keep_newest(value: str, state: State) -> str:
    """The newest value, kept."""
    state.set("newest", value)
    return value


def convert(payment: dict) -> dict:
    """A payment with its euro amount and two fields renamed."""
    payment["account_id"] = payment.pop("account")
    payment["merchant_id"] = payment.pop("merchant")
    payment["amount_eur"] = round(payment["amount"] * 0.908, 3)
    return payment


def legs(payment: dict) -> list[dict]:
    """Both legs of a payment."""
    return [{**payment, "leg": 0}, {**payment, "leg": 1}]


def build(application: Application, arguments: AppArguments) -> None:
    """Add the program to an application."""
    makers = {
        "passthrough": _passthrough,
        "json": _json,
        "advanced": _advanced,
        "word_count": _word_count,
        "count": _count,
        "latest": _latest,
        "table_join": _table_join,
        "windows": _windows,
        "hopping": _hopping,
        "sessions": _sessions,
    }
    makers[arguments.program](application, arguments)


def _from(
    application: Application, arguments: AppArguments, key: str, value: str
) -> StreamingDataFrame:
    topic = application.topic(arguments.input, key_deserializer=key, value_deserializer=value)
    return application.dataframe(topic)


def _to(application: Application, name: str, key: str, value: str | Serializer) -> Topic:
    return application.topic(name, key_serializer=key, value_serializer=value)


def _passthrough(application: Application, arguments: AppArguments) -> None:
    stream = _from(application, arguments, "bytes", "bytes")
    stream.to_topic(_to(application, arguments.output, "bytes", "bytes"))


def _json(application: Application, arguments: AppArguments) -> None:
    stream = _from(application, arguments, "str", "json")
    stream = stream.filter(lambda payment: payment["amount"] >= _SMALLEST_AMOUNT).apply(convert)
    stream.to_topic(_to(application, arguments.output, "str", "json"))


def _advanced(application: Application, arguments: AppArguments) -> None:
    outputs = {
        branch: _to(application, f"{arguments.output}-{branch}", "str", "json")
        for branch in ("eur", "usd", "other")
    }
    branches = {"EUR": outputs["eur"], "USD": outputs["usd"]}
    other = outputs["other"]
    stream = _from(application, arguments, "str", "json")
    stream = stream.apply(convert).apply(legs, expand=True)
    stream = stream.filter(lambda payment: (payment["id"] + payment["leg"]) % 5 != 0)
    stream.to_topic(
        lambda payment, _key, _timestamp, _headers: branches.get(payment["currency"], other),
        key=lambda payment: payment["account_id"],
    )


def _word_count(application: Application, arguments: AppArguments) -> None:
    stream = _from(application, arguments, "bytes", "str").apply(str.split, expand=True)
    stream = stream.group_by(
        lambda word: word,
        name="word",
        key_deserializer="str",
        key_serializer="str",
        value_deserializer="str",
        value_serializer="str",
    )
    stream = stream.apply(count_one, stateful=True)
    stream.to_topic(_to(application, arguments.output, "str", LongSerializer()))


def _count(application: Application, arguments: AppArguments) -> None:
    stream = _from(application, arguments, "str", "bytes").apply(count_one, stateful=True)
    stream.to_topic(_to(application, arguments.output, "str", LongSerializer()))


def _latest(application: Application, arguments: AppArguments) -> None:
    stream = _from(application, arguments, "str", "str").apply(keep_newest, stateful=True)
    stream.to_topic(_to(application, arguments.output, "str", "str"))


def _table_join(application: Application, arguments: AppArguments) -> None:
    topic = application.topic(
        f"{arguments.input}-table", key_deserializer="str", value_deserializer="str"
    )
    stream = _from(application, arguments, "str", "bytes").join_asof(
        application.dataframe(topic), how="left", on_merge=with_row, grace_ms=timedelta(days=1)
    )
    stream.to_topic(_to(application, arguments.output, "str", "bytes"))


def _windows(application: Application, arguments: AppArguments) -> None:
    numbers = _from(application, arguments, "str", "bytes").apply(int)
    windows = numbers.tumbling_window(10 * _SECOND_MS, grace_ms=_GRACE_MS)
    _write_closed(application, arguments, windows.agg(**_summary()), _window_name)


def _hopping(application: Application, arguments: AppArguments) -> None:
    numbers = _from(application, arguments, "str", "bytes").apply(int)
    windows = numbers.hopping_window(10 * _SECOND_MS, 2 * _SECOND_MS, grace_ms=_GRACE_MS)
    _write_closed(application, arguments, windows.agg(**_summary()), _window_name)


def _sessions(application: Application, arguments: AppArguments) -> None:
    numbers = _from(application, arguments, "str", "bytes").apply(int)
    sessions = numbers.session_window(5 * _SECOND_MS, grace_ms=_GRACE_MS)
    _write_closed(application, arguments, sessions.agg(**_summary()), _session_name)


def _summary() -> dict[str, Aggregator]:
    return {"count": Count(), "total": Sum(), "low": Min(), "high": Max()}


def _window_name(key: str, row: dict) -> str:
    return f"{key}@{row['start']}"


def _session_name(key: str, row: dict) -> str:
    # The end is the first millisecond behind the session.
    return f"{key}@{row['start']}-{row['end'] - 1}"


def _write_closed(
    application: Application,
    arguments: AppArguments,
    windows: TimeWindow,
    name: Callable[[str, dict], str],
) -> None:
    """One row for each window when it is over; time is that of the partition, not of the key."""
    rows = windows.final(closing_strategy="partition").apply(
        lambda row, key, _timestamp, _headers: (
            name(key, row),
            f"{row['count']},{row['total']},{row['low']},{row['high']}",
        ),
        metadata=True,
    )
    rows.to_topic(
        _to(application, arguments.output, "str", RowSerializer()), key=lambda row: row[0]
    )


def new_application(arguments: AppArguments) -> Application:
    """An application with the settings of the benchmarks."""
    application = Application(
        broker_address=arguments.bootstrap,
        consumer_group=arguments.app_id,
        auto_offset_reset="earliest",
        commit_interval=arguments.commit_ms / 1000,
        state_dir=arguments.state_dir,
        processing_guarantee=_GUARANTEES[arguments.guarantee],
        loglevel="WARNING",
    )
    build(application, arguments)
    return application


class Control:
    """Follows standard input in a thread; ends the running application when told to."""

    def __init__(self) -> None:
        self.helpers: list[subprocess.Popen[str]] = []
        self.stopping = False
        self.running: Application | None = None

    def follow(self) -> None:
        """Obey until `stop` or the end of standard input."""
        for line in sys.stdin:
            self._pass_on(line)
            if line.strip() == "restart":
                emit("restart")
                self._end()
            elif line.strip() == "stop":
                break
        self.stopping = True
        self._pass_on("stop\n")
        self._end()

    def _end(self) -> None:
        if self.running is not None:
            self.running.stop()

    def _pass_on(self, line: str) -> None:
        for helper in self.helpers:
            if helper.stdin is not None and helper.poll() is None:
                helper.stdin.write(line)
                helper.stdin.flush()


def start_helpers(arguments: AppArguments) -> list[subprocess.Popen[str]]:
    """The other processes of the group; what they say is not for the harness."""
    return [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--process", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for number in range(1, arguments.processes)
    ]


def main() -> None:
    """Run until standard input says stop."""
    emit("main")
    arguments = parse_arguments()
    control = Control()
    if arguments.process == 0:
        control.helpers = start_helpers(arguments)
    threading.Thread(target=control.follow, daemon=True).start()
    while not control.stopping:
        application = new_application(arguments)
        control.running = application
        emit("session")
        emit("running")
        application.run()
        emit("closed")
    for helper in control.helpers:
        helper.wait()


if __name__ == "__main__":
    main()
