"""Rows of several versions in one store: each is read as a value of the newest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.serdes.base import Serde, SerdeError
from mustela.serdes.primitives import BytesSerde, IntSerde, StrSerde
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.row_versions import OldRows, RowVersions, UpgradingSerde, version_of


@dataclass
class Cents:
    amount: int
    currency: str = "EUR"


def cents(euros: int) -> str:
    return f"{euros}.00"


def money(text: str) -> Cents:
    return Cents(int(text.replace(".", "")))


SERDES: list[Serde[Any]] = [IntSerde(), StrSerde(), resolve_serde(Cents)]
STEPS = (cents, money)


def serde_of(version: int, oldest: int = 1) -> Serde[Any]:
    """The serde of a program of a version that upgrades from an oldest one on."""
    current = SERDES[version - 1]
    if version == 1:
        return current
    older = {
        old: OldRows(serde=SERDES[old - 1], upgrade=STEPS[old - 1])
        for old in range(oldest, version)
    }
    return UpgradingSerde(current, RowVersions(version=version, older=older))


def eagerly(version: int, number: int) -> Any:
    """What a value of a version is when all upgrades are done at once."""
    values: tuple[Any, ...] = (number, f"{number}.00", Cents(number * 100))
    return values[version - 1]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 10**6)) | st.none()))
def test_any_mix_of_versions_reads_as_if_all_were_upgraded(
    rows: Sequence[tuple[int, int] | None],
) -> None:
    """One by one and by column; and what is read and written again is of the newest version."""
    stored = [None if row is None else serde_of(row[0]).serialize(eagerly(*row)) for row in rows]
    newest = serde_of(3)
    wanted = [None if row is None else eagerly(3, row[1]) for row in rows]
    assert newest.deserialize_many(stored) == wanted
    assert [newest.deserialize(item) for item in stored] == wanted
    again = newest.serialize_many(wanted)
    assert {version_of(item) for item in again if item is not None} <= {3}
    assert newest.deserialize_many(again) == wanted


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "touch", "delete"]), st.integers(0, 3)), max_size=30
    ),
    st.lists(st.integers(0, 30), max_size=2),
)
def test_releases_between_reads_and_writes_change_nothing_but_the_form(
    steps: Sequence[tuple[str, int]], releases: Sequence[int]
) -> None:
    """A store over up to three releases holds what it would, had each upgraded all its rows."""
    store: dict[int, bytes] = {}
    model: dict[int, int] = {}
    for place, (step, key) in enumerate(steps):
        version = 1 + sum(place >= at for at in releases)
        serde = serde_of(version)
        if step == "write":
            model[key] = place
            store[key] = serde.serialize(eagerly(version, place)) or b""
        elif step == "touch" and key in model:
            store[key] = serde.serialize(serde.deserialize(store[key])) or b""
            assert version_of(store[key]) == version
        elif step == "delete":
            model.pop(key, None)
            store.pop(key, None)
        read = dict(zip(store, serde.deserialize_many(list(store.values())), strict=True))
        assert read == {key: eagerly(version, number) for key, number in model.items()}


def test_rows_of_the_first_version_are_what_they_were() -> None:
    """A later program finds them whatever they begin with, and the empty one too."""
    versions = RowVersions(version=2, older={1: OldRows(serde=BytesSerde(), upgrade=len)})
    serde = UpgradingSerde(IntSerde(), versions)
    rows = [b"", b"\xc1", b"\xc1\x09\x85\x33", bytes(8), b"\xff" * 12]
    assert serde.deserialize_many(rows) == [len(row) for row in rows]


@pytest.mark.parametrize(
    ("written", "reads", "says"),
    [
        ((3, 1), (2, 1), "the row is of version 3, but the program has version 2"),
        ((1, 1), (3, 2), "no upgrade from 1"),
    ],
)
def test_a_row_that_cannot_be_upgraded_says_of_which_version_it_is(
    written: tuple[int, int], reads: tuple[int, int], says: str
) -> None:
    """And at which place of the column it is."""
    row = serde_of(*written).serialize(eagerly(written[0], 7))
    serde = serde_of(*reads)
    with pytest.raises(SerdeError) as raised:
        serde.deserialize_many([None, row])
    assert says in raised.value.what
    assert raised.value.fields["index"] == 1


@pytest.mark.parametrize(
    ("upgrade", "says"),
    [(lambda _: 1 // 0, "ZeroDivisionError"), (lambda _: None, "it returned None")],
)
def test_an_upgrade_that_fails_is_named(upgrade: Any, says: str) -> None:
    """A row is never taken for one that is not there."""
    versions = RowVersions(version=2, older={1: OldRows(serde=StrSerde(), upgrade=upgrade)})
    with pytest.raises(SerdeError, match=says) as raised:
        UpgradingSerde(IntSerde(), versions).deserialize(b"x")
    assert raised.value.fix == "fix the function that upgrades version 1"


def test_versions_are_equal_in_another_process() -> None:
    """A function is another object there; what its bytes depend on is not."""
    one, other = (
        RowVersions(version=2, older={1: OldRows(serde=StrSerde(), upgrade=lambda text: int(text))})
        for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one != dataclasses.replace(one, version=3, older={2: one.older[1]})


def test_only_old_rows_are_upgraded() -> None:
    """And each once for each time it is read."""
    count = itertools.count()
    older = {1: OldRows(serde=StrSerde(), upgrade=lambda text: (next(count), int(text))[1])}
    serde = UpgradingSerde(IntSerde(), RowVersions(version=2, older=older))
    assert serde.deserialize_many([*serde.serialize_many([1, 2, 3]), b"4", None]) == [
        1,
        2,
        3,
        4,
        None,
    ]
    assert next(count) == 1


def test_rows_that_are_held_are_those_of_the_version_before() -> None:
    """Also between other versions, and one by one or many at once; what has no way back is told."""
    old = OldRows(serde=StrSerde(), upgrade=int, back=str)
    first = UpgradingSerde(IntSerde(), RowVersions(version=2, older={1: old}, held=1))
    assert first.serialize_many([17, None]) == [b"17", None]
    assert first.serialize(17) == b"17"
    assert first.deserialize_many([b"17", None]) == [17, None]
    second = UpgradingSerde(IntSerde(), RowVersions(version=3, older={2: old}, held=2))
    assert version_of(second.serialize(17) or b"") == 2
    assert second.deserialize(second.serialize(17)) == 17
    lossy = OldRows(serde=StrSerde(), upgrade=int, back=lambda _: None)
    broken = UpgradingSerde(IntSerde(), RowVersions(version=2, older={1: lossy}, held=1))
    with pytest.raises(SerdeError, match="taken back to version 1: it returned None"):
        broken.serialize(17)
