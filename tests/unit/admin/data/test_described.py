"""Each address that answers is in the description of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data.endpoints import DataSource, data_endpoints
from mustela.clock import ManualClock
from tests.conformance.reading_ways import all_stores, input_of
from tests.unit.admin.data.shown import QUERY
from tests.unit.admin.data.test_functions import Shop, app_with_queries

pytest.importorskip("pyarrow")  # before an answer that has a deadline imports it

ASKED = {
    "/stores": "/stores",
    "/stores/shops": "/stores/shops",
    "/stores/towns": "/stores/towns",
    "/stores/shops/a": "/stores/shops/{key}",
    "/stores/windowed/a/windows": "/stores/windowed/{key}/windows",
    "/stores/sessions/a/sessions": "/stores/sessions/{key}/sessions",
    "/stores/prices/a/versions": "/stores/prices/{key}/versions",
    "/stores/notes/methods": "/stores/notes/methods",
    "/stores/notes/methods/lines?key=t1": "/stores/notes/methods/lines",
    "/queries": "/queries",
    "/queries/top": "/queries/top",
    "/openapi.json": "/openapi.json",
}
"""What is asked with GET, and where it is described."""


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    all_stores(builder)
    with TopologyTestDriver(builder, key_groups=2) as made:
        for topic, key, value, at in input_of(lambda given: given[0]):
            made.create_input_topic(topic).pipe_input(key, value, timestamp=at)
        yield made


def test_each_address_that_answers_is_described(driver: TopologyTestDriver, tmp_path: Path) -> None:
    """With its method; what is described with parameters in the path answers for them."""
    app = app_with_queries()
    shop = Shop(driver, app, tmp_path)
    paths = shop.json("/openapi.json")["paths"]
    for asked, place in ASKED.items():
        assert "get" in paths[place], place
        shop.json(asked)
    described = {path for path, known in paths.items() if "get" in known}
    left = {path for path in described if path not in ASKED.values()}
    stores = {each["store"] for each in shop.json("/stores")["stores"]}
    for path in left:
        parts = path.split("/")
        known = parts[1] == "queries" and parts[2] in app.query_functions
        assert known or (parts[1] == "stores" and parts[2] in stores), path
    frame = "/frames"
    for place in ("/frames", "/frames/{frame}/{store}", "/frames/{frame}/{store}/rows"):
        address = place.replace("{frame}", frame).replace("{store}", "towns")
        body = {"reader": "r"} if place.endswith("rows") else {}
        answer = shop.client.post(address, QUERY.query, json=body)
        assert answer.status_code == 200, answer.text
        assert "post" in paths[place], place
        if place == "/frames":
            frame = json.loads(answer.content)["frame"]
    assert shop.client.post(f"/frames/{frame}", QUERY.query, json={}).status_code == 200
    assert "post" in paths["/frames/{frame}"]
    for endpoint in data_endpoints(
        DataSource(settings=app.settings, queries=driver.queries, clock=ManualClock(0))
    ):
        assert endpoint.path in paths, endpoint.path
