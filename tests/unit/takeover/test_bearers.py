"""Rows of old changelogs become rows of Mustela's stores, and hold the same."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import (
    App,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from mustela.config.settings import Settings
from mustela.connectors.kafka_streams.changelogs import ChangelogFormatError
from mustela.runtime.takeover.bearers import Bearer, OldRow, bearer_of, why_refused
from mustela.runtime.takeover.matching import owners
from mustela.runtime.takeover.planning import NotReadyError, checked_rows
from mustela.runtime.takeover.seeding import empty_view
from mustela.runtime.takeover.spill import Spill
from mustela.state.kinds.layout import STREAM_TIME
from mustela.windows import BufferConfig, EmitStrategy
from tests.unit.takeover.test_formats import ROWS, VERSION

GROUPS = 4
MINUTE = timedelta(minutes=1)


def program(builder: StreamsBuilder) -> None:
    """A store of each kind that can be taken over, and of some that cannot."""
    visits = builder.stream("visits", key=str, value=str)
    grouped = visits.group_by_key()
    grouped.count(store="counts")
    grouped.reduce(lambda a, b: a + b, materialized=Materialized(store="headed", with_headers=True))
    windows = TimeWindows(size=MINUTE, grace=MINUTE)
    minutes = grouped.windowed_by(windows).count(store="minutes")
    minutes.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final")
    sessions = SessionWindows(inactivity_gap=MINUTE, grace=MINUTE)
    grouped.windowed_by(sessions).count(store="sessions")
    sliding = SlidingWindows(time_difference=MINUTE, grace=MINUTE)
    grouped.windowed_by(sliding).count(store="sliding")
    closing_ = grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
    closing_.count(store="closed")
    kept = Stores.persistent_versioned_key_value_store("prices", timedelta(milliseconds=50))
    prices = builder.table("prices", key=str, value=str, materialized=Materialized(supplier=kept))
    visits.join(prices, lambda visit, price: visit + price, value=str, name="priced")
    other = builder.stream("other", key=str, value=str)
    near = JoinWindows.of_time_difference(MINUTE, grace=MINUTE)
    visits.join(other, lambda a, b: a + b, windows=near, value=str, name="both")
    visits.outer_join(other, lambda a, b: f"{a}{b}", windows=near, value=str, name="either")
    visits.join(visits, lambda a, b: a + b, windows=near, value=str, name="itself")
    tracks = builder.table("tracks", key=str, value=str, store="tracks")
    albums = builder.table("albums", key=str, value=str, store="albums")
    tracks.join(albums, lambda a, b: a + b, foreign_key=lambda a: a, value=str, store="listed")
    lately = Materialized(store="lately", ttl=MINUTE)
    grouped.count(materialized=lately)


APP = App("new", {"event_time": "stream-time"})
APP.topology(program)
OWNERS = owners(APP.built_plan())


def bearer(store: str) -> Bearer:
    """Return what carries the rows of a store."""
    spec, node = OWNERS[store]
    assert not why_refused(spec, node)
    return bearer_of(spec, node)


def settings() -> Settings:
    """Settings with few key groups."""
    return App("new", {"key_groups": GROUPS}).settings


def carried(mine: Bearer, rows: list[OldRow]) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Return what the old rows say, and what is found after they were carried over."""
    expected: dict[bytes, bytes] = {}
    found: dict[bytes, bytes] = {}
    with closing(Spill(mine, GROUPS)) as spill:
        spill.add(rows)
        for group in range(GROUPS):
            view = empty_view(settings(), mine.spec, group, GROUPS)
            mine.fill(view, spill.rows(group))
            mine.keep_time(view, 5)
            expected |= dict(mine.expected(spill.rows(group)))
            found |= dict(mine.found(view))
    return expected, found


keys = st.sampled_from([b"ann", b"bob", b"", b"a", b"ann\x00"])
times = st.integers(0, 200)
values = st.none() | st.binary(max_size=3)


def long(number: int) -> bytes:
    """Eight bytes."""
    return number.to_bytes(8, "big")


def shaped(store: str, key: bytes, time: int, more: int) -> bytes:
    """Return a changelog's key of a store."""
    return {
        "counts": key,
        "headed": key,
        "prices": key,
        "minutes": key + long(time) + bytes(4),
        "sessions": key + long(time + more) + long(time),
        "sliding": key + long(time) + bytes(4),
        "both-this-join-store": key + long(time) + more.to_bytes(4, "big"),
        "either-outer-shared-join-store": long(time) + bytes([more % 2]) + key,
    }[store]


def listed(side: int, value: bytes) -> bytes:
    """Return two waiting records of a side, as a list of Kafka Streams."""
    one = (len(value) + 1).to_bytes(4, "big") + bytes([side]) + value
    return b"\x01" + (2).to_bytes(4, "big") + one * 2


@pytest.mark.parametrize(
    "store",
    [
        *("counts", "headed", "minutes", "sessions", "sliding", "prices"),
        *("both-this-join-store", "either-outer-shared-join-store"),
    ],
)
@given(data=st.data())
def test_what_is_carried_over_holds_what_the_old_rows_say(store: str, data: Any) -> None:
    """Whatever rows a changelog holds, in whatever order: overwritten, deleted, of any time."""
    mine = bearer(store)
    few = st.tuples(keys, times, st.integers(0, 3), values, times, st.integers(0, 1))
    rows = [
        OldRow(shaped(store, key, start, more), value, time, (("h", b"x"),) * more, partition)
        for key, start, more, value, time, partition in data.draw(st.lists(few, max_size=12))
    ]
    if store == "both-this-join-store":
        rows = [row._replace(value=row.value or b"") for row in rows]
    if store == "either-outer-shared-join-store":
        rows = [
            row._replace(value=None if row.value is None else listed(row.key[8], row.value))
            for row in rows
        ]
    rows.sort(key=lambda row: row.partition)
    expected, found = carried(mine, rows)
    assert found == expected
    if not mine.keeps_all:
        last = {row.key: row.value for row in rows}
        alive = [key for key, value in last.items() if value is not None]
        assert len(found) <= len(alive)
        assert bool(found) == bool(alive)


def test_a_timestamped_value_gets_the_time_of_its_record() -> None:
    """Eight bytes before the value, which the changelog's record does not have in its value."""
    _, found = carried(bearer("counts"), [OldRow(b"ann", long(7), 1_234)])
    assert found == {b"ann": long(1_234) + long(7)}


def test_headers_of_a_row_are_kept_but_not_those_of_kafka_streams() -> None:
    """What consistency vectors add to a record is not part of the row."""
    headers = (("from", b"web"), ("v", b"\x00"), ("c", b"{}"))
    _, found = carried(bearer("headed"), [OldRow(b"ann", b"x", 1, headers)])
    assert b"web" in found[b"ann"]
    assert b"{}" not in found[b"ann"]


def test_a_version_older_than_the_history_of_its_task_is_left_out() -> None:
    """Kafka Streams had not put it; a partition that is ahead does not shorten another's."""
    rows = [
        OldRow(b"ann", b"new", 200, (), 0),
        OldRow(b"ann", b"old", 100, (), 0),
        OldRow(b"bob", b"behind", 120, (), 1),
    ]
    expected, found = carried(bearer("prices"), rows)
    assert found == expected
    assert sorted(found.values()) == [b"behind", b"new"]


def test_a_suppressed_window_waits_until_it_closes() -> None:
    """Its slot is the end of the window and its grace; a deletion of the row ends the wait."""
    mine = bearer("final")
    key = b"ann" + long(60_000)
    expected, found = carried(mine, [OldRow(key, ROWS["suppressed"], 9, VERSION)])
    assert found == expected
    assert mine.shown(next(iter(found))).startswith("Windowed(key='ann', start=60000")
    rows = [OldRow(key, ROWS["suppressed"], 9, VERSION), OldRow(key, None, 10)]
    assert carried(mine, rows) == ({}, {})


def test_rows_of_another_kind_of_store_are_refused_and_the_right_one_takes_them() -> None:
    """The fix of the refusal is to match another store."""
    rows = [OldRow(b"ann", long(7), 1_234)]
    with pytest.raises(ChangelogFormatError) as caught:
        list(checked_rows(bearer("minutes"), rows))
    assert caught.value.code == "MIGRATE_ROW_FORMAT"
    assert "--map OLD=NEW" in (caught.value.fix or "")
    assert list(checked_rows(bearer("counts"), rows)) == rows


def test_rows_that_the_program_cannot_read_are_refused() -> None:
    """By part, with the type that was tried."""
    mine = bearer("counts")
    for row, part in ((OldRow(b"\xff", long(7), 1), "key"), (OldRow(b"a", b"text", 1), "value")):
        with pytest.raises(NotReadyError, match=f"a {part} that the program cannot read"):
            list(checked_rows(mine, [row]))


def test_stream_time_is_kept_where_its_operator_looks_for_it() -> None:
    """In stores of windows, and in no key-value store."""
    for store, kept in (("minutes", True), ("counts", False), ("prices", False)):
        view = empty_view(settings(), bearer(store).spec, 0, 1)
        bearer(store).keep_time(view, 77)
        assert (view.get(STREAM_TIME) == long(77)) is kept


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("closed", "emit on close"),
        ("lately", "ttl"),
        ("itself", "a stream with itself"),
        ("listed-subscription-store", "foreign-key"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_by_name(store: str, why: str) -> None:
    """Rather than half."""
    names = [name for name in OWNERS if name.startswith(store)]
    assert names, sorted(OWNERS)
    for name in names:
        assert why in why_refused(*OWNERS[name])
