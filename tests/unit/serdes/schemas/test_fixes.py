"""What the errors of serdes with a registry say to do, done: it helps."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.errors import MustelaError
from mustela.schemas import AvroSerde, SerdePlace
from mustela.serdes.schemas import registered
from mustela.serdes.schemas.faults import (
    IncompatibleSchemaError,
    MissingLibraryError,
    RegistryMissingError,
    RegistryOptionError,
    RegistryRefusedError,
    RegistryUnreachableError,
    SchemaTypeError,
    SubjectMissingError,
)
from tests.registry_server import RegistryServer, basic

QUICK = {"max.retries": "0"}


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


def _bound(url: str, serde: AvroSerde | None = None, **more: str) -> AvroSerde:
    properties = {name.replace("_", "."): value for name, value in more.items()}
    place = SerdePlace("orders")
    return (serde or AvroSerde(str)).bound(place, {"url": url, **QUICK, **properties})


def _fix(error: MustelaError) -> str:
    return error.fix or ""


def test_a_registry_that_is_started_and_rightly_named_answers() -> None:
    with RegistryServer() as gone:
        pass
    with pytest.raises(RegistryUnreachableError) as caught:
        _bound(gone.url).serialize("a")
    assert _fix(caught.value) == "start it, or correct schema.registry.url"
    with RegistryServer() as server:
        assert _bound(server.url).serialize("a")


def test_credentials_that_the_refusal_names_are_let_in() -> None:
    with RegistryServer(authorization=basic("ann:pass")) as server:
        with pytest.raises(RegistryRefusedError) as caught:
            _bound(server.url).serialize("a")
        assert "set schema.registry.basic.auth.user.info" in _fix(caught.value)
        assert _bound(server.url, basic_auth_user_info="ann:pass").serialize("a")


def test_a_new_field_with_a_default_or_another_topic_is_taken() -> None:
    def judge(method: str, path: str, body: dict[str, Any]) -> Any:
        new = json.loads(body.get("schema", "[]"))
        bare = method == "POST" and any("default" not in one for one in new["fields"][1:])
        return (409, {"message": "no"}) if bare and "orders-value" in path else None

    first = {"name": "user", "type": "string"}
    bare = AvroSerde(schema=_record(first, {"name": "n", "type": "long"}))
    fit = AvroSerde(schema=_record(first, {"name": "n", "type": "long", "default": 0}))
    with RegistryServer(judge=judge) as server:
        _bound(server.url, AvroSerde(schema=_record(first))).serialize({"user": "a"})
        with pytest.raises(IncompatibleSchemaError) as caught:
            _bound(server.url, bare).serialize({"user": "a", "n": 1})
        assert _fix(caught.value) == (
            "give new fields a default and keep the others, or write to another topic"
        )
        assert _bound(server.url, fit).serialize({"user": "a", "n": 1})
        other = bare.bound(SerdePlace("others"), {"url": server.url})
        assert other.serialize({"user": "a", "n": 1})


def test_a_schema_that_is_registered_is_found() -> None:
    with RegistryServer() as server:
        with pytest.raises(SubjectMissingError) as caught:
            _bound(server.url, auto_register_schemas="false").serialize("a")
        assert _fix(caught.value) == (
            "register it (`mustela schemas register MODULE:APP` does so for all that an "
            "application writes), or set schema.registry.auto.register.schemas=true"
        )
        assert _bound(server.url, auto_register_schemas="true").serialize("a")
        assert _bound(server.url, auto_register_schemas="false").serialize("a")
        with pytest.raises(SubjectMissingError) as caught:
            AvroSerde().bound(SerdePlace("dicts"), {"url": server.url}).serialize({"user": "a"})
        assert "whose class or schema is declared" in _fix(caught.value)
        declared = AvroSerde(schema=_record({"name": "user", "type": "string"}))
        bound = declared.bound(SerdePlace("dicts"), {"url": server.url})
        assert bound.serialize({"user": "a"})


def test_a_registry_in_the_process_is_enough_for_tests() -> None:
    builder = StreamsBuilder()
    by_name: Any = "avro"
    builder.stream("texts", key=str, value=by_name).to("copies")
    with TopologyTestDriver(builder) as driver, pytest.raises(RegistryMissingError) as caught:
        driver.create_input_topic("texts").pipe_input("k", "v")
    assert _fix(caught.value) == (
        "set schema.registry.url; for tests, mock://tests is one inside the process"
    )
    with TopologyTestDriver(builder, {"schema.registry.url": "mock://tests"}) as driver:
        driver.create_input_topic("texts").pipe_input("k", "v")
        assert driver.create_output_topic("copies").read_values_to_list() == ["v"]


def test_the_strategy_that_is_named_goes_with_a_topic_that_a_function_names() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=AvroSerde(schema=_record()))
    orders.to(lambda _key, _value, _context: "copies")
    url = {"schema.registry.url": "mock://strategies"}
    with pytest.raises(RegistryOptionError) as caught:
        TopologyTestDriver(builder, url)
    fix = "value.subject.name.strategy=RecordNameStrategy"
    assert fix in _fix(caught.value)
    name, _, value = fix.partition("=")
    with TopologyTestDriver(builder, {**url, name: value}) as driver:
        driver.create_input_topic("orders").pipe_input("k", {})
        assert driver.create_output_topic("copies").read_values_to_list() == [{}]


def test_the_extra_that_is_named_has_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingLibraryError) as caught:
        registered.library("fastavro", "avro")
    monkeypatch.undo()
    assert _fix(caught.value) == "pip install 'mustela[avro]'"
    root = Path(__file__).parents[4]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    listed = extras["optional-dependencies"]
    assert any(one.startswith("fastavro") for one in listed["avro"])
    assert any(one.startswith("protobuf") for one in listed["protobuf"])
    assert any(one.startswith("jsonschema") for one in listed["jsonschema"])


def test_a_schema_that_is_given_stands_for_a_type_that_has_none() -> None:
    with pytest.raises(SchemaTypeError) as caught:
        AvroSerde(dict[int, str])
    assert "or give the schema: AvroSerde(..., schema=…)" in _fix(caught.value)
    assert AvroSerde(schema={"type": "map", "values": "string"})
