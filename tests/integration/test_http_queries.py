"""Stores over HTTP while their application runs on a broker and on Spark."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mustela import App, Client, StreamsBuilder
from mustela.admin.access import access_file, read_access
from mustela.cli.main import main
from mustela.stores import QueryRefusedError, Snapshot
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

KEYS = 50


class Asker:
    """Asks the stores of a running application."""

    def __init__(self, app: App) -> None:
        access = read_access(access_file(app.settings))
        assert access is not None
        self.http = httpx.Client(
            base_url=access.address,
            headers={"authorization": f"Bearer {access.tokens.query}"},
            timeout=PATIENCE_S,
        )

    def get(self, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.http.get(path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def rows(self, path: str, limit: int) -> Iterator[tuple[int, Any]]:
        """Yield all rows of a question, each with the epoch of its page."""
        cursor = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            page = self.get(path, params={"limit": str(limit), **more})
            yield from ((page["epoch"], row) for row in page["rows"])
            cursor = page.get("cursor")
            if cursor is None:
                return


class Follower(threading.Thread):
    """Keeps a copy of a store by its changes, and connects again every few events."""

    def __init__(self, asker: Asker, store: str) -> None:
        super().__init__(name="follower")
        self._asker = asker
        self._path = f"/stores/{store}/changes"
        self.copy: dict[str, Any] = {}
        self.epoch = -1
        self.snapshots = 0
        self.connections = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            headers = {} if self.epoch < 0 else {"last-event-id": str(self.epoch)}
            with self._asker.http.stream("GET", self._path, headers=headers) as answer:
                assert answer.status_code == 200, answer.read()
                self.connections += 1
                self._read(answer, events_max=2)

    def _read(self, answer: httpx.Response, events_max: int) -> None:
        fields: dict[str, str] = {}
        seen = 0
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "data" in fields:
                self._take(fields["event"], json.loads(fields["data"]))
                self.epoch = int(fields.get("id", self.epoch))
                seen += 1
            fields = {}
            if self.done.is_set() or (seen >= events_max and self.epoch >= 0):
                return

    def _take(self, event: str, data: Any) -> None:
        assert event in ("snapshot", "ready", "change"), data
        self.snapshots += event == "ready"
        for row in data.get("rows", ()):
            if "deleted" in row:
                self.copy.pop(row["key"], None)
            else:
                self.copy[row["key"]] = row["value"]


def asked_by_sql(app: App, counts: dict[str, int], capsys: Any, monkeypatch: Any) -> None:
    """Ask the counts by SQL: from the process, over HTTP, and from the command line."""
    access = read_access(access_file(app.settings))
    assert access is not None
    statement = "select key, value from counts where key >= 'k1' and key < 'k3' order by key"
    wanted = [(key, count) for key, count in sorted(counts.items()) if "k1" <= key < "k3"]
    assert app.sql(statement).rows == wanted
    with Client(access.address, token=access.tokens.query) as client:
        assert client.sql(statement).rows == wanted
        joined = client.sql("select count(*) from counts join longest using (key)").rows
    assert joined == [(len(counts),)]
    monkeypatch.setenv("MUSTELA__ADMIN__QUERY_TOKEN", access.tokens.query)
    assert main(["sql", access.address, statement, "--json"]) == 0
    assert [tuple(row) for row in json.loads(capsys.readouterr().out)["rows"]] == wanted
    assert main(["sql", access.address, "selec key"]) == 2
    assert "syntax error" in capsys.readouterr().err


def test_stores_are_asked_and_followed_over_http_while_epochs_are_committed(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are of one epoch, and who follows a store has what it holds, over many connections."""
    source = world.topic("in", partitions=3)

    def build(builder: StreamsBuilder) -> None:
        rows = builder.stream(source, key=str, value=str)
        rows.group_by_key().count(store="counts")
        lengths = rows.map_values(len, name="lengths", value=int)
        lengths.group_by_key().reduce(max, store="longest")

    app, _ = world.app(build, admin={"enabled": True, "log_queries": True})

    @app.query("total")
    def total(snapshot: Snapshot, least: int = 0) -> dict[str, int]:
        """How many records were counted."""
        if least < 0:
            raise QueryRefusedError("least is negative", status=422)
        counts = [count for _, count in snapshot.store("counts").items() if count >= least]
        return {"keys": len(counts), "records": sum(counts)}

    rng = random.Random(7)
    with app:
        assert app.wait_until_caught_up(SOON)
        asker = Asker(app)
        follower = Follower(asker, "counts")
        follower.start()
        sent = 0
        for _ in range(20):
            world.send(source, [(f"k{rng.randrange(KEYS):02}", "x") for _ in range(50)])
            sent += 50
            pages = list(asker.rows("/stores/counts", limit=7))
            assert len({epoch for epoch, _ in pages}) <= 1, "one question, one epoch"
            assert [row["key"] for _, row in pages] == sorted(row["key"] for _, row in pages)
            assert app.wait_until_caught_up(SOON)  # an epoch each time
        wanted = dict(app.store("counts").items())
        world.until(lambda: follower.copy == wanted, "the follower has all", app)
        follower.done.set()
        world.send(source, [("k00", "x")])  # the stream ends with its next event
        follower.join(PATIENCE_S)

        assert follower.connections > 2
        assert follower.snapshots == 1, "it went on where it was"
        assert app.wait_until_caught_up(SOON)
        assert asker.get("/queries/total")["result"]["records"] == sent + 1
        assert asker.get("/queries/total?least=-1", 422)["code"] == "QUERY_REFUSED"
        stores = {store["store"]: store for store in asker.get("/stores")["stores"]}
        assert stores["counts"]["rows"] == len(wanted)
        assert asker.get("/stores/counts?count=true")["count"] == len(wanted)
        assert "/stores/counts/{key}" in asker.get("/openapi.json")["paths"]
        asker.http.close()
        asked_by_sql(app, wanted, capsys, monkeypatch)
