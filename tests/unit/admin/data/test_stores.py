"""Stores over HTTP."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.service import Limits
from tests.unit.admin.data.shown import QUERY, Order, Served, stores

AT = datetime(2026, 1, 1, tzinfo=UTC)
AT_MS = int(AT.timestamp()) * 1000
WORDS = ["a", "b/c", "a", "", "né"]


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder.build(), key_groups=4) as driver:
        words = driver.create_input_topic("words", key=str, value=str)
        for place, word in enumerate(WORDS):
            words.pipe_input(word, "x", timestamp=AT_MS + 4_000 * place)
        orders = driver.create_input_topic("orders", key=int, value=Order)
        for number in range(25):
            orders.pipe_input(number, Order(number * 10, f"{number}@example.org"))
        driver.create_input_topic("recent", key=str, value=int).pipe_input("r", 1)
        driver.create_input_topic("unlogged", key=str, value=int).pipe_input("u", 1)
        prices = driver.create_input_topic("prices", key=str, value=float)
        for place, price in enumerate((1.5, 2.5, 3.5)):
            prices.pipe_input("p", price, timestamp=AT_MS + 1_000 * place)
        yield driver


@pytest.fixture
def served(driver: TopologyTestDriver) -> Iterator[Served]:
    served = Served(driver)
    yield served
    served.service.leases.close()


def test_stores_are_listed(served: Served) -> None:
    """Names, kinds, serdes, whether they are logged, their size, and the epoch."""
    answer = served.get("/stores")
    listed = answer.json()

    assert answer.headers["mustela-epoch"] == str(served.epoch)
    assert listed["epoch"] == served.epoch
    by_name = {store["store"]: store for store in listed["stores"]}
    assert set(by_name) == {
        "counts",
        "windowed",
        "sessions",
        "orders",
        "recent",
        "ticks",
        "unlogged",
        "prices",
    }
    assert by_name["counts"] == {
        "store": "counts",
        "kind": "timestamped_key_value",
        "key": "str",
        "value": "int",
        "logged": True,
        "rows": 3,
        "bytes": 4096,
    }
    assert by_name["unlogged"]["logged"] is False


@pytest.mark.parametrize(("key", "count"), [("a", 2), ("b/c", 1), ("", 1), ("né", 1)])
def test_a_key_is_found_by_its_text(served: Served, key: str, count: int) -> None:
    """A key may be empty, hold a slash, or be no ASCII: percent encoding is enough."""
    found = served.json(f"/stores/counts/{quote(key, safe='')}")

    assert (found["epoch"], found["key"], found["value"]) == (served.epoch, key, count)


def test_a_key_of_another_type_is_read_by_its_serde(served: Served) -> None:
    """The path of an int key is a number, and the value is the JSON of its class."""
    found = served.json("/stores/orders/7")

    assert found["value"] == {"total": 70, "email": "7@example.org"}


def test_what_is_not_there_is_404_with_a_code(served: Served) -> None:
    """A row, a store and an address that do not exist are told apart."""
    assert served.json("/stores/counts/zz", 404)["code"] == "QUERY_NO_ROW"
    assert served.json("/stores/zz", 404)["code"] == "QUERY_NO_STORE"
    assert served.json("/stores/counts/a/zz", 404)["code"] == "QUERY_PATH"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/stores/orders/x", "QUERY_DOCUMENT"),
        ("/stores/orders/7.5", "QUERY_DOCUMENT"),
        ("/stores/orders/%FF", "QUERY_PATH"),
        ("/stores/orders?limit=0", "QUERY_PARAMETER"),
        ("/stores/orders?limit=10001", "QUERY_PARAMETER"),
        ("/stores/orders?limit=-1", "QUERY_PARAMETER"),
        ("/stores/orders?reverse=yes", "QUERY_PARAMETER"),
        ("/stores/orders?from=x", "QUERY_DOCUMENT"),
        ("/stores/orders?from=1&prefix=2", "QUERY_PARAMETER"),
        ("/stores/orders?from=1&from=2", "QUERY_PARAMETER"),
        ("/stores/orders?colour=red", "QUERY_PARAMETER"),
        ("/stores/orders?cursor=zz", "QUERY_CURSOR"),
        ("/stores/orders?cursor=", "QUERY_CURSOR"),
        ("/stores/windowed/a", "QUERY_KIND"),
        ("/stores/counts/a/windows", "QUERY_KIND"),
        ("/stores/counts/a?as_of=5", "QUERY_KIND"),
        ("/stores/prices?versions=true&prefix=p", "QUERY_KIND"),
    ],
)
def test_a_malformed_question_is_400_with_a_code(served: Served, path: str, code: str) -> None:
    """The answer says what is wrong, and does not repeat what was sent."""
    found = served.json(path, 400)

    assert found["code"] == code
    assert "red" not in found["error"]
    assert code != "QUERY_KIND" or found["fix"].startswith("ask /stores/STORE/KEY")


def test_pages_go_through_all_rows_in_the_order_of_keys(served: Served) -> None:
    """Cursors lead from page to page, forwards and backwards, until there is none."""
    for reverse in ("false", "true"):
        found, cursor, pages = [], "", 0
        while True:
            more = f"&cursor={cursor}" if cursor else ""
            page = served.json(f"/stores/orders?limit=7&reverse={reverse}{more}")
            found += [row["key"] for row in page["rows"]]
            pages += 1
            cursor = page.get("cursor")
            if cursor is None:
                break
        assert (pages, found) == (4, list(range(25))[:: -1 if reverse == "true" else 1])
    assert len(served.open) == 1, "the pages of both questions share a snapshot"


def test_bounds_and_prefixes_limit_what_is_read(served: Served) -> None:
    """Both ends are included; a prefix is the start of a key's bytes."""
    rows = served.json("/stores/orders?from=3&to=5")["rows"]
    assert [row["key"] for row in rows] == [3, 4, 5]
    assert [row["key"] for row in served.json("/stores/counts?prefix=b")["rows"]] == ["b/c"]
    both = served.json("/stores/counts?prefix=b&reverse=true")["rows"]
    assert [row["key"] for row in both] == ["b/c"]


def test_pages_of_windows_and_sessions_lose_and_repeat_nothing(served: Served) -> None:
    """Windows are ordered by start, sessions by key; each page begins after the one before."""
    for store in ("windowed", "sessions", "prices", "counts"):
        whole = served.json(f"/stores/{store}")["rows"]
        _read_backwards_too(served, f"/stores/{store}?", whole)


def test_pages_of_windows_and_sessions_may_be_of_the_keys_with_a_prefix(served: Served) -> None:
    """In the order that they have without it, page by page; an empty prefix is that of all keys."""
    for store in ("windowed", "sessions"):
        whole = served.json(f"/stores/{store}")["rows"]
        for prefix in ("", "a", "b", "b/", "zz"):
            wanted = [row for row in whole if row["key"].startswith(prefix)]
            assert bool(wanted) is (prefix != "zz")
            _read_backwards_too(served, f"/stores/{store}?prefix={prefix}&", wanted)


def _read_backwards_too(served: Served, question: str, wanted: list[Any]) -> None:
    for reverse in ("false", "true"):
        found, cursor = [], ""
        while cursor is not None:
            more = f"&cursor={cursor}" if cursor else ""
            page = served.json(f"{question}limit=1&reverse={reverse}{more}")
            found += page["rows"]
            cursor = page.get("cursor")
        assert found == wanted[:: -1 if reverse == "true" else 1], (question, reverse)


def test_pages_of_one_key_lose_and_repeat_nothing() -> None:
    """Its windows, sessions and versions, forwards and backwards; of the epoch of the first."""
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder, key_groups=2) as driver:
        words = driver.create_input_topic("words", key=str, value=str)
        prices = driver.create_input_topic("prices", key=str, value=float)
        for place in range(4):
            words.pipe_input("a", "x", timestamp=AT_MS + 20_000 * place)
            prices.pipe_input("p", place / 2, timestamp=AT_MS + 1_000 * place)
        served = Served(driver)
        _read_page_by_page(served)
        served.service.leases.close()


def _read_page_by_page(served: Served) -> None:
    for path in ("windowed/a/windows", "sessions/a/sessions", "prices/p/versions"):
        what = path.rpartition("/")[2]
        whole = served.json(f"/stores/{path}")[what]
        assert len(whole) == 4
        for reverse in ("false", "true"):
            found, cursor = [], ""
            while cursor is not None:
                more = f"&cursor={cursor}" if cursor else ""
                page = served.json(f"/stores/{path}?limit=1&reverse={reverse}{more}")
                served.tick()
                assert "continued_from_epoch" not in page
                found += page[what]
                cursor = page.get("cursor")
            assert found == whole[:: -1 if reverse == "true" else 1], (path, reverse)
    page = served.json("/stores/prices/p/versions?limit=1")
    refused = served.json(f"/stores/windowed/a/windows?cursor={page['cursor']}", 400)
    assert refused["code"] == "QUERY_CURSOR"


def test_a_range_has_all_versions_if_it_is_asked_to(served: Served) -> None:
    """By key, then by time, page by page; other stores have none."""
    found, cursor = [], ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = served.json(f"/stores/prices?versions=true&limit=2{more}")
        found += [(row["key"], row["value"]) for row in page["rows"]]
        cursor = page.get("cursor")
    assert found == [("p", 1.5), ("p", 2.5), ("p", 3.5)]
    assert served.json("/stores/prices?versions=true&from=q")["rows"] == []
    assert served.json("/stores/counts?versions=true", 400)["code"] == "QUERY_KIND"


def test_a_count_shows_no_rows(served: Served) -> None:
    """What a question would find is counted, all of it."""
    found = served.json("/stores/orders?count=true&from=5")

    assert (found["count"], found["complete"]) == (20, True)
    assert "rows" not in found


def test_windows_sessions_and_versions_of_a_key(served: Served) -> None:
    """Each kind has its own address below the key."""
    windows = served.json("/stores/windowed/a/windows")["windows"]
    assert [(row["start"] - AT_MS, row["end"] - AT_MS, row["value"]) for row in windows] == [
        (0, 10_000, 2)
    ]
    sessions = served.json("/stores/sessions/a/sessions")["sessions"]
    assert [(row["start"] - AT_MS, row["value"]) for row in sessions] == [(0, 1), (8_000, 1)]
    versions = served.json("/stores/prices/p/versions?reverse=true&limit=2")
    assert [row["value"] for row in versions["versions"]] == [3.5, 2.5]
    assert versions["more"] is True
    assert served.json(f"/stores/prices/p?as_of={AT_MS + 1_500}")["value"] == 2.5


def test_many_keys_are_asked_for_at_once(served: Served) -> None:
    """Rows come back in the order of the keys, null where there is none."""
    answer = served.client.post("/stores/orders/get", QUERY.query, json={"keys": [3, 99, 1]})

    rows = answer.json()["rows"]
    assert [row and row["value"]["total"] for row in rows] == [30, None, 10]


@pytest.mark.parametrize("body", [b"", b"[", b"[1]", b'{"keys": 1}', b'{"keys": ["x"]}', b"\xff"])
def test_a_body_that_names_no_keys_is_400(served: Served, body: bytes) -> None:
    """Whatever is sent as a body, the answer says what is wrong with it."""
    answer = served.client.post("/stores/orders/get", QUERY.query, content=body)

    assert answer.status_code == 400
    assert answer.json()["code"] in ("QUERY_BODY", "QUERY_DOCUMENT")


def test_too_many_keys_or_too_large_a_body_are_refused(served: Served) -> None:
    """What one request may ask for is limited."""
    many = served.client.post("/stores/orders/get", QUERY.query, json={"keys": [1] * 1_001})
    assert (many.status_code, many.json()["code"]) == (400, "QUERY_BODY")


def test_an_answer_can_be_messagepack(served: Served) -> None:
    """The Accept header chooses; what is not offered is 406."""
    answer = served.get("/stores/orders?limit=2", headers={"accept": "application/msgpack"})
    assert answer.headers["content-type"] == "application/msgpack"
    assert [row["key"] for row in msgspec.msgpack.decode(answer.content)["rows"]] == [0, 1]

    refused = served.get("/stores", headers={"accept": "image/png"})
    assert (refused.status_code, refused.json()["code"]) == (406, "QUERY_ACCEPT")


def test_a_page_is_of_the_epoch_of_the_page_before_while_that_lives(served: Served) -> None:
    """While the pipeline goes on pages stay at their epoch; later they say that they moved."""
    first = served.json("/stores/orders?limit=20")
    served.tick()
    second = served.json(f"/stores/orders?limit=20&cursor={first['cursor']}")
    assert second["epoch"] == first["epoch"]
    assert "continued_from_epoch" not in second

    first = served.json("/stores/orders?limit=20")
    assert first["epoch"] == second["epoch"] + 1
    served.clock.advance(61_000)
    served.tick()
    moved = served.json(f"/stores/orders?limit=20&cursor={first['cursor']}")
    assert (moved["epoch"], moved["continued_from_epoch"]) == (first["epoch"] + 1, first["epoch"])
    assert [row["key"] for row in moved["rows"]] == [20, 21, 22, 23, 24]
    assert served.open == [], "a page that is the last keeps no snapshot"


def test_few_snapshots_live_from_page_to_page(served: Served) -> None:
    """However many questions are left in the middle, the oldest snapshots end."""
    for _ in range(11):
        served.json("/stores/orders?limit=1")
        served.tick()

    assert served.open == [8, 9, 10, 11]
    served.clock.advance(11_000)
    served.json("/stores")
    assert served.open == []


def test_a_cursor_continues_only_its_own_question(served: Served) -> None:
    """A cursor of another store, of other bounds, of another run, or changed, is refused."""
    cursor = served.json("/stores/orders?limit=1")["cursor"]
    for path in ("/stores/counts?limit=1", "/stores/orders?reverse=true"):
        assert served.json(f"{path}&cursor={cursor}", 400)["code"] == "QUERY_CURSOR"
    for place in range(0, len(cursor), 7):
        other = "A" if cursor[place] != "A" else "B"
        changed = cursor[:place] + other + cursor[place + 1 :]
        assert served.json(f"/stores/orders?cursor={changed}", 400)["code"] == "QUERY_CURSOR"


def test_a_page_ends_when_its_bytes_or_its_time_are_used_up(driver: TopologyTestDriver) -> None:
    """Whatever the limit, a page stays small, and the next one goes on after it."""
    small = Served(driver, limits=Limits(size=100))
    page = small.json("/stores/orders?limit=10000")
    assert 1 <= len(page["rows"]) < 5
    assert small.json(f"/stores/orders?cursor={page['cursor']}")["rows"][0]["key"] == len(
        page["rows"]
    )


def test_min_epoch_waits_for_what_a_client_has_seen(served: Served) -> None:
    """An epoch that is not committed in time is 503, and says so."""
    assert served.json(f"/stores/counts/a?min_epoch={served.epoch}")["value"] == 2
    answer = served.get(f"/stores/counts/a?min_epoch={served.epoch + 9}")
    assert (answer.status_code, answer.json()["code"]) == (503, "QUERY_EPOCH_NOT_REACHED")
    assert "timeout=" not in answer.json()["fix"]  # which is no parameter here


def test_hidden_stores_and_fields_are_not_shown(driver: TopologyTestDriver) -> None:
    """A hidden store is as if it did not exist; a hidden field is replaced in every answer."""
    served = Served(driver, hidden=Hidden(stores=["counts"], fields=["orders:email"]))

    assert served.json("/stores/counts/a", 404)["code"] == "QUERY_NO_STORE"
    assert "counts" not in [store["store"] for store in served.json("/stores")["stores"]]
    for path in ("/stores/orders/7", "/stores/orders"):
        text = served.get(path).text
        assert "[hidden]" in text
        assert "example.org" not in text


def test_who_asked_what_is_said_without_keys(served: Served) -> None:
    """The audit line names address, scope, store and outcome; a key may be personal."""
    served.get("/stores/orders/7")
    served.get("/stores/counts/secret-name/windows")

    assert served.said[0] == "query: GET /stores/orders/… from 127.0.0.1 with the scope query: 200"
    assert "secret-name" not in "".join(served.said)


def test_data_needs_a_token_of_its_scope(served: Served) -> None:
    """Rows are data: a token that may only look is not enough, even on loopback."""
    assert served.client.get("/stores/counts/a").status_code == 401
    assert served.client.get("/stores/counts/a", "r" * 32).status_code == 403
    assert served.client.get("/stores/counts/changes").status_code == 401


def test_other_methods_are_refused(served: Served) -> None:
    """Nothing can be written here."""
    for method in ("PUT", "DELETE", "PATCH"):
        answer = served.client.ask(method, "/stores/counts/a", token=QUERY.query)
        assert (answer.status_code, answer.json()["code"]) == (405, "QUERY_METHOD")
    head: Any = served.client.ask("HEAD", "/stores/counts/a", token=QUERY.query)
    assert (head.status_code, head.content) == (200, b"")


def test_bytes_are_base64() -> None:
    """A key of bytes is named by base64 with the letters of URLs, and shown in base64."""
    builder = StreamsBuilder()
    builder.table("raw", key=bytes, value=bytes, store="raw")
    with TopologyTestDriver(builder.build(), key_groups=2) as driver:
        driver.create_input_topic("raw", key=bytes, value=bytes).pipe_input(b"\xff\xfe", b"\x00")
        found = Served(driver).json("/stores/raw/__4")
    assert (found["key"], found["value"]) == (
        b64encode(b"\xff\xfe").decode(),
        b64encode(b"\x00").decode(),
    )
