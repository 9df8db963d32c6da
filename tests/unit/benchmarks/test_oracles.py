"""The oracles find what is wrong with an output, and nothing where nothing is."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import pytest

from benchmarks import oracles
from benchmarks.oracles import OutputRecord
from benchmarks.oracles_joins import (
    ForeignKeyOracle,
    MatchOracle,
    RowJoinOracle,
    SessionOracle,
    WindowOracle,
)
from benchmarks.workloads import SEED, WORKLOADS

Damage = Callable[[list[OutputRecord]], list[OutputRecord]]


def counted(words: list[bytes]) -> list[OutputRecord]:
    """Every update of a running count, as a table without a cache writes them."""
    counts: dict[bytes, int] = {}
    out: list[OutputRecord] = []
    for word in words:
        counts[word] = counts.get(word, 0) + 1
        out.append(("", word, struct.pack(">q", counts[word])))
    return out


def test_a_right_count_has_no_faults() -> None:
    """Changes on the way to the final table are free."""
    oracle = WORKLOADS["word_count"].oracle()
    words: list[bytes] = []
    for record in WORKLOADS["word_count"].make(200, SEED):
        oracle.see(record)
        words += record[1].split()
    assert oracle.check(counted(words)) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda out: out[:-1],
        lambda out: [*out, ("", b"stranger", struct.pack(">q", 1))],
        lambda out: [*out, ("", out[-1][1], struct.pack(">q", 99))],
        lambda out: [*out, ("", out[-1][1], None)],
        lambda out: [*out, ("", out[-1][1], b"7")],
    ],
    ids=["missing", "unknown key", "wrong count", "deleted", "wrong bytes"],
)
def test_a_wrong_count_is_found(damage: Damage) -> None:
    """One wrong word is enough."""
    oracle = WORKLOADS["word_count"].oracle()
    oracle.see((None, b"one two two"))
    assert oracle.check(damage(counted([b"two", b"two", b"one"]))) != []


def test_json_agrees_whatever_the_order_of_its_fields() -> None:
    """Peers write fields in their own order, numbers with or without spaces."""
    workload = WORKLOADS["w1b"]
    oracle = workload.oracle()
    out: list[OutputRecord] = []
    for record in workload.make(300, SEED):
        oracle.see(record)
        for branch, key, value in oracles.converted(record[:2]):
            fields = dict(reversed(json.loads(value).items()))
            out.append((branch, key, json.dumps(fields, indent=1).encode()))
    assert oracle.check(reversed(out)) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda out: out[1:],
        lambda out: [*out, out[0]],
        lambda out: [out[0], *out[:-1]],
        lambda out: [("eur", *out[0][1:]), *out[1:]] if out[0][0] != "eur" else out[1:],
        lambda out: [(out[0][0], b"other key", out[0][2]), *out[1:]],
    ],
    ids=["missing", "twice", "one for another", "other topic", "other key"],
)
def test_a_wrong_record_is_found_among_many(damage: Damage) -> None:
    """Order is free, everything else is not."""
    workload = WORKLOADS["w1c"]
    oracle = workload.oracle()
    out: list[OutputRecord] = []
    for record in workload.make(50, SEED):
        oracle.see(record)
        out += oracles.advanced(record[:2])
    assert oracle.check(out) == []
    assert oracle.check(damage(out)) != []


def test_payments_convert_to_three_decimals_without_ties() -> None:
    """No amount lies halfway, so every peer's way of rounding gives the same number."""
    for cents in range(0, 100_000, 7):
        thousandths = cents * 908
        assert thousandths % 100 != 50
        assert round(cents / 100 * 0.908, 3) == round(thousandths / 100) / 1000


def test_a_joined_row_must_be_the_right_one() -> None:
    """The row of the key, or nobody's; each record once."""
    oracle = RowJoinOracle()
    oracle.see_side("table", (b"k", b"row", 1))
    oracle.see((b"k", b"x" * 100, 2))
    oracle.see((b"other", b"y", 3))
    right = [("", b"k", b"x" * 64 + b"|row"), ("", b"other", b"y|nobody")]
    assert oracle.check(right) == []
    assert oracle.check(right[:1])
    assert oracle.check([right[0], ("", b"other", b"y|row")])


def test_a_match_must_lie_within_the_window() -> None:
    """Five seconds to either side, both ends inside."""
    oracle = MatchOracle()
    for key, late in ((b"a", 5_000), (b"b", 5_001), (b"c", -5_000)):
        oracle.see((key, b"order", 10_000))
        oracle.see_side("payments", (key, b"paid", 10_000 + late))
    oracle.see((b"d", b"order", 10_000))
    right = [("", b"a", b"order+paid"), ("", b"c", b"order+paid")]
    assert oracle.check(right) == []
    assert oracle.check([*right, ("", b"b", b"order+paid")])
    assert oracle.check(right[1:])


@pytest.mark.parametrize("payments_alone", [False, True], ids=["left", "outer"])
def test_who_has_no_partner_is_a_result_once(payments_alone: bool) -> None:
    """Orders of a left join, and payments too of an outer one; not one that has a partner."""
    oracle = MatchOracle(orders_alone=True, payments_alone=payments_alone)
    for key, late in ((b"a", 5_000), (b"b", 5_001)):
        oracle.see((key, b"order", 10_000))
        oracle.see_side("payments", (key, b"paid", 10_000 + late))
    oracle.see((b"c", b"order", 10_000))
    right = [("", b"a", b"order+paid"), ("", b"b", b"order+-"), ("", b"c", b"order+-")]
    if payments_alone:
        right.append(("", b"b", b"-+paid"))
    assert oracle.check([*right, ("", b"closing-000001", b"0+0")]) == []
    assert oracle.check(right[1:])
    assert oracle.check([*right, right[-1]])
    assert oracle.check([*right, ("", b"a", b"order+-")])
    assert oracle.check([*right[:1], ("", b"b", b"order+paid"), *right[2:]])


def test_the_last_row_of_each_order_is_what_counts() -> None:
    """With the last row of the customer that it names last; none where nobody is that."""
    oracle = ForeignKeyOracle()
    for value in (b"old", b"new"):
        oracle.see_side("customers", (b"customer-00000001", value, 1))
    oracle.see((b"o1", b"customer-00000009 first", 2))
    oracle.see((b"o1", b"customer-00000001 second", 3))
    oracle.see((b"o2", b"customer-00000001 first", 4))
    oracle.see((b"o2", b"customer-00000009 second", 5))
    old, new = b"customer-00000001 second|old", b"customer-00000001 second|new"
    gone = ("", b"o2", b"customer-00000001 first|new")
    assert oracle.check([("", b"o1", old), gone, ("", b"o1", new), ("", b"o2", None)]) == []
    assert oracle.check([("", b"o1", new)]) == []
    assert oracle.check([("", b"o1", new), ("", b"o1", old)])
    assert oracle.check([("", b"o1", new), gone])
    assert oracle.check([("", b"o1", new), ("", b"o1", None)])


def test_hopping_windows_count_a_record_in_each_that_holds_it() -> None:
    """Five of them where they begin every two seconds and last ten."""
    oracle = WindowOracle(advance_ms=2_000)
    oracle.see((b"k", b"5", 100_001))
    right = [("", b"k@%d" % start, b"1,5,5,5") for start in range(92_000, 100_001, 2_000)]
    assert oracle.check(right) == []
    assert oracle.check(right[1:])


def test_a_session_ends_with_a_pause() -> None:
    """Of more than five seconds; a late record may make one of two."""
    oracle = SessionOracle()
    for value, time in ((b"5", 1_000), (b"3", 11_000), (b"8", 6_000), (b"1", 16_001)):
        oracle.see((b"k", value, time))
    oracle.see((b"closing-1", b"0", 99_999))
    right = [("", b"k@1000-11000", b"3,16,3,8"), ("", b"k@16001-16001", b"1,1,1,1")]
    assert oracle.check([*right, ("", b"closing-1@99999-99999", b"1,0,0,0")]) == []
    assert oracle.check(right[1:])
    assert oracle.check([*right, ("", b"k@1000-6000", b"2,13,5,8")])


def test_a_window_has_exactly_one_row() -> None:
    """Of the records in it; keys that only close windows do not count."""
    oracle = WindowOracle()
    for value, time in ((b"5", 1), (b"3", 9_999), (b"8", 10_000)):
        oracle.see((b"k", value, time))
    oracle.see((b"closing-1", b"0", 99_999))
    right = [("", b"k@0", b"2,8,3,5"), ("", b"k@10000", b"1,8,8,8")]
    assert oracle.check([*right, ("", b"closing-1@90000", b"1,0,0,0")]) == []
    assert oracle.check(right[:1])
    assert oracle.check([*right, right[0]]) == ["two rows for b'k@0'"]
    assert oracle.check([right[0], ("", b"k@10000", b"1,8,8,9")])
