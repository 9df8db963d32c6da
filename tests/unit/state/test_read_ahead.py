"""Rows of key groups in one order, read ahead."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, strategies as st

from mustela.state.kinds.views import read_ahead

Row = tuple[bytes, bytes]

ROWS_MAX = 400


@given(
    places=st.lists(st.lists(st.integers(0, 500), unique=True, max_size=ROWS_MAX), max_size=6),
    reverse=st.booleans(),
)
def test_rows_are_those_of_all_key_groups_in_order(places: list[list[int]], reverse: bool) -> None:
    """However they are divided; of rows with one key that of the first group is first."""
    runs = [
        sorted(((b"%03d" % place, b"%d" % group) for place in mine), reverse=reverse)
        for group, mine in enumerate(places)
    ]
    found = list(read_ahead([iter(run) for run in runs], reverse=reverse))
    all_rows = [row for run in runs for row in run]
    assert found == sorted(all_rows, key=lambda row: row[0], reverse=reverse)


def test_the_first_rows_are_found_without_reading_far() -> None:
    """A page of few rows reads few; the whole is never held."""
    taken: list[int] = []

    def run(group: int) -> Iterator[Row]:
        for number in range(10_000):
            taken.append(group)
            yield b"%05d %02d" % (number, group), b""

    rows = read_ahead([run(group) for group in range(16)])
    next(rows)
    assert len(taken) == 16, "one of each"
    for _ in range(5_000):
        next(rows)
    assert len(taken) < 5_000 + 2 * 16 * 64
