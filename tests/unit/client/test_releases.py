"""A client that keeps its handles while the application gets another release."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mustela import Materialized, StreamsBuilder, TopologyTestDriver
from mustela.admin.data.cursors import Cursors
from mustela.client.client import Client
from mustela.client.errors import RemoteRefusedError
from mustela.serdes.documents import DocumentError
from tests.unit.admin.data.shown import QUERY, Served


def program(release: int) -> StreamsBuilder:
    """The second release has no store of notes, indexes shops, and sizes are no longer whole."""
    builder = StreamsBuilder()
    index = {"city": "city"} if release == 2 else {}
    shops = Materialized(store="shops", index=index)
    builder.table("shops", key=str, value=dict, materialized=shops)
    builder.table("sizes", key=str, value=int if release == 1 else float, store="sizes")
    if release == 1:
        builder.table("notes", key=str, value=str, store="notes")
    return builder


class Releases:
    """The address of an application, at which one release after another answers."""

    def __init__(self) -> None:
        self.served: Served | None = None
        self.client = Client(
            "http://localhost", token=QUERY.query, transport=httpx.MockTransport(self._answer)
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        assert self.served is not None
        target, headers = request.url.raw_path.decode(), {**request.headers, "host": "localhost"}
        body = request.content or b""
        found = self.served.client.ask(request.method, target, headers=headers, content=body)
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)


@pytest.fixture
def drivers() -> Iterator[list[TopologyTestDriver]]:
    with TopologyTestDriver(program(1)) as one, TopologyTestDriver(program(2)) as two:
        for driver in (one, two):
            shops = driver.create_input_topic("shops")
            for number in range(7):
                shops.pipe_input(f"s{number}", {"city": "Rome", "size": number})
        one.create_input_topic("notes").pipe_input("n", "text")
        one.create_input_topic("sizes").pipe_input("a", 1)
        two.create_input_topic("sizes").pipe_input("a", 1.5)
        yield [one, two]


def test_handles_and_cursors_go_over_a_release(drivers: list[TopologyTestDriver]) -> None:
    """What is still there is read on, and what is not is refused with what to do."""
    at = Releases()
    with at.client as client:
        at.served = Served(drivers[0])
        shops = client.store("shops", key=str, value=dict)
        sizes = client.store("sizes", key=str, value=int)
        notes = client.store("notes", key=str, value=str)
        assert (notes["n"], sizes["a"]) == ("text", 1)
        rows = shops.range(page=3)
        assert next(rows).key == "s0"

        half = shops.range(page=3)
        assert next(half).key == "s0"

        at.served = Served(drivers[1])
        assert shops["s5"] == {"city": "Rome", "size": 5}
        assert [row.key for row in rows] == ["s1", "s2", "s3", "s4", "s5", "s6"]
        with pytest.raises(RemoteRefusedError, match="there is no such store") as gone:
            notes.get("n")
        assert gone.value.fields["status"] == 404
        with pytest.raises(DocumentError, match="not of the types of this handle") as changed:
            sizes.get("a")
        assert "client.store" in str(changed.value)
        assert client.store("sizes", key=str, value=float)["a"] == 1.5

        at.served.service._cursors = Cursors(b"j" * 32)  # of another process
        with pytest.raises(RemoteRefusedError, match="cursor") as ended:
            list(half)
        assert ended.value.fields["status"] == 400
        assert len(list(shops.range(page=3))) == 7
