"""Snapshots and handles, over the test driver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mustela import Materialized, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.clock import ManualClock
from mustela.queries.errors import (
    EpochNotReachedError,
    QueryError,
    SnapshotExpiredError,
    SnapshotLimitError,
    StateUnavailableError,
    UnknownStoreError,
)
from mustela.queries.keeper import SNAPSHOTS_MAX
from mustela.queries.queries import Queries
from mustela.stores import (
    ReadOnlyCustomStore,
    ReadOnlyKeyValueStore,
    ReadOnlyWindowStore,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str)
    by_word = words.group_by(lambda _key, word: word, key=str)
    by_word.count(store="counts")
    minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
    by_word.windowed_by(minutes).count(store="minutes")
    builder.table(
        "prices",
        key=str,
        value=int,
        materialized=Materialized(store="prices", with_headers=True),
    )
    return builder


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), key_groups=8) as made:
        yield made


def say(driver: TopologyTestDriver, *words: str) -> None:
    driver.create_input_topic("words").pipe_value_list(list(words))


def test_a_snapshot_shows_one_epoch_of_all_stores(driver: TopologyTestDriver) -> None:
    """What is committed later changes neither values nor ranges, in none of the stores."""
    say(driver, "b", "a", "b")
    with driver.snapshot() as snapshot:
        say(driver, "a", "c")
        assert snapshot.epoch == 3
        assert dict(snapshot.store("counts").items()) == {"a": 1, "b": 2}
        assert sum(count for _, count in snapshot.store("minutes").all()) == 3
        assert len(snapshot.store("counts")) == 2
    assert dict(driver.store("counts").items()) == {"a": 2, "b": 2, "c": 1}
    assert driver.snapshot().epoch == 5


def test_a_handle_reads_over_all_key_groups_in_key_order(driver: TopologyTestDriver) -> None:
    """The keys are in eight key groups, and come as if there were one."""
    words = [f"w{n:02}" for n in range(40)]
    say(driver, *reversed(words))
    counts = driver.store("counts")
    assert list(counts) == list(counts.keys()) == words
    assert [key for key, _ in counts.range("w05", "w09")] == words[5:10]
    assert [key for key, _ in counts.reverse_range("w05", "w09")] == words[9:4:-1]
    assert [key for key, _ in counts.prefix_scan("w1")] == words[10:20]
    assert [key for key, _ in counts.reverse_prefix_scan("w3")] == words[39:29:-1]
    assert counts.get_many(["w00", "x", "w39"]) == [1, None, 1]
    assert (counts["w07"], counts.get("x"), counts.get("x", 0)) == (1, None, 0)
    assert ("w07" in counts, "x" in counts, None in counts, len(counts)) == (True, False, False, 40)
    with pytest.raises(KeyError):
        counts["x"]


def test_a_value_is_shown_as_wished(driver: TopologyTestDriver) -> None:
    """Alone, with its timestamp, or with its headers too."""
    topic = driver.create_input_topic("prices")
    topic.pipe_input("pen", 3, timestamp=5, headers=(("from", b"web"),))
    assert driver.store("prices")["pen"] == 3
    with driver.snapshot() as snapshot:
        timed: Any = snapshot.store("prices", timestamps=True)
        assert timed["pen"] == ValueAndTimestamp(3, 5)
        headed = snapshot.store("prices", headers=True)
        assert headed["pen"] == ValueTimestampHeaders(3, 5, (("from", b"web"),))
    with pytest.raises(QueryError, match="keeps no headers"):
        driver.store("counts", headers=True)


def test_a_store_that_is_not_there_is_told_with_those_that_are(driver: TopologyTestDriver) -> None:
    """So that a slip of the pen is seen at once."""
    with pytest.raises(UnknownStoreError, match=r"counts, minutes, prices"):
        driver.store("count")
    assert len(driver.store("counts")) == 0
    assert [info.name for info in driver.stores()] == ["counts", "minutes", "prices"]


def both(order: str, customer: str) -> str:
    return order + customer


def test_a_row_is_found_where_the_record_of_another_key_is() -> None:
    """What a join by foreign key holds of its left table lies where the right key does."""
    builder = StreamsBuilder()
    orders = builder.table("orders", key=str, value=str)
    customers = builder.table("customers", key=str, value=str)
    joined = orders.join(customers, both, foreign_key=str, value=str, name="named")
    joined.to_stream().to("out", key=str, value=str)
    with TopologyTestDriver(builder, key_groups=8) as driver:
        topic = driver.create_input_topic("orders")
        for number in range(12):
            topic.pipe_input(f"o{number}", f"c{number % 5}")
        store = driver.store("named-subscription-store")
        rows = dict(store.items())
        assert len(rows) == 12
        assert {key: store.get(key) for key in rows} == rows
        assert store.get_many(list(rows)) == list(rows.values())
        assert all(key in store for key in rows)


def test_nothing_can_be_written(driver: TopologyTestDriver) -> None:
    """Handles have no methods that write."""
    for name in ("counts", "minutes", "prices"):
        found = {*dir(driver.store(name))}
        assert not found & {"put", "delete", "compute", "merge", "__setitem__", "__delitem__"}


def test_a_snapshot_ends_at_its_deadline(driver: TopologyTestDriver) -> None:
    """Whether it is read or iterated over; and what it held is given back."""
    say(driver, "a", "b", "c")
    clock = ManualClock(0)
    queries = Queries(driver.queries.source, clock=clock)
    snapshot = queries.snapshot(lifetime=timedelta(seconds=2))
    rows = snapshot.store("counts").all()
    assert next(rows) == ("a", 1)
    clock.advance(1_999)
    assert snapshot.store("counts")["a"] == 1
    clock.advance(1)
    with pytest.raises(SnapshotExpiredError, match="expired after 2 seconds"):
        list(rows)
    with pytest.raises(SnapshotExpiredError):
        snapshot.store("counts").get("a")
    assert snapshot.closed
    longer = queries.snapshot(lifetime=timedelta(minutes=2))  # as the error says
    clock.advance(119_999)
    assert longer.store("counts")["a"] == 1


def test_a_snapshot_that_nobody_reads_ends_too(driver: TopologyTestDriver) -> None:
    """Otherwise a forgotten one would keep disk space for ever."""
    snapshot = driver.snapshot(lifetime=timedelta(milliseconds=1))
    ended = driver.queries.wait_for_end(snapshot, timedelta(seconds=10))
    assert ended
    assert snapshot.closed


def test_a_closed_snapshot_says_so(driver: TopologyTestDriver) -> None:
    """And closing twice is allowed."""
    with driver.snapshot() as snapshot:
        counts = snapshot.store("counts")
        snapshot.close()
    with pytest.raises(QueryError, match="is closed"):
        counts.get("a")


def test_a_snapshot_of_an_application_that_has_ended_says_that(driver: TopologyTestDriver) -> None:
    """It is not the reader's fault, and may be over in a moment: a standby takes over."""
    with driver.snapshot() as snapshot:
        counts = snapshot.store("counts")
        driver.queries.close()
        with pytest.raises(StateUnavailableError, match="has ended"):
            counts.get("a")
    with driver.snapshot() as snapshot:
        snapshot.store("counts").get("a")


def test_snapshots_are_limited(driver: TopologyTestDriver) -> None:
    """A program that forgets to close them gets an error, not a full table of LMDB."""
    opened = [driver.snapshot() for _ in range(SNAPSHOTS_MAX)]
    with pytest.raises(SnapshotLimitError):
        driver.snapshot()
    opened.pop().close()
    driver.snapshot().close()


def test_an_iteration_that_is_dropped_closes_its_snapshot(driver: TopologyTestDriver) -> None:
    """Half-read iterations do not add up."""
    say(driver, "a", "b")
    counts = driver.store("counts")
    for _ in range(2 * SNAPSHOTS_MAX):
        assert next(iter(counts)) == "a"
    with counts.all() as rows:
        assert next(rows) == ("a", 1)
    assert list(rows) == []


def test_a_reader_waits_for_an_epoch_or_for_what_it_sent(driver: TopologyTestDriver) -> None:
    """By number, by the header of an output record, or by offsets; the wait is bounded."""
    say(driver, "a", "b")
    now = timedelta(0)
    assert driver.store("counts", min_epoch=2, timeout=now)["b"] == 1
    assert driver.store("counts", min_epoch=b"2", timeout=now)["b"] == 1
    sent = driver.sent({("words", 0): 1})
    assert driver.store("counts", min_epoch=sent, timeout=now)["b"] == 1
    with pytest.raises(EpochNotReachedError, match="epoch 3 was not committed within 0 seconds"):
        driver.snapshot(min_epoch=3, timeout=now)
    say(driver, "b")
    assert driver.snapshot(min_epoch=3).store("counts")["b"] == 2
    with pytest.raises(EpochNotReachedError, match="words"):
        driver.store("counts", min_epoch=driver.sent({("words", 0): 3}), timeout=now)
    with pytest.raises(QueryError, match="not the number of an epoch"):
        driver.store("counts", min_epoch=b"two")


def test_a_lifetime_is_limited(driver: TopologyTestDriver) -> None:
    """The limit is said."""
    for wrong in (timedelta(0), timedelta(minutes=6)):
        with pytest.raises(QueryError, match="cannot be open for"):
            driver.snapshot(lifetime=wrong)


def test_a_handle_is_of_the_class_that_was_asked_for(driver: TopologyTestDriver) -> None:
    """With the types that it is given; a store of another kind is refused, and the fix helps."""
    say(driver, "a")
    assert driver.store("counts", ReadOnlyKeyValueStore[str, int])["a"] == 1
    assert driver.store("counts", ReadOnlyKeyValueStore)["a"] == 1
    with driver.snapshot() as snapshot:
        assert snapshot.store("counts", ReadOnlyKeyValueStore[str, int])["a"] == 1
        for wrong in (ReadOnlyWindowStore[str, int], ReadOnlyCustomStore):
            with pytest.raises(QueryError, match="ask for a ReadOnlyKeyValueStore"):
                snapshot.store("counts", wrong)
            with pytest.raises(QueryError, match="ask for a ReadOnlyKeyValueStore"):
                driver.store("counts", wrong)
    assert len(driver.store("minutes", ReadOnlyWindowStore[str, int])) == 1


def test_a_store_is_shown_as_it_is_asked_for_each_time(driver: TopologyTestDriver) -> None:
    """Handles are made once for each way to show a store; none is given for another way."""
    driver.create_input_topic("prices").pipe_input("pen", 3, timestamp=5)
    for _ in range(2):
        assert driver.store("prices")["pen"] == 3
        assert driver.store("prices", timestamps=True)["pen"] == ValueAndTimestamp(3, 5)
        assert driver.store("prices", headers=True)["pen"] == ValueTimestampHeaders(3, 5, ())
        with pytest.raises(QueryError):
            driver.store("prices", ReadOnlyWindowStore)
        with pytest.raises(UnknownStoreError):
            driver.store("pens")
