"""A backlog is cut at one moment for all partitions, whatever the broker's index knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.splitting import split_ranges
from mustela.kernel.split_order import mend_order
from mustela.model import TopicPartition
from mustela.plan.batch import Batch, Order, SourceChunk
from mustela.plan.ranges import RangeReport, SourceRange
from mustela.plan.watermark import epoch_time
from mustela.runtime.cutting.timecut import Backlog, TimeCutter, seen_behind
from mustela.runtime.record.source_offsets import Cut, cuts_made, ranges_of
from mustela.runtime.time.watermark import Look, WatermarkOptions, WatermarkState

A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
TOPICS = {"a": 0, "b": 1}
FUTURE = 10**6


@dataclass
class Broker:
    """Logs of timestamps, with what else its index of times counts, and what was read of them.

    Attributes:
        logs: The timestamps of each partition.
        noise: Offsets that count as if they had the latest of all times, such as markers of
            transactions.
        retimed: Topics of whose times the index knows nothing.
    """

    logs: dict[TopicPartition, list[int]]
    noise: dict[TopicPartition, set[int]] = field(default_factory=dict[TopicPartition, set[int]])
    retimed: tuple[str, ...] = ()

    def lookup(self, time: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for place, log in self.logs.items():
            noise = self.noise.get(place, set())
            times = (FUTURE if n in noise else t for n, t in enumerate(log))
            at = next((n for n, t in enumerate(times) if t >= time), None)
            if at is not None:
                found[place] = at
        return found

    def read(self, piece: SourceRange) -> tuple[SourceChunk, RangeReport]:
        """Read a range as a source task does."""
        name = next(topic for topic, index in TOPICS.items() if index == piece.topic_index)
        log = self.logs[TopicPartition(name, piece.partition)]
        chunk = self._chunk(piece, log, piece.end)
        stopped = chunk.reaches(piece.until)
        end = piece.end if stopped is None else piece.start + stopped[0]
        chunk = self._chunk(piece, log, end)
        top = max([piece.floor, *chunk.counting()[0]])
        at = (piece.topic_index, piece.partition, piece.start, end)
        next_ms = -1 if stopped is None else stopped[1]
        return chunk, RangeReport(*at, end - piece.start, top, 0, 0, next_ms)

    @staticmethod
    def _chunk(piece: SourceRange, log: list[int], end: int) -> SourceChunk:
        return SourceChunk(
            topics=("a", "b"),
            topic_index=piece.topic_index,
            partition=piece.partition,
            offsets=list(range(piece.start, end)),
            timestamps=log[piece.start : end],
            floor=piece.floor,
            latest=piece.latest,
        )


def read_all(
    broker: Broker, budget: int, *, slack: int = 7, late: int = 0
) -> list[list[tuple[Order, int]]]:
    """Read everything in epochs as the driver does; return each one's rows and judged times."""
    cutter, state = (
        TimeCutter(slack_min=slack),
        WatermarkState(WatermarkOptions(max_out_of_orderness_ms=late)),
    )
    state.track(broker.logs, 0)
    done = dict.fromkeys(broker.logs, 0)
    latest = dict.fromkeys(TOPICS, FUTURE - 1)
    epochs: list[list[tuple[Order, int]]] = []
    for _ in range(10_000):
        waiting = {p: (done[p], len(log)) for p, log in broker.logs.items() if done[p] < len(log)}
        if not waiting:
            return epochs
        floors = {place: time.max_timestamp for place, time in state.partitions.items()}
        until, cuts = None, {p: Cut(s, e, e) for p, (s, e) in waiting.items()}
        if sum(end - start for start, end in waiting.values()) > budget:
            backlog = Backlog(
                waiting=waiting,
                floors=floors,
                budget=budget,
                high=10_000,
                lookup=broker.lookup,
                retimed=broker.retimed,
            )
            cuts, until = cutter.cut(backlog)
            assert cuts, "an epoch must read something"
        short = {
            p
            for p, (_, end) in waiting.items()
            if p not in cuts or (cuts[p].sure is None and cuts[p].end < end)
        }
        look = Look(now_ms=0, short=short, until_ms=until)
        ranges = split_ranges(
            ranges_of(cuts, TOPICS, floors, latest, until), 2, records_min=4, range_cost=0
        )
        parts = [broker.read(piece) for task in ranges for piece in task]
        reports = [report for _, report in parts]
        whole = until is not None and all(cut.sure is not None for cut in cuts.values())
        if whole and not cutter.settle(cuts, seen_behind(cuts, TOPICS, reports)):
            continue
        time = epoch_time(state.order(TOPICS, look), reports, 0)
        state = state.after(TOPICS, look, reports)
        assert state.value == time.watermark
        rows: list[tuple[Order, int]] = []
        for chunk, _ in parts:
            batch = Batch(chunk.timestamps, chunk.timestamps, chunk)
            order = mend_order(batch, ranges, reports).order or []
            rows += zip(order, time.judge(order), strict=True)
        epochs.append(sorted(rows))
        for place, cut in cuts_made(cuts, TOPICS, reports).items():
            assert cut.start == done[place]
            done[place] = cut.end
    raise AssertionError("no end")


def in_one(broker: Broker, late: int) -> list[tuple[Order, int]]:
    return read_all(broker, 10**9, late=late)[0]


_times = st.lists(st.integers(0, 400), max_size=40)
_logs = st.tuples(_times, _times, _times)


@given(_logs, st.integers(1, 50), st.integers(0, 30))
def test_epochs_that_are_cut_by_time_give_one_time_ordered_run(
    logs: tuple[list[int], ...], budget: int, late: int
) -> None:
    """The same rows in the same order, and each row judged at the same time, as at once."""
    broker = Broker(dict(zip((A, B, C), logs, strict=True)))
    if not any(logs):
        return
    rows = [row for epoch in read_all(broker, budget, late=late) for row in epoch]
    assert sorted(rows) == in_one(broker, late)
    assert all(one[0][0] <= two[0][0] for one, two in pairwise(rows))


@given(
    _logs,
    st.tuples(*[st.sets(st.integers(0, 39), max_size=5)] * 3),
    st.sets(st.sampled_from(["a", "b"])),
    st.integers(1, 50),
    st.integers(5, 60),
)
def test_it_does_so_where_the_index_knows_less(
    logs: tuple[list[int], ...],
    noise: tuple[set[int], ...],
    retimed: set[str],
    budget: int,
    slack: int,
) -> None:
    """Markers of transactions, aborted records and other people's times hide what is older."""
    places = (A, B, C)
    broker = Broker(
        dict(zip(places, logs, strict=True)),
        dict(zip(places, noise, strict=True)),
        tuple(sorted(retimed)),
    )
    if not any(logs):
        return
    # More records of one moment than a task reads on for cannot be told apart without an index.
    running = [list(accumulate(log, max)) for log in logs]
    if any(times.count(time) > slack for times in running for time in times):
        return
    rows = [row for epoch in read_all(broker, budget, slack=slack) for row in epoch]
    assert sorted(rows) == in_one(broker, 0)
    assert all(one[0][0] <= two[0][0] for one, two in pairwise(rows))


def test_a_moment_that_the_index_hides_is_read_all_the_same() -> None:
    """It was known to hold too much, and the broker said that nothing lies at it."""
    broker = Broker({A: [], B: [], C: [0, 0, 0, 0, 0, 1]}, {C: {0}})
    rows = [row for epoch in read_all(broker, 1, slack=5) for row in epoch]
    assert sorted(rows) == in_one(broker, 0)


@given(_logs, st.integers(1, 50))
def test_a_timestamp_from_far_ahead_holds_nothing_up(
    logs: tuple[list[int], ...], budget: int
) -> None:
    """It counts for the broker's index, not for the cut."""
    ahead = [[FUTURE + 7 if n % 5 == 2 else t for n, t in enumerate(log)] for log in logs]
    broker = Broker(dict(zip((A, B, C), ahead, strict=True)))
    if not any(logs):
        return
    counting = [[0 if time > FUTURE else time for time in log] for log in ahead]
    running = [list(accumulate(log, max)) for log in counting]
    if any(times.count(time) > 6 for times in running for time in times):
        return
    rows = [row for epoch in read_all(broker, budget) for row in epoch]
    assert sorted(rows) == in_one(broker, 0)
    assert all(one[0][0] <= two[0][0] for one, two in pairwise(rows))


@given(_times.map(sorted), _times.map(sorted), st.integers(1, 50))
def test_cuts_stay_near_their_budget(first: list[int], second: list[int], budget: int) -> None:
    """Only a partition's least part, one record, may come on top."""
    if not first + second:
        return
    broker = Broker({A: first, B: second})
    for epoch in read_all(broker, budget):
        assert len(epoch) <= budget + 1


def test_few_looks_are_needed_once_the_pace_of_event_time_is_known() -> None:
    """The second cut begins where the first one's step leads."""
    looks: list[int] = []

    def lookup(time: int) -> dict[TopicPartition, int]:
        looks.append(time)
        return {A: min(time, 1_000_000), B: min(time // 10, 100_000)}

    cutter = TimeCutter()

    def cut(a: int, b: int) -> tuple[dict[TopicPartition, Cut], int]:
        waiting = {A: (a, 1_000_000), B: (b, 100_000)}
        floors = {A: a, B: b * 10}
        return cutter.cut(
            Backlog(waiting=waiting, floors=floors, budget=10_000, high=2**41, lookup=lookup)
        )

    first, _ = cut(0, 0)
    many = len(looks)
    looks.clear()
    cut(first[A].sure or 0, first[B].sure or 0)
    assert many > 10
    assert len(looks) <= 2


@pytest.mark.parametrize("times", [0.3, 1, 4])
def test_a_cut_finds_most_of_its_budget_once_the_pace_is_known(times: float) -> None:
    """With one look, also where the budget is another than before."""
    looks: list[int] = []

    def lookup(time: int) -> dict[TopicPartition, int]:
        looks.append(time)
        return {A: min(time, 1_000_000), B: min(time // 10, 100_000)}

    cutter = TimeCutter()
    start = {A: 0, B: 0}
    for budget in (10_000, int(10_000 * times)):
        looks.clear()
        waiting = {A: (start[A], 1_000_000), B: (start[B], 100_000)}
        floors = {A: start[A], B: start[B] * 10}
        cuts, _ = cutter.cut(
            Backlog(waiting=waiting, floors=floors, budget=budget, high=2**41, lookup=lookup)
        )
        found = sum((cut.sure or 0) - cut.start for cut in cuts.values())
        start = {place: cut.sure or 0 for place, cut in cuts.items()}
    assert len(looks) == 1
    assert 0.8 * budget <= found <= budget


def test_no_second_reading_is_needed_once_it_is_known_what_the_index_hides() -> None:
    """The first epoch finds out how many records are older than the index says."""
    log = list(range(0, 40_000, 10))
    broker = Broker({A: log, B: log[::10]}, {A: {1}, B: {0}})
    readings: list[int] = []
    read = broker.read

    def counted(piece: SourceRange) -> tuple[SourceChunk, RangeReport]:
        chunk, report = read(piece)
        readings.append(report.records)
        return chunk, report

    broker.read = counted  # type: ignore[method-assign]
    epochs = read_all(broker, 400, slack=400)
    assert sum(map(len, epochs)) == len(log) + len(log[::10])
    assert sum(readings) < 1.4 * sum(map(len, epochs))
