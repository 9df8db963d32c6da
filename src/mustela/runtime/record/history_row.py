"""Rows of the history topic: all that an epoch depends on, apart from its input and the state.

With these, the records in the source topics and the changelogs, the epoch can be run again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mustela.errors import EnvironmentFault
from mustela.plan.calls import CallTape
from mustela.plan.epoch import EpochOrder, GlobalMark, TaskReport
from mustela.plan.plan import Plan, Stage
from mustela.plan.ranges import LeftOut, RangeReport, SourceRange
from mustela.plan.time import AT_ONCE, Due
from mustela.plan.watermark import Others, PartitionMark, WatermarkOrder

__all__ = [
    "FAILED_KEY",
    "HISTORY_FORMAT",
    "HistoryFormatError",
    "HistoryRow",
    "HistoryRows",
    "Kept",
    "due_of",
    "event_time_of",
    "history_parts",
    "history_row",
    "kept_rows",
    "lane_name",
]

HISTORY_FORMAT = 1
_MAGIC = b"MHR"
_PART_BYTES = 500_000
"""A broker takes a row of 1 MB unless it was told otherwise."""
_BYTES_MAX = 16_000_000
"""Larger ones are kept without the results of calls, which are all that can be so large."""
FAILED_KEY = b"failed"


class HistoryFormatError(EnvironmentFault):
    """The history topic holds a row that this version cannot read."""

    code = "HISTORY_FORMAT"


class _Times(msgspec.Struct, frozen=True, array_like=True):
    """A `WatermarkOrder`; functions of the program are only named, by topic."""

    before: int
    at_least_ms: int
    partitions: list[tuple[int, int, int, int, bool, bool]]
    others: Others
    until_ms: int | None
    late_ms: dict[int, int]


class HistoryRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What one epoch depended on.

    Attributes:
        incarnation: Number of the run of the application.
        epoch: Number of the epoch.
        attempt: Which run of the epoch it was.
        now_ms: The epoch's one wall-clock time.
        topics: The source topics, in the order by which the row names them.
        ranges: For each source task, the ranges that it read.
        read: What the tasks saw there.
        changelog_ends: By changelog, the end of each key group's partition before the epoch.
        times: What the watermark depends on.
        due: By stage, when each key group wanted to run without a record.
        global_marks: How far the topics of global tables were read.
        left_out: Parts of the ranges that were skipped.
        calls: By stage and lane, what steps learned from their calls; None if it was too much.
        lanes: Number of lanes.
        key_groups: Number of key groups.
        fingerprint: Hash of the topology.
        failure: The code and text of the error, if the epoch failed.
        lane_of: The lane of each key group; empty if lanes had contiguous runs of them.
    """

    incarnation: int
    epoch: int
    attempt: int
    now_ms: int
    topics: list[str]
    ranges: list[list[SourceRange]]
    read: list[RangeReport]
    changelog_ends: dict[str, list[int]]
    times: _Times
    due: dict[str, list[Due]]
    global_marks: dict[str, GlobalMark]
    left_out: list[LeftOut]
    calls: dict[str, dict[str, CallTape]] | None
    lanes: int
    key_groups: int
    fingerprint: str
    failure: str = ""
    lane_of: list[int] = []


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(HistoryRow).decode


def lane_name(stage: Stage, lane: int) -> str:
    """Return how a row names a lane of a stage."""
    return f"{_name(stage)}/{lane}"


def _name(stage: Stage) -> str:
    return stage.identity or f"#{stage.index}"


class Kept(NamedTuple):
    """What of the committed state a row names.

    Attributes:
        plan: The running plan.
        changelog_ends: By store, the end of each key group's changelog partition.
        lanes: Number of lanes.
        key_groups: Number of key groups.
    """

    plan: Plan
    changelog_ends: Mapping[str, Sequence[int]]
    lanes: int
    key_groups: int


def history_row(
    order: EpochOrder, state: Kept, reports: Iterable[TaskReport] = (), *, failure: str = ""
) -> HistoryRow:
    """Return the row of an epoch.

    Args:
        order: Its order.
        state: The state before it.
        reports: What its tasks did.
        failure: The code and text of the error, if it failed.
    """
    plan, event_time = state.plan, order.event_time
    calls: dict[str, dict[str, CallTape]] = {}
    read: list[RangeReport] = []
    for report in reports:
        read.extend(report.ranges)
        if report.calls:
            calls[lane_name(plan.stages[report.stage], report.task)] = report.calls
    return HistoryRow(
        incarnation=order.token.incarnation,
        epoch=order.token.epoch,
        attempt=order.token.attempt,
        now_ms=order.now_ms,
        topics=list(plan.topics),
        ranges=[list(ranges) for ranges in order.ranges],
        read=read,
        changelog_ends={
            plan.log_names.get(store, store): list(ends)
            for store, ends in state.changelog_ends.items()
        },
        times=_Times(
            event_time.before,
            event_time.at_least_ms,
            [mark[:6] for mark in event_time.partitions],
            event_time.others,
            event_time.until_ms,
            dict(event_time.late_ms),
        ),
        due={_name(plan.stages[stage]): list(due) for stage, due in order.due.items()},
        global_marks=dict(order.global_marks),
        left_out=list(order.left_out),
        calls=calls,
        lanes=state.lanes,
        key_groups=state.key_groups,
        fingerprint=plan.fingerprint,
        failure=failure,
        lane_of=[] if order.placement is None else list(order.placement.lane_of),
    )


def event_time_of(
    row: HistoryRow,
    topics: Mapping[int, int],
    custom: Mapping[int, Callable[[int], int]],
) -> WatermarkOrder:
    """Return what the watermark of an epoch depends on.

    Args:
        row: The epoch.
        topics: For each topic of the row, its index in the program; other topics are left out.
        custom: By index in the program, functions that say which time a topic has reached.
    """
    times = row.times
    return WatermarkOrder(
        before=times.before,
        at_least_ms=times.at_least_ms,
        partitions=tuple(
            PartitionMark(topics[mark[0]], *mark[1:], custom=custom.get(topics[mark[0]]))
            for mark in times.partitions
            if mark[0] in topics
        ),
        others=times.others,
        until_ms=times.until_ms,
        late_ms={topics[at]: ms for at, ms in times.late_ms.items() if at in topics},
        custom=dict(custom),
    )


def due_of(row: HistoryRow, plan: Plan) -> dict[int, tuple[Due, ...]]:
    """Return when key groups want to run; those of stages that the row does not know are asked."""
    at_once = (AT_ONCE,) * row.key_groups
    return {
        stage.index: tuple(row.due.get(_name(stage), at_once))
        for stage in plan.stages
        if stage.acts_on_time
    }


def history_parts(row: HistoryRow, epochs: int) -> list[tuple[bytes, bytes]]:
    """Return the records of a row: keys come again after so many epochs, and replace the old ones.

    Args:
        row: The row.
        epochs: How many epochs are kept.

    Example:
        >>> from mustela.plan.watermark import Others
        >>> row = HistoryRow(
        ...     incarnation=1, epoch=12, attempt=0, now_ms=0, topics=[], ranges=[], read=[],
        ...     changelog_ends={}, times=_Times(-1, -1, [], Others(), None, {}), due={},
        ...     global_marks={}, left_out=[], calls={}, lanes=1, key_groups=1, fingerprint="")
        >>> [key for key, _ in history_parts(row, 10)]
        [b'2/0']
        >>> list(HistoryRows().take(history_parts(row, 10)))[0].epoch
        12
    """
    data = zlib.compress(_ENCODE(row), 1)
    if len(data) > _BYTES_MAX and row.calls:
        data = zlib.compress(_ENCODE(msgspec.structs.replace(row, calls=None)), 1)
    slot = FAILED_KEY if row.failure else str(row.epoch % epochs).encode()
    cuts = range(0, len(data), _PART_BYTES)
    head = _MAGIC + bytes([HISTORY_FORMAT])
    return [
        (
            b"%s/%d" % (slot, part),
            head + msgspec.msgpack.encode((part, len(cuts), data[at : at + _PART_BYTES])),
        )
        for part, at in enumerate(cuts)
    ]


class HistoryRows:
    """Reads the history topic in order."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[HistoryRow]:
        """Yield the rows of which every part is among the records.

        Args:
            records: Keys and values.

        Raises:
            HistoryFormatError: If another version wrote one.
        """
        for _, value in records:
            if value is None:
                continue
            if value[:3] != _MAGIC or value[3] != HISTORY_FORMAT:
                what = "the history topic holds a row that this version cannot read"
                fix = "replay the epoch with the version of Mustela that ran it"
                raise HistoryFormatError(what, fix=fix)
            part, count, data = msgspec.msgpack.decode(value[4:], type=tuple[int, int, bytes])
            if part != len(self._parts):
                self._parts = []
            if part == len(self._parts):
                self._parts.append(data)
            if len(self._parts) == count:
                whole, self._parts = b"".join(self._parts), []
                yield _DECODE(zlib.decompress(whole))


def kept_rows(rows: Iterable[HistoryRow]) -> tuple[dict[int, HistoryRow], HistoryRow | None]:
    """Return the newest row of each committed epoch, and the last of a failed one."""
    kept: dict[int, HistoryRow] = {}
    failed: HistoryRow | None = None
    for row in rows:
        if row.failure:
            failed = row
        else:
            kept[row.epoch] = row
    return kept, failed
