"""Checks that a topology gives the same results in each way that production may run it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Literal, get_args

from mustela.clock import SystemClock
from mustela.config.settings import Settings
from mustela.errors import MustelaError
from mustela.serdes.text import to_text
from mustela.testing.both_groups import MANY_GROUPS
from mustela.testing.cluster import BrokerRow
from mustela.testing.driver import TopologyTestDriver
from mustela.testing.faults import TestDriverError
from mustela.testing.stores import DriverStores
from mustela.testing.subject import Subject, read_subject
from mustela.testing.tables import drawn
from mustela.testing.times import to_milliseconds

__all__ = ["SafetyCheck", "assert_topology_safe"]

SafetyCheck = Literal["crashes", "lanes", "key_groups", "epochs", "event_time"]
"""The checks of `assert_topology_safe`."""

Feed = Callable[[TopologyTestDriver], object]

_LANES = 8
_SHOWN_MAX = 6


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to run a topology that should give the same results as a plain run.

    Attributes:
        name: The name of the check.
        how: What is changed, in words.
        why: Why results may differ.
        fix: What to do then.
        driver: Arguments of the driver.
        few_epochs: Whether the feed is run in as few epochs as possible.
        settings: Settings that differ.
    """

    name: SafetyCheck
    how: str
    why: str
    fix: str
    driver: Mapping[str, Any] = field(default_factory=dict[str, Any])
    few_epochs: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


Rows = dict[str, list[tuple[str, str]]]
"""By key, the values written and their times."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The rows and stores of a run."""

    topics: Mapping[str, Rows]
    stores: Mapping[str, Sequence[tuple[bytes, bytes]]]


class _Run(TopologyTestDriver):
    """A run whose results are compared with those of another."""

    def outcome(self) -> _Outcome:
        """Return the rows written, including those the feed read, and the stores' contents."""
        for position in self._positions.values():
            position[0] = 0
        stores = self._stores()
        return _Outcome(
            {topic: self._by_key(topic) for topic in self.produced_topic_names},
            {name: stores.rows(name) for name in stores.unexpiring()},
        )

    def _by_key(self, topic: str) -> Rows:
        rows: Rows = defaultdict(list)
        for record in self.create_output_topic(topic).read_records_to_list():
            rows[to_text(record.key)].append((to_text(record.value), str(record.timestamp)))
        rows.get(to_text(None), []).sort()  # rows without a key have no order
        return rows


class _FewEpochs(_Run):
    """A run that holds records back until their results are needed."""

    def _pipe(self, rows: Sequence[BrokerRow]) -> None:
        self._check_open()
        self._group = [*(self._group or ()), *rows]

    @contextmanager
    def epoch(self, *, until: int | datetime | None = None) -> Generator[None]:
        """Make what is piped inside part of a larger epoch, unless ``until`` is given."""
        if until is not None:
            self._flush()
        with super().epoch(until=until) if until is not None else nullcontext():
            yield

    def create_output_topic(self, name: str, key: Any = None, value: Any = None) -> Any:
        self._flush()
        return super().create_output_topic(name, key, value)

    def advance_wall_clock_time(self, span: int | timedelta) -> None:
        self._flush()
        super().advance_wall_clock_time(span)

    def advance_watermark(self, to: int | datetime) -> None:
        self._flush()
        super().advance_watermark(to)

    def mark_idle(self, topic: str) -> None:
        self._flush()
        super().mark_idle(topic)

    def trigger_scheduled_source(self, name: str) -> None:
        self._flush()
        super().trigger_scheduled_source(name)

    def crash(self, *, lose_state: bool = False) -> None:
        self._flush()
        super().crash(lose_state=lose_state)

    def _stores(self) -> DriverStores:
        self._flush()
        return super()._stores()

    def _flush(self) -> None:
        rows, self._group = self._group, None
        if rows:
            self._run_all(rows, grouped=True)


def assert_topology_safe(
    subject: object,
    feed: Feed,
    settings: Settings | Mapping[str, Any] | None = None,
    *,
    initial_wall_clock: int | datetime | None = None,
    but_not: Collection[SafetyCheck] = (),
) -> None:
    """Check that a topology gives the same results however it is run.

    The feed is run once plainly, with an epoch per record, and again

    - ``crashes``: with a crash before and after each commit, and state lost every other time;
    - ``lanes``: in eight lanes, if it has several key groups;
    - ``key_groups``: in 32 key groups, or in one if it has several;
    - ``epochs``: in as few epochs as possible, like an application that catches up;
    - ``event_time``: with the other meaning of event time, ``stream-time`` or ``watermark``.

    The rows of each output topic, by key, and of each key-value store are compared. With
    ``epochs``, a table may leave out updates that a later one replaces (``emit = barrier``), but
    not the last one.

    Args:
        subject: An App, a StreamsBuilder or a Topology.
        feed: Called with a driver in each run, to pipe records, advance time, and so on; it must do
            the same each time.
        settings: As for `TopologyTestDriver`.
        initial_wall_clock: The initial time of the driver's clock; default: now.
        but_not: Names of checks to leave out because a difference is intended.

    Raises:
        AssertionError: If the results of a run differ; the message names the check, says why that
            happens, and shows the first differing rows.
        UsageError: If the subject cannot be tested.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str).group_by_key()
        >>> words.count(store="counts").to_stream().to("counts")
        >>> def feed(driver):
        ...     driver.create_input_topic("words").pipe_table('''
        ...         key | value
        ...         ann | a
        ...         eve | b
        ...     ''')
        >>> assert_topology_safe(builder, feed)
    """
    _check_names(but_not)
    tested = read_subject(subject, settings, None)
    clock = SystemClock().now_ms() if initial_wall_clock is None else initial_wall_clock
    start = to_milliseconds(clock)
    plain = _run(tested, feed, start, None)
    found = [
        told
        for way in _ways(tested)
        if way.name not in but_not
        for told in _differences(tested, feed, start, way, plain)
    ]
    if found:
        raise AssertionError("\n\n".join(found))


def _check_names(but_not: Collection[str]) -> None:
    known = get_args(SafetyCheck)
    names = [but_not] if isinstance(but_not, str) else but_not
    unknown = [name for name in names if name not in known]
    if unknown or isinstance(but_not, str):
        msg = f"but_not cannot be {but_not!r}"
        fix = f"but_not=[...] with names of checks: {', '.join(known)}"
        raise TestDriverError(msg, fix=fix)


def _ways(tested: Subject) -> Iterable[_Way]:
    groups = MANY_GROUPS if tested.key_groups == 1 else 1
    other = "stream-time" if tested.settings.event_time == "watermark" else "watermark"
    return (
        _Way(
            "crashes",
            "with a crash before and after each commit",
            "a function keeps something outside of stores, or asks for the time or a random number",
            "keep state in a store, and take time from the record or the context",
            {"crash_after_every_record": True},
        ),
        _Way(
            "lanes",
            f"in {_LANES} lanes",
            "a processor shares something between keys that is not in a store",
            "keep state in a store",
            {"lanes": _LANES},
        ),
        _Way(
            "key_groups",
            f"in {groups} key groups instead of {tested.key_groups}",
            "state, timers and stream time belong to a key group: what is kept under a key other"
            " than the record's is kept once per group",
            'key the records by what the step stores; TopologyTestDriver(..., groups="both") names'
            " the step",
            {"key_groups": groups, "lanes": _LANES},
        ),
        _Way(
            "epochs",
            "in as few epochs as possible",
            "within an epoch records of all topics are taken in the order of their timestamps, and"
            " a processor's attributes live as long as an epoch",
            "keep state in a store, and give records the timestamps that their order asks for; a"
            ' result that needs every update of a table asks for emit="every"',
            few_epochs=True,
        ),
        _Way(
            "event_time",
            f"with event_time = {other}",
            "with watermark a window closes when all topics have come so far, with stream-time"
            " when its own step has seen a later record",
            'choose one on purpose, and leave this check out: but_not=["event_time"]',
            settings={"event_time": other},
        ),
    )


def _differences(
    tested: Subject, feed: Feed, start: int, way: _Way, plain: _Outcome
) -> Iterable[str]:
    try:
        other = _run(tested, feed, start, way)
    except MustelaError as error:
        yield _told(way, "the run fails", str(error))
        return
    whole = not way.few_epochs or tested.settings.emit == "every"
    for topic in sorted({*plain.topics, *other.topics}):
        mine, theirs = plain.topics.get(topic, {}), other.topics.get(topic, {})
        lines: list[tuple[str, tuple[str | None, ...]]] = []
        for key in dict.fromkeys([*mine, *theirs]):
            expected, found = mine.get(key, []), theirs.get(key, [])
            if not (expected == found if whole else _only_left_out(expected, found)):
                same = _same_begin(expected, found)
                lines += [("-", (key, *row)) for row in expected[same:]]
                lines += [("+", (key, *row)) for row in found[same:]]
        if lines:
            shown = drawn(("key", "value", "time"), lines[:_SHOWN_MAX])
            more = len(lines) - _SHOWN_MAX
            rest = f"\n  and {more} rows more" if more > 0 else ""
            yield _told(way, f"topic {topic!r} has other rows (- plain, + so)", shown + rest)
    for store in plain.stores:
        if plain.stores[store] != other.stores[store]:
            counts = f"{len(plain.stores[store])} rows, {len(other.stores[store])} so"
            yield _told(way, f"store {store!r} holds something else", counts)


def _told(way: _Way, what: str, shown: str) -> str:
    indented = "\n".join(f"    {line}" for line in shown.splitlines())
    return (
        f"not safe: {way.how}, {what}\n{indented}\n  why:   {way.why}\n  fix:   {way.fix}\n"
        f"  check: {way.name}"
    )


def _same_begin(some: Sequence[Any], others: Sequence[Any]) -> int:
    """Return the number of equal rows before the first that differs."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False))
    )


def _only_left_out(all_rows: Sequence[Any], fewer: Sequence[Any]) -> bool:
    """Return whether ``fewer`` is ``all_rows`` with some rows left out, but not the last."""
    if all_rows[-1:] != fewer[-1:]:
        return False
    rest = iter(all_rows)
    return all(row in rest for row in fewer)


def _run(tested: Subject, feed: Feed, start: int, way: _Way | None) -> _Outcome:
    settings, make = tested.settings, _Run
    arguments: dict[str, Any] = {"key_groups": tested.key_groups}
    if way is not None:
        settings = settings.with_values(way.settings) if way.settings else settings
        arguments |= way.driver
        make = _FewEpochs if way.few_epochs else _Run
    with make(tested.topology, settings, start, **arguments) as driver:
        feed(driver)
        return driver.outcome()
