"""The user's own queries over HTTP, and the description of everything that can be asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mustela import App, StreamsBuilder, TopologyTestDriver
from mustela.admin.application import application
from mustela.admin.data.endpoints import DataSource, data_endpoints
from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.queries.errors import QueryError
from mustela.queries.functions import QueryRefusedError
from tests.unit.admin.data.shown import QUERY, stores
from tests.unit.admin.fakes import Client, FakeApp


@dataclasses.dataclass(frozen=True)
class City:
    name: str
    total: int


def app_with_queries() -> App:
    app = App("sales")

    @app.query("top")
    def top(snapshot: Any, count: int = 2, since: datetime | None = None) -> list[City]:
        """The words that were seen most."""
        assert since is None or since.tzinfo is UTC
        rows = sorted(snapshot.store("counts").items(), key=lambda row: (-row[1], row[0]))
        return [City(name, total) for name, total in rows[:count]]

    @app.query("one-of")
    def one_of(snapshot: Any, *, names: list[str]) -> int:
        return sum(snapshot.store("counts").get(name, 0) for name in names)

    @app.query("refuses")
    def refuses(snapshot: Any, *, status: int) -> None:
        raise QueryRefusedError("there is no such city", status=status)

    @app.query("fails")
    def fails(snapshot: Any) -> None:
        raise RuntimeError("the secret of the shop")

    @app.query("odd")
    def odd(snapshot: Any) -> object:
        return object()

    @app.query("large")
    def large(snapshot: Any) -> str:
        return "x" * (5 << 20)

    return app


class Shop:
    """An application's data endpoints over a test driver."""

    def __init__(self, driver: TopologyTestDriver, app: App, directory: Path, **more: Any) -> None:
        self.said: list[str] = []
        fake = FakeApp(directory, stores, **more)
        source = DataSource(
            settings=fake.settings,
            queries=driver.queries,
            clock=ManualClock(0),
            functions=app.query_functions,
            say=self.said.append,
        )
        endpoints = data_endpoints(source)
        self.client = Client(application(fake.watched, endpoints, fake.policy()))

    def json(self, path: str, status: int = 200) -> Any:
        answer = self.client.get(path, QUERY.query)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder.build(), key_groups=2) as driver:
        words = driver.create_input_topic("words", key=str, value=str)
        for word in ("a", "b", "a", "c", "a", "b"):
            words.pipe_input(word, "x")
        yield driver


@pytest.fixture
def shop(driver: TopologyTestDriver, tmp_path: Path) -> Shop:
    return Shop(driver, app_with_queries(), tmp_path)


def test_a_query_is_a_function_with_a_snapshot(shop: Shop) -> None:
    """Its parameters come from the address, with the types in the annotations, or their default."""
    found = shop.json("/queries/top")
    assert found["result"] == [{"name": "a", "total": 3}, {"name": "b", "total": 2}]
    assert found["epoch"] == 6
    assert len(shop.json("/queries/top?count=1&since=2026-01-01T00:00:00Z")["result"]) == 1


def test_parameters_that_are_no_text_come_in_a_body(shop: Shop) -> None:
    """POST takes an object with JSON of the declared types."""
    answer = shop.client.post("/queries/one-of", QUERY.query, json={"names": ["a", "c"]})
    assert answer.json()["result"] == 4


@pytest.mark.parametrize(
    "path",
    [
        "/queries/top?count=x",
        "/queries/top?count=1.5",
        "/queries/top?number=1",
        "/queries/top?since=yesterday",
        "/queries/one-of",
    ],
)
def test_a_parameter_that_is_missing_unknown_or_of_another_type_is_400(
    shop: Shop, path: str
) -> None:
    """The answer names what is wanted."""
    found = shop.json(path, 400)
    assert found["code"] == "QUERY_PARAMETER"
    assert found["fix"]


def test_a_query_waits_for_the_epoch_of_what_its_client_sent(shop: Shop) -> None:
    """Both with parameters in the address and in a body; one that does not come is 503."""
    assert shop.json("/queries/top?count=1&min_epoch=6")["epoch"] == 6
    late = shop.json("/queries/top?count=1&min_epoch=7", 503)
    assert late["code"] == "QUERY_EPOCH_NOT_REACHED"
    assert late["fix"]
    asked = {"names": ["a"]}
    for epoch, status in ((6, 200), (7, 503)):
        path = f"/queries/one-of?min_epoch={epoch}"
        assert shop.client.post(path, QUERY.query, json=asked).status_code == status
    assert shop.json("/queries/top?min_epoch=soon", 400)["code"] == "QUERY_PARAMETER"


def test_a_function_may_refuse_a_question(shop: Shop) -> None:
    """With a status of its own among those that are the client's fault."""
    found = shop.json("/queries/refuses?status=404", 404)
    assert (found["error"], found["code"]) == ("there is no such city", "QUERY_REFUSED")


def test_a_function_that_fails_is_500_and_its_text_is_for_the_log(shop: Shop) -> None:
    """The client learns the type of the error, the application the rest."""
    found = shop.json("/queries/fails", 500)
    assert found["code"] == "QUERY_FAILED"
    assert "secret" not in json.dumps(found)
    assert "the secret of the shop" in shop.said[0]


def test_a_result_that_cannot_be_shown_is_500(shop: Shop) -> None:
    """It is of a type that JSON cannot hold, or too large."""
    assert shop.json("/queries/odd", 500)["code"] == "QUERY_RESULT"
    assert shop.json("/queries/large", 500)["code"] == "QUERY_RESULT"


def test_queries_are_listed_with_their_parameters(shop: Shop) -> None:
    """And one that does not exist is 404."""
    listed = {each["query"]: each for each in shop.json("/queries")["queries"]}
    assert listed["top"]["doc"] == "The words that were seen most."
    assert [each["name"] for each in listed["top"]["parameters"]] == ["count", "since"]
    assert shop.json("/queries/none", 404)["code"] == "QUERY_PATH"


def test_a_function_that_cannot_be_a_query_is_refused_when_it_is_decorated() -> None:
    """It takes no snapshot, a parameter of no known type, or has the name of another."""
    app = App("sales")

    def plain() -> None: ...
    def several(snapshot: Any, *names: str) -> None: ...
    def waits(snapshot: Any, *, min_epoch: int) -> None: ...
    def good(snapshot: Any) -> None: ...

    for function in (plain, several, waits):
        with pytest.raises(QueryError):
            app.query("q")(function)
    with pytest.raises(QueryError):
        app.query("not a name")(good)
    app.query("q", timeout=timedelta(seconds=1))(good)
    with pytest.raises(QueryError, match="two queries"):
        app.query("q")(good)
    assert list(app.query_functions) == ["q"]


def test_a_refusal_is_the_clients_fault() -> None:
    """Another status is an error of the function itself."""
    assert QueryRefusedError("no", status=404).status == 404
    with pytest.raises(QueryError):
        QueryRefusedError("no", status=500)


def test_everything_that_can_be_asked_is_described(shop: Shop) -> None:
    """The description is of OpenAPI 3.1: all references lead somewhere, all schemas are schemas."""
    document = shop.json("/openapi.json")

    assert document["openapi"] == "3.1.0"
    for path in (
        "/stores",
        "/stores/counts",
        "/stores/counts/{key}",
        "/stores/counts/get",
        "/stores/counts/changes",
        "/stores/windowed/{key}/windows",
        "/stores/sessions/{key}/sessions",
        "/stores/prices/{key}/versions",
        "/queries/top",
    ):
        assert path in document["paths"], path
    assert "/stores/unlogged/changes" not in document["paths"]
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(names) == len(set(names))
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in references(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def references(document: Any) -> Iterator[str]:
    if isinstance(document, list):
        for each in document:
            yield from references(each)
    elif isinstance(document, dict):
        for name, each in document.items():
            if name == "$ref":
                yield each
            else:
                yield from references(each)


def test_answers_are_as_they_are_described(shop: Shop) -> None:
    """A page, a row and the result of a query fit their schemas."""
    document = shop.json("/openapi.json")
    for path, place in (
        ("/stores/orders", "/stores/orders"),
        ("/stores/counts", "/stores/counts"),
        ("/stores/counts/a", "/stores/counts/{key}"),
        ("/stores/windowed/a/windows", "/stores/windowed/{key}/windows"),
        ("/stores/sessions", "/stores/sessions"),
        ("/stores/prices", "/stores/prices"),
        ("/queries/top", "/queries/top"),
    ):
        content = document["paths"][place]["get"]["responses"]["200"]["content"]
        schema = {**document, **content["application/json"]["schema"]}
        jsonschema.Draft202012Validator(schema).validate(shop.json(path))


def test_hidden_stores_are_not_described(driver: TopologyTestDriver, tmp_path: Path) -> None:
    """A store that is not shown has no address."""
    shop = Shop(driver, App("sales"), tmp_path, admin__hidden_stores="counts,orders")
    paths = shop.json("/openapi.json")["paths"]
    assert not [path for path in paths if "counts" in path or "orders" in path]


@pytest.mark.parametrize("text", ["email", "orders:", ":email", "orders:a..b"])
def test_a_hidden_field_names_store_and_field(text: str, tmp_path: Path) -> None:
    """A setting that would hide nothing is refused."""
    with pytest.raises(Exception, match="store:field"):
        Settings.load(
            {"application_id": "x", "admin.hidden_fields": text}, environ={}, directory=tmp_path
        )


def test_the_fix_of_a_refused_parameter_helps(shop: Shop) -> None:
    """The parameter that the fix names is taken."""
    found = shop.json("/queries/one-of", 400)
    assert found["code"] == "QUERY_PARAMETER"
    assert found["fix"] == "give names"
    answer = shop.client.post("/queries/one-of", QUERY.query, json={"names": ["a"]})
    assert answer.status_code == 200


def test_the_fix_of_a_key_that_is_none_helps(shop: Shop) -> None:
    """It says what a key is and where its schema is; a key of that schema is found."""
    found = shop.json("/stores/orders/x", 400)
    assert found["code"] == "QUERY_DOCUMENT"
    assert found["fix"] == "give a whole number; /openapi.json has the schema"
    parameters = shop.json("/openapi.json")["paths"]["/stores/orders/{key}"]["get"]["parameters"]
    assert parameters[0]["schema"]["type"] == "integer"
    assert shop.json("/stores/orders/7", 404)["code"] == "QUERY_NO_ROW"
