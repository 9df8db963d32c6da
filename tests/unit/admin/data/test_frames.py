"""Frames over HTTP: every kind of store, part by part, as of one epoch."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pyarrow as pa
import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data import frames
from mustela.admin.data.asked import Asked
from mustela.admin.data.frames import FRAMES_MAX, FrameService
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.service import Limits
from mustela.clock import ManualClock
from tests.unit.admin.data.shown import Order, stores

GROUPS = 8
KINDS = ("counts", "windowed", "sessions", "orders", "recent", "prices")


class Asker:
    """Asks a service for frames."""

    def __init__(self, driver: TopologyTestDriver, **more: Any) -> None:
        self.clock = ManualClock(1_000_000)
        given = {"hidden": Hidden(), "limits": Limits(), "now": self.clock.monotonic}
        self.service = FrameService(driver.queries, **{**given, **more})

    def reply(self, path: str, body: Any = None) -> Any:
        parts = tuple(path.split("/")[1:])
        data = b"" if body is None else json.dumps(body).encode()
        return self.service.answer(Asked(method="POST", path=parts, body=data))

    def ask(self, path: str, body: Any = None, status: int = 200) -> Any:
        found = self.reply(path, body)
        assert found.status == status, found.body
        return json.loads(found.body)

    def rows(self, path: str, **part: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for page in range(10_000):
            reply = self.reply(path, {"reader": "r", **part, "page": page})
            assert reply.status == 200, reply.body
            with pa.ipc.open_stream(reply.body) as stream:
                found += stream.read_all().to_pylist()
            if reply.headers["mustela-more"] == "false":
                break
        return found


@pytest.fixture(scope="module")
def driver() -> Any:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder.build(), key_groups=GROUPS) as made:
        words = made.create_input_topic("words", key=str, value=str, start=0)
        for number in range(60):
            words.pipe_input(f"k{number % 23}", "x", timestamp=number * 1_000)
        orders = made.create_input_topic("orders", key=int, value=Order)
        recent = made.create_input_topic("recent", key=str, value=int)
        prices = made.create_input_topic("prices", key=str, value=float)
        for number in range(20):
            orders.pipe_input(number - 5, Order(number, f"{number}@x"), timestamp=number)
            recent.pipe_input(f"r{number}", number, timestamp=5)
            prices.pipe_input(f"p{number % 7}", number / 4, timestamp=number)
        yield made


def by_handle(driver: TopologyTestDriver, name: str) -> list[dict[str, Any]]:
    """Return what the handle of a store shows, by the names of columns."""
    info = next(each for each in driver.stores() if each.name == name)
    found: list[dict[str, Any]] = []
    for key, shown in driver.store(name, timestamps=info.timestamps).all():
        row: dict[str, Any] = {"key": key}
        if info.kind in ("window", "session"):
            row = {"key": key.key, "window_start": key.start, "window_end": key.end}
        value = shown
        if hasattr(shown, "timestamp"):
            value, row["timestamp"] = shown.value, shown.timestamp
        if info.kind == "versioned":
            row["valid_to"] = shown.valid_to
        if isinstance(value, Order):
            row |= {"total": value.total, "email": value.email}
        else:
            row["value"] = value
        found.append(row)
    return sorted(found, key=str)


def in_ms(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with moments in milliseconds."""
    plain = [
        {n: round(v.timestamp() * 1000) if hasattr(v, "timestamp") else v for n, v in row.items()}
        for row in rows
    ]
    return sorted(plain, key=str)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_store_is_read_as_its_handle_reads_it(driver, name):
    """Parts of some key groups each have together what the handle has, and nothing twice."""
    asker = Asker(driver)
    frame = asker.ask("/frames")["frame"]
    described = asker.ask(f"/frames/{frame}/{name}")
    assert described["groups"] == GROUPS
    schema = pa.ipc.read_schema(pa.py_buffer(b64decode(described["schema"])))
    path = f"/frames/{frame}/{name}/rows"
    parts = [asker.rows(path, groups=[part, part + 4]) for part in range(4)]
    assert sum(bool(part) for part in parts) > 1, "the rows are in several parts"
    found = [row for part in parts for row in part]
    assert in_ms(found) == by_handle(driver, name)
    assert in_ms(asker.rows(path)) == by_handle(driver, name)
    assert list(found[0]) == schema.names


def test_a_part_comes_in_pages_in_their_order(driver):
    """Pages are small where the limit is; one that is asked again, or too early, is refused."""
    asker = Asker(driver, limits=Limits(size=1))
    frame = asker.ask("/frames")["frame"]
    path = f"/frames/{frame}/counts/rows"
    assert in_ms(asker.rows(path)) == by_handle(driver, "counts")
    assert asker.ask(path, {"reader": "a", "page": 3}, 409)["code"] == "QUERY_PAGE"
    assert asker.reply(path, {"reader": "b"}).headers["mustela-more"] == "true"
    assert asker.ask(path, {"reader": "b"}, 409)["code"] == "QUERY_PAGE"
    assert asker.reply(path, {"reader": "b", "page": 1}).status == 200


def test_columns_and_bounds_narrow_what_is_read(driver):
    """Only those columns, and at least the rows that meet the bounds."""
    asker = Asker(driver)
    path = f"/frames/{asker.ask('/frames')['frame']}/counts/rows"
    assert asker.rows(path, columns=["value"], bounds=[["key", "==", "k1"]]) == [{"value": 3}]
    found = asker.rows(path, columns=["key"], bounds=[["key", ">=", "k20"], ["key", "<=", "k3"]])
    assert [row["key"] for row in found] == ["k20", "k21", "k22", "k3"]
    one = [["key", ">=", "k9"], ["key", "<=", "k9"]]
    some = [asker.rows(path, columns=["key"], bounds=one, groups=[n]) for n in range(GROUPS)]
    assert [row for part in some for row in part] == [{"key": "k9"}], "one part has it, no other"


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"columns": ["nothing"]}, "QUERY_COLUMN"),
        ({"bounds": [["value", "==", 1]]}, "QUERY_BOUND"),
        ({"bounds": [["key", "~", "a"]]}, "QUERY_BOUND"),
        ({"bounds": [["key", "==", 1]]}, "QUERY_BOUND"),
        ({"bounds": [["key", "in", ["a", None]]]}, "QUERY_BOUND"),
        ({"groups": "all"}, "QUERY_BODY"),
        ({"else": 1}, "QUERY_BODY"),
    ],
)
def test_what_makes_no_sense_is_refused(driver, part, code):
    """With a code and a status of 400, whatever it is."""
    asker = Asker(driver)
    path = f"/frames/{asker.ask('/frames')['frame']}/counts/rows"
    assert asker.ask(path, {"reader": "r", **part}, 400)["code"] == code


def test_reads_of_one_epoch_agree_while_the_pipeline_goes_on(driver):
    """A held epoch is found by its number; when it has ended it is refused, never replaced."""
    asker = Asker(driver)
    held = asker.ask("/frames", {"held": True})
    before = by_handle(driver, "recent")
    driver.create_input_topic("recent", key=str, value=int).pipe_input("new", 1, timestamp=9)
    joined = asker.ask("/frames", {"epoch": held["epoch"]})
    assert joined == held
    newest = asker.ask("/frames")
    assert newest["epoch"] > held["epoch"]
    assert in_ms(asker.rows(f"/frames/{joined['frame']}/recent/rows")) == before
    assert in_ms(asker.rows(f"/frames/{newest['frame']}/recent/rows")) == by_handle(
        driver, "recent"
    )
    asker.ask(f"/frames/{held['frame']}")
    gone = asker.ask("/frames", {"epoch": held["epoch"]}, 410)
    assert gone["code"] == "QUERY_EPOCH_GONE"
    path = f"/frames/{held['frame']}/recent/rows"
    assert asker.ask(path, {"reader": "r"}, 410)["code"] == "QUERY_FRAME_GONE"


def test_frames_are_few_and_those_that_nobody_reads_make_room(driver):
    """The limit is named; an idle frame ends for a new one, a held one does not."""
    asker = Asker(driver)
    held = asker.ask("/frames", {"held": True})["frame"]
    rest = [asker.ask("/frames")["frame"] for _ in range(FRAMES_MAX - 1)]
    assert asker.ask("/frames", {}, 503)["code"] == "QUERY_BUSY"
    asker.clock.advance(int(frames.IDLE_S * 1000) + 1)
    asker.ask("/frames")
    assert asker.ask(f"/frames/{rest[0]}/counts", None, 410)["code"] == "QUERY_FRAME_GONE"
    asker.ask(f"/frames/{held}/counts")
    for each in (held, *rest[1:]):
        asker.ask(f"/frames/{each}")
    assert asker.ask("/frames", {"seconds": 301}, 400)["code"] == "QUERY_PARAMETER"


def test_what_is_hidden_is_not_in_a_frame(driver):
    """Neither a store nor a field."""
    asker = Asker(driver, hidden=Hidden(["counts"], ["orders:email"]))
    frame = asker.ask("/frames")["frame"]
    assert asker.ask(f"/frames/{frame}/counts", None, 404)["code"] == "QUERY_NO_STORE"
    found = asker.rows(f"/frames/{frame}/orders/rows")
    assert found
    assert all("email" not in row for row in found)
