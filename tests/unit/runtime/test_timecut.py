"""A backlog is cut at one moment for all partitions."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from mustela.model import TopicPartition
from mustela.runtime.timecut import TimeCutter

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TIMES = st.lists(st.integers(0, 2_000), max_size=120).map(sorted)


def read_all(
    logs: dict[TopicPartition, list[int]], budget: int
) -> list[dict[TopicPartition, list[int]]]:
    """Cut until everything is read; return the times that each epoch read."""
    done = dict.fromkeys(logs, 0)
    cutter = TimeCutter()
    epochs: list[dict[TopicPartition, list[int]]] = []

    def lookup(time: int) -> dict[TopicPartition, int]:
        found = {place: bisect_left(times, time) for place, times in logs.items()}
        return {place: at for place, at in found.items() if at < len(logs[place])}

    while waiting := {p: (done[p], len(logs[p])) for p in logs if done[p] < len(logs[p])}:
        low = min(logs[place][start - 1] if start else 0 for place, (start, _) in waiting.items())
        cuts, _ = cutter.cut(waiting, budget, lookup, low=low, high=10_000)
        assert cuts, "an epoch must read something"
        epochs.append({p: logs[p][cut.start : cut.end] for p, cut in cuts.items()})
        for place, cut in cuts.items():
            assert cut.start == done[place]
            done[place] = cut.end
    return epochs


@given(TIMES, TIMES, st.integers(1, 50))
def test_a_cut_reads_no_record_that_is_later_than_one_left_for_the_next_cut(
    first: list[int], second: list[int], budget: int
) -> None:
    """What one epoch reads is never later than what a later epoch reads, in any partition."""
    epochs = read_all({A: first, B: second}, budget)
    latest = -1
    for epoch in epochs:
        times = [time for part in epoch.values() for time in part]
        assert min(times) >= latest
        latest = max(latest, *times)


@given(TIMES, TIMES, st.integers(1, 50))
def test_cuts_stay_near_their_budget(first: list[int], second: list[int], budget: int) -> None:
    """Only a partition's least part, one record, may come on top."""
    for epoch in read_all({A: first, B: second}, budget):
        assert sum(len(part) for part in epoch.values()) <= budget + 1


def test_few_looks_are_needed_once_the_pace_of_event_time_is_known() -> None:
    """The second cut begins where the first one's step leads."""
    looks: list[int] = []

    def lookup(time: int) -> dict[TopicPartition, int]:
        looks.append(time)
        return {A: min(time, 1_000_000), B: min(time // 10, 100_000)}

    cutter = TimeCutter()
    first, _ = cutter.cut({A: (0, 1_000_000), B: (0, 100_000)}, 10_000, lookup, low=0, high=2**41)
    many = len(looks)
    looks.clear()
    waiting = {A: (first[A].end, 1_000_000), B: (first[B].end, 100_000)}
    cutter.cut(waiting, 10_000, lookup, low=first[A].end, high=2**41)
    assert many > 10
    assert len(looks) <= 2
