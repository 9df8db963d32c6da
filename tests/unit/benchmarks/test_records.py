"""The input of the benchmarks is the same on every machine."""

from __future__ import annotations

import hashlib
import json
from itertools import islice

import pytest

from benchmarks import records
from benchmarks.workloads import SEED, WORKLOADS


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_seed_gives_the_same_records_again(name: str) -> None:
    """A longer run begins with those of a shorter one, unless their times hang on the length."""
    make = WORKLOADS[name].make
    short, long = list(make(500, SEED)), list(islice(make(5_000, SEED), 500))
    assert short == list(make(500, SEED))
    assert short == long or len(short[0]) == 3
    assert short != list(make(500, SEED + 1))


def test_side_topics_are_made_from_a_seed_too() -> None:
    """As many records as their share says, each with a time of its own."""
    sides = [side for workload in WORKLOADS.values() for side in workload.sides]
    for side in sides:
        made = list(side.make(side.count(1_000), SEED))
        assert len(made) == side.count(1_000)
        assert made == list(side.make(side.count(1_000), SEED))
        assert all(len(record) == 3 for record in made)


def test_orders_and_their_customers_change() -> None:
    """Four orders in ten change an earlier one; each customer has a row before the first order."""
    orders = list(records.order_versions(2_000, SEED, customers=200))
    assert {len(value) for _, value, _ in orders} == {100}
    assert 700 < 2_000 - len({key for key, _, _ in orders}) < 900
    rows = list(records.customer_versions(400, SEED))
    known = {key for key, _, time in rows if time < orders[0][2]}
    assert len(known) == 200
    assert known == {key for key, _, _ in rows}
    strangers = sum(value[:17] not in known for _, value, _ in orders)
    assert 10 < strangers < 100
    newest: dict[object, bytes] = {}
    for key, value, _ in orders:
        assert value[:17] in known or newest.get(key) in (None, *known)
        newest[key] = value[:17]


def test_what_closes_windows_is_later_each_time() -> None:
    """The runs of a workload share its input."""
    times = [{time for _, _, time in records.closing(number)} for number in range(3)]
    assert max(times[0]) + 60_000 < min(times[1])
    assert max(times[1]) + 60_000 < min(times[2])


def test_payments_are_one_kilobyte_of_json() -> None:
    """Exactly 1,024 bytes under keys of 16, about a tenth of them below 100."""
    made = list(records.payments(2_000, SEED))
    assert {len(value) for _, value in made} == {1_024}
    assert {len(key or b"") for key, _ in made} == {16}
    small = sum(json.loads(value)["amount"] < 100 for _, value in made)
    assert 150 < small < 250


@pytest.mark.parametrize("zipf", [True, False])
def test_kilobyte_lines_have_128_words(zipf: bool) -> None:
    """Each of seven letters with a space behind it."""
    for _, line in records.kilobyte_lines(20, SEED, zipf=zipf):
        words = line.split()
        assert len(line) == 1_024
        assert {len(word) for word in words} == {7}
        assert len(words) == 128


def test_the_records_did_not_change() -> None:
    """Results are comparable over time only if the input is: a change here needs new results."""
    digest = hashlib.sha256()
    for name in sorted(WORKLOADS):
        for key, value, *_ in WORKLOADS[name].make(200, SEED):
            digest.update(key or b"")
            digest.update(value)
    assert digest.hexdigest()[:16] == "7d56cc976b66266d"
