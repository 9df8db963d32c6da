"""Changes of stores as a stream of events."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mustela import Materialized, StreamsBuilder, TopologyTestDriver
from mustela.admin.data.changes import StreamLimits
from mustela.admin.data.hidden import Hidden
from mustela.clock import ManualClock
from mustela.runtime.status.change_ring import FOLLOWED_S, ChangeRing
from mustela.serdes.resolve import resolve_serde
from mustela.state.kinds.layout import STREAM_TIME, key_row
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.kinds.window import window_key
from tests.unit.admin.data.shown import QUERY, Order, Served, columns, stores

Event = tuple[str, int | None, Any]
ORDERS, COUNT = resolve_serde(Order), resolve_serde(int)


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder.build(), key_groups=2) as driver:
        words = driver.create_input_topic("words", key=str, value=str)
        words.pipe_input("apple", "x")
        words.pipe_input("pear", "x")
        yield driver


def row(count: int, at: int = 5) -> bytes:
    data = COUNT.serialize(count)
    assert data is not None
    return pack_timestamped(data, at)


class Stream:
    """One client that reads a stream; after each event the test may do something."""

    def __init__(self, served: Served, path: str, **headers: str) -> None:
        self.served = served
        self.path, _, self.query = path.partition("?")
        self.query = re.sub(
            "since=([0-9]+)", lambda m: f"since={served.base + int(m[1])}", self.query
        )
        if "last_event_id" in headers:
            headers["last_event_id"] = str(served.base + int(headers["last_event_id"]))
        self.headers = [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {QUERY.query}".encode()),
        ]
        self.headers += [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()]
        self.status = 0
        self.body = b""

    def run(self, *steps: Callable[[], object]) -> list[Event]:
        """Read; after each event of the stream take the next step, at last let its time pass."""
        waiting = [*steps, lambda: self.served.clock.advance(1_000_000)]
        gone = asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                return
            self.body += message["body"]
            if b"event:" in message["body"] and waiting:
                waiting.pop(0)()

        async def receive() -> Any:
            await gone.wait()

        scope = {
            "type": "http",
            "method": "GET",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query.encode(),
            "headers": self.headers,
        }
        asyncio.run(self.served.client.app(scope, receive, send))
        return [] if self.status != 200 else self.events()

    def events(self) -> list[Event]:
        found: list[Event] = []
        for block in self.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" in fields:
                mark = int(fields["id"]) if "id" in fields else None
                data = json.loads(fields["data"])
                base = self.served.base
                if "epoch" in data:
                    data["epoch"] -= base
                found.append((fields["event"], None if mark is None else mark - base, data))
        return found


def test_a_snapshot_comes_first_and_then_each_epochs_changes(driver: TopologyTestDriver) -> None:
    """Each change is the row as it is after its epoch; a deletion names the key."""
    served = Served(driver)
    events = Stream(served, "/stores/counts/changes").run(
        lambda: None,
        lambda: served.commits(2, counts={b"apple": row(2)}, orders={b"x": b"y"}),
        lambda: served.commits(3, counts={b"pear": None}),
    )

    assert [(name, mark) for name, mark, _ in events] == [
        ("snapshot", None),
        ("ready", 1),
        ("change", 2),
        ("change", 3),
    ]
    assert [(each["key"], each["value"]) for each in events[0][2]["rows"]] == [
        ("apple", 1),
        ("pear", 1),
    ]
    assert events[2][2] == {"epoch": 2, "rows": [{"key": "apple", "value": 2, "timestamp": 5}]}
    assert events[3][2] == {"epoch": 3, "rows": [{"key": "pear", "deleted": True}]}
    assert served.open == []


def test_a_client_goes_on_after_the_last_event_that_it_has(driver: TopologyTestDriver) -> None:
    """What is in the ring is sent again from there on, without the snapshot."""
    served = Served(driver)
    served.ring.follow("counts")
    for epoch in (2, 3, 4):
        served.tick()
        served.commits(epoch, counts={b"apple": row(epoch)})

    events = Stream(served, "/stores/counts/changes", last_event_id="2").run(lambda: None)
    assert [(name, mark) for name, mark, _ in events] == [("change", 3), ("change", 4)]
    since = Stream(served, "/stores/counts/changes?since=3").run()
    assert [(name, mark) for name, mark, _ in since] == [("change", 4)]


@pytest.mark.parametrize("last", ["0", "99"])
def test_an_epoch_that_is_not_kept_is_410_with_the_way_to_begin_again(
    driver: TopologyTestDriver, last: str
) -> None:
    """What the ring does not hold, or what was never committed, needs a new snapshot."""
    served = Served(driver)
    served.ring.follow("counts")
    for epoch in (2, 3):
        served.tick()
        served.commits(epoch, counts={b"apple": row(epoch)})

    answer = served.get(
        "/stores/counts/changes", headers={"last-event-id": str(served.base + int(last))}
    )
    assert answer.status_code == 410
    assert answer.json()["code"] == "QUERY_EPOCH_GONE"
    assert answer.json()["snapshot"] == "/stores/counts/changes"
    assert answer.json()["epoch"] == served.epoch


def test_a_client_that_the_ring_has_overtaken_is_told_to_begin_again(
    driver: TopologyTestDriver,
) -> None:
    """Nothing is left out silently: the stream ends with an event that says so."""
    served = Served(driver)

    def overtake() -> None:
        served.commits(2, counts={b"apple": row(2)})
        served.commits(9, counts={b"apple": row(9)})

    events = Stream(served, "/stores/counts/changes").run(lambda: None, overtake)
    assert events[-1][0] == "end"
    assert events[-1][2]["code"] == "QUERY_EPOCH_GONE"


def test_only_keys_with_the_prefix_are_sent(driver: TopologyTestDriver) -> None:
    """In the snapshot and in the changes."""
    served = Served(driver)
    events = Stream(served, "/stores/counts/changes?prefix=a").run(
        lambda: None,
        lambda: served.commits(2, counts={b"apple": row(2), b"pear": row(3)}),
    )
    assert [each["key"] for _, _, data in events for each in data.get("rows", ())] == [
        "apple",
        "apple",
    ]
    for store in ("windowed", "sessions"):
        whole, some = (
            [row for _, _, data in events for row in data.get("rows", ())]
            for end in ("", "?prefix=a")
            for events in [Stream(served, f"/stores/{store}/changes{end}").run(lambda: None)]
        )
        assert some == [row for row in whole if row["key"].startswith("a")]
        assert 0 < len(some) < len(whole), store


def test_changes_of_windows_sessions_and_versions_name_what_changed(
    driver: TopologyTestDriver,
) -> None:
    """A window comes with its start and end, a session with all sessions of its key."""
    served = Served(driver)
    window = window_key(20_000, b"apple")
    events = Stream(served, "/stores/windowed/changes").run(
        lambda: None,
        lambda: served.commits(2, windowed={window: row(2)}),
        lambda: served.commits(3, windowed={window: None, STREAM_TIME: (9).to_bytes(8, "big")}),
    )
    shown = {"key": "apple", "start": 20_000, "end": 30_000}
    assert events[2][2]["rows"] == [{**shown, "value": 2, "timestamp": 5}]
    assert events[3][2]["rows"] == [{**shown, "deleted": True}]

    served = Served(driver)
    events = Stream(served, "/stores/sessions/changes").run(
        lambda: None, lambda: served.commits(2, sessions={key_row(b"apple"): None})
    )
    assert events[-1][2]["rows"] == [{"key": "apple", "sessions": []}]


def test_rows_with_a_time_to_live_are_shown_without_what_is_kept_beside_them(
    driver: TopologyTestDriver,
) -> None:
    """Index lines in the changelog are no rows."""
    driver.create_input_topic("recent", key=str, value=int).pipe_input("r", 1)
    served = Served(driver)
    stored = (5).to_bytes(8, "big") * 2 + row(7)
    index = b"\x80" + (5).to_bytes(7, "big") + b"r"
    events = Stream(served, "/stores/recent/changes").run(
        lambda: None, lambda: served.commits(2, recent={key_row(b"r"): stored, index: b""})
    )
    assert events[-1][2]["rows"] == [{"key": "r", "value": 7, "timestamp": 5}]


def test_a_store_with_an_index_is_followed_like_any_other() -> None:
    """The lines of an index are not in the changelog: its rows lie under their own keys."""
    builder = StreamsBuilder()
    kept = Materialized(store="shops", index={"city": "city"})
    builder.table("shops", key=str, value=dict, materialized=kept)
    with TopologyTestDriver(builder.build(), key_groups=2) as driver:
        driver.create_input_topic("shops").pipe_input("a", {"city": "Oslo"}, timestamp=5)
        served = Served(driver)
        rome = pack_timestamped(b'{"city": "Rome"}', 6)
        events = Stream(served, "/stores/shops/changes").run(
            lambda: None, lambda: served.commits(2, shops={b"a": None, b"b": rome})
        )
    assert events[0][2]["rows"] == [{"key": "a", "value": {"city": "Oslo"}, "timestamp": 5}]
    assert events[-1][2]["rows"] == [
        {"key": "a", "deleted": True},
        {"key": "b", "value": {"city": "Rome"}, "timestamp": 6},
    ]


def test_an_epoch_with_many_rows_is_several_events_of_which_the_last_has_its_id(
    driver: TopologyTestDriver,
) -> None:
    """A client that is cut off in the middle of an epoch gets all of it again."""
    served = Served(driver)
    many = {b"%04d" % number: row(number) for number in range(450)}
    events = Stream(served, "/stores/counts/changes").run(
        lambda: None, lambda: served.commits(2, counts=many)
    )
    assert [(mark, len(data["rows"])) for name, mark, data in events if name == "change"] == [
        (None, 200),
        (None, 200),
        (2, 50),
    ]


def test_hidden_fields_are_hidden_in_changes_too(driver: TopologyTestDriver) -> None:
    """As in every other answer."""
    served = Served(driver, hidden=Hidden(fields=["orders:email"]))
    data = ORDERS.serialize(Order(1, "a@example.org"))
    key = resolve_serde(int).serialize(1)
    assert data is not None
    assert key is not None
    stream = Stream(served, "/stores/orders/changes")
    stream.run(lambda: served.commits(2, orders={key: pack_timestamped(data, 5)}))
    assert b"[hidden]" in stream.body
    assert b"example.org" not in stream.body


def test_a_store_without_a_changelog_has_no_changes(driver: TopologyTestDriver) -> None:
    """It is said, as nothing would ever come."""
    found = Served(driver).json("/stores/unlogged/changes", 400)
    assert found["code"] == "QUERY_UNLOGGED"


def test_a_row_that_cannot_be_read_ends_the_stream_and_says_so(
    driver: TopologyTestDriver,
) -> None:
    """The error has its code, and the server goes on."""
    served = Served(driver)
    events = Stream(served, "/stores/orders/changes").run(
        lambda: served.commits(2, orders={b"\x00" * 7 + b"\x01": pack_timestamped(b"{", 5)})
    )
    assert (events[-1][0], events[-1][2]["code"]) == ("end", "STORED_VALUE")


def test_no_more_clients_follow_than_allowed(driver: TopologyTestDriver) -> None:
    """A further one is 503, and can ask again."""
    served = Served(driver, streams=StreamLimits(clients=0))
    assert served.json("/stores/counts/changes", 503)["code"] == "QUERY_CLIENTS"


def test_a_client_that_takes_nothing_is_dropped(driver: TopologyTestDriver) -> None:
    """One event in the time that a client has for it, or the stream ends."""
    served = Served(driver, streams=StreamLimits(send_s=0.01))

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    stream = Stream(served, "/stores/counts/changes")
    scope = {
        "type": "http",
        "method": "GET",
        "path": stream.path,
        "raw_path": stream.path.encode(),
        "query_string": b"",
        "headers": stream.headers,
    }
    asyncio.run(served.client.app(scope, receive, send))
    assert served.open == []


def test_rows_of_stores_that_nobody_follows_are_not_kept() -> None:
    """The ring costs nothing without a reader, and forgets one that has gone."""
    clock = ManualClock(0)
    ring = ChangeRing(clock)
    rows = columns({b"a": b"1"})
    ring.committed(1, [("counts", rows)])
    assert ring.after("counts", 0) is None
    ring.follow("counts")
    ring.committed(2, [("counts", rows)])
    assert [each.epoch for each in ring.after("counts", 1) or ()] == [2]
    clock.advance(int(FOLLOWED_S * 1000) + 1)
    ring.committed(3, [("counts", rows)])
    assert ring.after("counts", 1) is None


def test_the_ring_is_bounded_in_epochs_and_bytes() -> None:
    """The oldest epochs go first; one that is too large alone is not kept."""
    ring = ChangeRing(ManualClock(0), epochs_max=2, bytes_max=10)
    ring.follow("counts")

    def commit(epoch: int, size: int) -> None:
        ring.committed(epoch, [("counts", columns({b"a": b"1" * size}))])

    for epoch in (1, 2, 3):
        commit(epoch, 1)
    assert ring.after("counts", 0) is None
    assert [each.epoch for each in ring.after("counts", 1) or ()] == [2, 3]
    commit(4, 50)
    assert ring.after("counts", 3) is None
    assert ring.after("counts", 4) == ()


def test_an_instance_that_took_over_in_between_leaves_a_gap() -> None:
    """Epochs of another instance are not known here, so nobody can go on over them."""
    ring = ChangeRing(ManualClock(0))
    ring.follow("counts")
    rows = columns({b"a": b"1"})
    ring.committed(1, [("counts", rows)])
    ring.committed(5, [("counts", rows)])
    assert ring.after("counts", 1) is None
    assert [each.epoch for each in ring.after("counts", 4) or ()] == [5]
