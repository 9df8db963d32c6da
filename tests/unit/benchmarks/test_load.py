"""The fixed load: what is stamped, what must arrive, and how late it was."""

from __future__ import annotations

import json

import pytest

from benchmarks.load import LoadRecords, copies, read_stamp, stamp_of
from benchmarks.receiver import Load

PROGRAMS = ["passthrough", "json", "advanced", "word_count", "count"]


def arrivals_of(load: Load, delay_s: float) -> list[tuple[int, float]]:
    return [
        (stamp, stamp / 1e6 + delay_s)
        for stamp, times in load.expected().items()
        for _ in range(times)
    ]


def test_stamps_are_intended_times() -> None:
    """They do not depend on when a record really left."""
    assert [stamp_of(5_000_000, number, 1_000) for number in (0, 1, 1_000)] == [
        5_000_000,
        5_001_000,
        6_000_000,
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_stamp_that_must_arrive_is_in_the_record(program: str) -> None:
    """Where it is not, no copy is expected."""
    source = LoadRecords(program)
    for number in range(30):
        key, value = source.record(number, 1_700_000_000_000_000 + number)
        if program == "word_count":
            found = [read_stamp(word, None) for word in value.split()]
            stamps = [stamp for stamp in found if stamp is not None]
        else:
            stamp = read_stamp(key, value)
            stamps = [] if stamp is None else [stamp]
        if copies(program, number):
            assert stamps == [1_700_000_000_000_000 + number]
        elif program != "advanced":
            assert stamps == []


def test_load_payments_are_never_filtered_away() -> None:
    """The JSON workload drops small amounts: a load has none."""
    source = LoadRecords("json")
    amounts = [json.loads(source.record(number, 0)[1])["amount"] for number in range(200)]
    assert min(amounts) >= 100


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_whole_load_has_no_faults_and_its_latencies(program: str) -> None:
    """Records of the warm-up are checked too, but not timed."""
    load = Load(program=program, rate=100, begin_us=1_000_000, count=200)
    arrivals = arrivals_of(load, 0.25)
    assert load.faults(arrivals) == []
    timed = load.latencies_ms(arrivals, warm_up_s=1)
    assert timed == pytest.approx([250.0] * len(timed))
    assert 0 < len(timed) < len(arrivals)


def test_a_lost_and_a_doubled_record_are_faults() -> None:
    """Both make the run one without a number."""
    load = Load(program="json", rate=100, begin_us=0, count=50)
    arrivals = arrivals_of(load, 0.1)
    assert load.faults(arrivals[1:]) == ["1 stamped records did not arrive"]
    assert load.faults([*arrivals, arrivals[0]]) == ["1 stamped records arrived too often"]
