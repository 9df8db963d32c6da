"""The fixed load: what is stamped, what must arrive, and how late it was."""

from __future__ import annotations

import json

import pytest

from benchmarks.load import LoadRecords, copies, due_us, read_stamp, stamp_of
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


BEGIN_US = 1_700_000_000_000_000


def test_each_customer_s_record_is_stamped_and_rows_of_the_table_are_not() -> None:
    """What the join gives begins with the record's first 64 bytes."""
    source = LoadRecords("table_join")
    for number in range(40):
        sent = source.sent(number, BEGIN_US + number)
        joined = None if sent.ending else read_stamp(sent.key, sent.value[:64] + b"|row")
        expected = BEGIN_US + number if copies("table_join", number) else None
        assert joined == expected
        assert bool(sent.ending) is (expected is None)


def test_a_payment_s_stamp_is_that_of_the_pair() -> None:
    """The order came before it."""
    source = LoadRecords("stream_join")
    for number in range(0, 20, 2):
        order, payment = (source.sent(at, BEGIN_US + at) for at in (number, number + 1))
        assert (order.ending, payment.ending, order.key) == ("", "payments", payment.key)
        assert read_stamp(None, order.value + b"+" + payment.value) == BEGIN_US + number + 1
        assert read_stamp(order.key, order.value) is None


def test_a_window_s_result_is_due_when_the_window_is_over() -> None:
    """Windows of ten seconds, five seconds of grace; the last ones stay open."""
    load = Load(program="windows", rate=100, begin_us=BEGIN_US, count=4_000)
    source = LoadRecords("windows")
    sent = source.sent(0, BEGIN_US)
    assert sent.time_ms == BEGIN_US // 1000
    assert read_stamp((sent.key or b"") + b"@1700000000000", b"1,2,3,4") == BEGIN_US
    due = BEGIN_US // 10_000_000 * 10_000_000 + 15_000_000
    assert due_us("windows", BEGIN_US + 5) == due
    expected = load.expected()
    assert 0 < len(expected) < 400
    arrivals = [(stamp, due_us("windows", stamp) / 1e6 + 0.2) for stamp in expected]
    assert load.faults(arrivals) == []
    assert load.faults([*arrivals, (BEGIN_US + 39_900_000, 0.0)]) == []  # closed by what came late
    assert load.faults(arrivals[1:]) == ["1 stamped records did not arrive"]
    timed = load.latencies_ms(arrivals, warm_up_s=1)
    assert timed == pytest.approx([200.0] * len(timed))
