"""The registry's client over real HTTP: what it asks, how often, and how it tells of refusals."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from mustela.errors import EnvironmentFault
from mustela.serdes.base import SerdeError, SerdePlace
from mustela.serdes.schemas.avro import AvroSerde
from mustela.serdes.schemas.client import RegistrySchema, UnknownSchemaIdError, registry_of
from mustela.serdes.schemas.faults import (
    IncompatibleSchemaError,
    RegistryOptionError,
    RegistryRefusedError,
    RegistryUnreachableError,
    SubjectMissingError,
)
from mustela.serdes.schemas.options import RegistryOptions
from tests.registry_server import RegistryServer, basic, make_certificate

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": []}
TEXT = RegistrySchema('"string"')
QUICK = {"max.retries": "1", "retries.wait.ms": "1", "request.timeout.ms": "5000"}


def _serde(url: str, topic: str = "orders", **more: str) -> AvroSerde:
    properties = {"url": url, **QUICK, **{k.replace("_", "."): v for k, v in more.items()}}
    return AvroSerde(str).bound(SerdePlace(topic), properties)


def _registry(url: str, **more: str):
    options = RegistryOptions.of({"url": url, **QUICK, **more})
    assert options is not None
    return registry_of(options)


def test_each_schema_is_asked_for_once_in_each_direction() -> None:
    """A thousand records in a hundred batches cost two requests."""
    with RegistryServer() as server:
        writes, reads = _serde(server.url), pickle.loads(pickle.dumps(_serde(server.url)))
        data = [writes.serialize_many(["a"] * 10) for _ in range(100)]
        assert [reads.deserialize_many(one) for one in data] == [["a"] * 10] * 100
        assert server.asked == [
            ("POST", "/subjects/orders-value/versions"),
            ("GET", "/schemas/ids/1"),
        ]


def test_a_pickled_serde_has_no_client_and_still_finds_the_registry() -> None:
    with RegistryServer() as server:
        serde = _serde(server.url, basic_auth_user_info="ann:hunter2")
        serde.serialize("a")
        data = pickle.dumps(serde)
        assert b"socket" not in data
        assert b"opener" not in data.lower()
        assert pickle.loads(data).serialize("a") == serde.serialize("a")
        assert "hunter2" not in repr(serde) + repr(serde.options)


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ({"basic.auth.user.info": "ann:hunter2"}, basic("ann:hunter2")),
        ({"bearer.auth.token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_credentials_are_sent_and_a_wrong_one_is_refused(
    properties: dict[str, str], wanted: str
) -> None:
    with RegistryServer(authorization=wanted) as server:
        assert _registry(server.url, **properties).id_of("s", TEXT) == 1
        with pytest.raises(RegistryRefusedError) as caught:
            _registry(server.url).id_of("s", TEXT)
    assert "401" in str(caught.value)
    assert "basic.auth.user.info" in str(caught.value)
    assert not caught.value.retryable


def test_a_user_in_the_address_is_sent_and_never_shown() -> None:
    with RegistryServer(authorization=basic("ann:hunter 2")) as server:
        url = server.url.replace("//", "//ann:hunter%202@")
        assert _registry(url).id_of("s", TEXT) == 1
    with pytest.raises(RegistryUnreachableError) as caught:
        _registry(url).latest("other")
    assert "hunter" not in str(caught.value)


def test_tls_is_checked_against_the_given_certificates(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "server")
    with RegistryServer(tls=(certificate, key, None)) as server:
        known = _registry(server.url, **{"ssl.ca.location": str(certificate)})
        assert known.id_of("s", TEXT) == 1
        with pytest.raises(RegistryUnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
            _registry(server.url).latest("s")


def test_a_client_certificate_with_a_locked_key_is_shown(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "server")
    mine, locked = make_certificate(tmp_path, "client", "pass")
    with RegistryServer(tls=(certificate, key, mine)) as server:
        given = {
            "ssl.ca.location": str(certificate),
            "ssl.certificate.location": str(mine),
            "ssl.key.location": str(locked),
            "ssl.key.password": "pass",
        }
        assert _registry(server.url, **given).id_of("s", TEXT) == 1
        with pytest.raises(RegistryRefusedError, match="cannot be read") as caught:
            _registry(server.url, **{**given, "ssl.key.password": "wrong"})
        assert "wrong" not in str(caught.value)
        with pytest.raises(RegistryUnreachableError):
            _registry(server.url, **{"ssl.ca.location": str(certificate)}).latest("s")


def test_credentials_do_not_follow_a_redirect() -> None:
    with RegistryServer() as other:

        def judge(method: str, path: str, body: object):
            return 302, {"message": "elsewhere"}

        with (
            RegistryServer(judge=judge) as server,
            pytest.raises(RegistryRefusedError, match="302"),
        ):
            _registry(server.url, **{"bearer.auth.token": "t"}).latest("s")
        assert other.asked == []


def test_a_registry_that_is_ill_is_asked_again() -> None:
    """An error of the server's own passes: the second try is the answer."""
    ill = [(500, {"message": "ill"}), (503, {}), None]

    def judge(method: str, path: str, body: object):
        return ill.pop(0) if ill else None

    with RegistryServer(judge=judge) as server:
        assert _registry(server.url, **{"max.retries": "2"}).id_of("s", TEXT) == 1
        assert len(server.asked) == 3


def test_the_second_address_answers_where_the_first_does_not() -> None:
    with RegistryServer() as gone:
        pass
    with RegistryServer() as server:
        assert _registry(f"{gone.url},{server.url}").id_of("s", TEXT) == 1


def test_a_registry_that_does_not_answer_is_a_fault_that_may_pass() -> None:
    with RegistryServer() as gone:
        pass
    serde, data = _serde(gone.url), b"\0\0\0\0\x01\x02a"
    acts: list[tuple[Any, Any]] = [
        (serde.serialize, "a"),
        (serde.deserialize, data),
        (serde.serialize_many, ["a"]),
        (serde.deserialize_many, [data]),
        (serde.serialize_each, ["a"]),
        (serde.deserialize_each, [data]),
    ]
    for act, given in acts:
        with pytest.raises(EnvironmentFault) as caught:
            act(given)
        assert caught.value.retryable
        assert gone.url in str(caught.value)


def test_a_schema_that_is_refused_is_shown_with_the_one_that_is_there() -> None:
    """The error of compatibility has both schemas: what differs is seen at a glance."""
    theirs = json.dumps({**ORDER, "fields": [{"name": "total", "type": "long"}]})

    def judge(method: str, path: str, body: dict):
        if method == "POST" and body.get("schema") != theirs:
            return 409, {"error_code": 409, "message": "READER_FIELD_MISSING_DEFAULT_VALUE"}
        return None

    with RegistryServer(judge=judge) as server:
        registry = _registry(server.url)
        registry.id_of("orders-value", RegistrySchema(theirs))
        mine = json.dumps({**ORDER, "fields": [{"name": "price", "type": "long"}]})
        with pytest.raises(IncompatibleSchemaError) as caught:
            registry.id_of("orders-value", RegistrySchema(mine))
    text = str(caught.value)
    assert '"total"' in text
    assert '"price"' in text
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in text
    assert caught.value.fields["latest"] == theirs
    assert not caught.value.retryable


def test_without_registering_the_schema_has_to_be_there() -> None:
    with RegistryServer() as server:
        never = _registry(server.url, **{"auto.register.schemas": "false"})
        with pytest.raises(SubjectMissingError) as caught:
            never.id_of("s", TEXT)
        assert '"string"' in str(caught.value)
        assert _registry(server.url).id_of("s", TEXT) == 1
        assert never.id_of("s", TEXT) == 1


def test_an_unknown_id_is_not_asked_for_with_each_record() -> None:
    """A topic full of records of another registry does not flood this one with requests."""
    with RegistryServer() as server:
        registry = _registry(server.url)
        for _ in range(500):
            with pytest.raises(UnknownSchemaIdError):
                registry.schema(7)
        assert len(server.asked) == 1
        serde = _serde(server.url)
        with pytest.raises(SerdeError, match="no schema with id 7"):
            serde.deserialize(b"\0\0\0\0\x07\x02a")


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"url": "registry:8081"}, "not the address"),
        ({"url": "http://a", "max.retries": "many"}, "whole number"),
        ({"url": "http://a", "use.latest.version": "maybe"}, "true or false"),
        ({"url": "http://a", "value.subject.name.strategy": "Mine"}, "TopicRecordNameStrategy"),
        ({"url": "http://a", "retries": "1"}, "no property"),
    ],
)
def test_a_property_that_cannot_be_is_refused(properties: dict[str, str], told: str) -> None:
    with pytest.raises(RegistryOptionError, match=told):
        RegistryOptions.of(properties)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "orders-value"),
        ("RecordNameStrategy", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "orders-shop.Order"),
    ],
)
def test_subjects_are_named_as_confluent_names_them(strategy: str, subject: str) -> None:
    with RegistryServer() as server:
        properties = {"url": server.url, "value.subject.name.strategy": strategy}
        serde = AvroSerde(schema=ORDER).bound(SerdePlace("orders"), properties)
        serde.serialize({})
        assert server.asked == [("POST", f"/subjects/{subject}/versions")]
