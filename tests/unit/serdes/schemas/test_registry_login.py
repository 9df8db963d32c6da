"""Tokens of an identity provider for the registry: fetched, kept, renewed, and never shown."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.config.settings import Settings, app_configs
from mustela.errors import MustelaError
from mustela.logs.redaction import redact_text
from mustela.serdes.base import SerdePlace
from mustela.serdes.schemas.avro import AvroSerde
from mustela.serdes.schemas.client import RegistrySchema, registry_of
from mustela.serdes.schemas.faults import (
    RegistryOptionError,
    RegistryRefusedError,
    RegistryUnreachableError,
)
from mustela.serdes.schemas.login import OAuthLogin
from mustela.serdes.schemas.options import RegistryOptions
from tests.registry_server import RegistryServer, make_certificate
from tests.token_server import CLIENT, SECRET, TokenServer

TEXT = RegistrySchema('"string"')
SOURCE = "bearer.auth.credentials.source"
ENDPOINT = "bearer.auth.issuer.endpoint.url"
QUICK = {"max.retries": "1", "retries.wait.ms": "1", "request.timeout.ms": "5000"}


def _properties(provider: str, url: str = "http://registry", **more: str) -> dict[str, str]:
    return {
        "url": url,
        **QUICK,
        SOURCE: "OAUTHBEARER",
        ENDPOINT: provider,
        "bearer.auth.client.id": CLIENT,
        "bearer.auth.client.secret": SECRET,
        **{name.replace("_", "."): text for name, text in more.items()},
    }


def _options(provider: str, url: str = "http://registry", **more: str) -> RegistryOptions:
    options = RegistryOptions.of(_properties(provider, url, **more))
    assert options is not None
    return options


class Hands:
    """A clock that moves by hand; waiting moves it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def provider() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


def _login(provider: TokenServer, hands: Hands) -> OAuthLogin:
    options = _options(provider.url)
    assert options.oauth is not None
    return OAuthLogin(options, options.oauth, monotonic=hands.monotonic, sleep=hands.sleep)


def test_a_token_is_fetched_once_and_sent_with_each_request(provider: TokenServer) -> None:
    """With what Confluent's cloud wants beside it, in the form that its own client sends."""
    more = {
        "bearer_auth_scope": "registry:all",
        "bearer_auth_logical_cluster": "lsrc-1",
        "bearer_auth_identity_pool_id": "pool-1,pool-2",
    }
    with RegistryServer(authorization="Bearer a-token-1") as server:
        registry = registry_of(_options(provider.url, server.url, **more))
        assert provider.given == 0
        assert [registry.id_of(subject, TEXT) for subject in ("a", "b", "c")] == [1, 1, 1]
        assert server.headers["target-sr-cluster"] == "lsrc-1"
        assert server.headers["confluent-identity-pool-id"] == "pool-1,pool-2"
    form = {"grant_type": ["client_credentials"], "scope": ["registry:all"]}
    assert provider.forms == [form]


def test_a_serde_travels_without_its_token_and_fetches_one_of_its_own(
    provider: TokenServer,
) -> None:
    with RegistryServer(authorization=lambda: provider.last) as server:
        properties = _properties(provider.url, server.url)
        serde = AvroSerde(str).bound(SerdePlace("orders"), properties)
        serde.serialize("a")
        assert b"a-token-1" not in pickle.dumps(serde)
        assert pickle.loads(pickle.dumps(serde)).serialize("a") == serde.serialize("a")


def test_a_token_is_renewed_before_it_expires(provider: TokenServer) -> None:
    """At four fifths of its life, as Confluent's client does; not a moment before."""
    hands = Hands()
    login = _login(provider, hands)
    assert login.headers()["Authorization"] == "Bearer a-token-1"
    hands.now_s += 79
    assert login.headers()["Authorization"] == "Bearer a-token-1"
    hands.now_s += 1
    assert login.headers()["Authorization"] == "Bearer a-token-2"


def test_a_token_goes_on_being_used_while_the_provider_is_away(provider: TokenServer) -> None:
    """Until it expires: a provider that restarts stops no application."""
    hands = Hands()
    login = _login(provider, hands)
    login.headers()
    provider.answers = [(503, {})] * 3
    hands.now_s += 90
    assert login.headers()["Authorization"] == "Bearer a-token-1"
    hands.now_s += 10
    with pytest.raises(RegistryUnreachableError, match="identity provider") as caught:
        login.headers()
    assert caught.value.retryable
    assert login.headers()["Authorization"] == "Bearer a-token-2"


def test_a_token_that_the_registry_no_longer_takes_is_renewed_once(provider: TokenServer) -> None:
    wanted = ["Bearer a-token-2"]
    with RegistryServer(authorization=lambda: wanted[0]) as server:
        registry = registry_of(_options(provider.url, server.url))
        assert registry.id_of("a", TEXT) == 1
        assert provider.given == 2
        wanted[0] = "none that there is"
        with pytest.raises(RegistryRefusedError, match="401") as caught:
            registry.id_of("b", TEXT)
        assert provider.given == 3
        assert "bearer.auth.scope" in (caught.value.fix or "")


def test_threads_that_are_refused_together_fetch_one_token(provider: TokenServer) -> None:
    login = _login(provider, Hands())
    sent = login.headers()
    threads = [threading.Thread(target=login.renewed, args=(sent,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert provider.given == 2


@pytest.mark.parametrize("life_s", [None, 0, "soon"])
def test_a_token_of_unknown_life_is_kept_until_it_is_refused(life_s: Any) -> None:
    with TokenServer(life_s=life_s) as provider:
        hands = Hands()
        login = _login(provider, hands)
        login.headers()
        hands.now_s += 1e9
        assert login.headers()["Authorization"] == "Bearer a-token-1"
        assert login.renewed(login.headers())
        assert login.headers()["Authorization"] == "Bearer a-token-2"


def test_a_provider_that_is_ill_is_asked_again(provider: TokenServer) -> None:
    provider.answers = [(500, {})]
    assert _login(provider, Hands()).headers()["Authorization"] == "Bearer a-token-1"


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"access_token": "two\r\nX-Header: lines"}),
        (200, {"token": "canary"}),
        (200, ["canary"]),
        (302, {}),
    ],
)
def test_an_answer_that_holds_no_token_is_refused_and_not_shown(
    provider: TokenServer, answer: tuple[int, Any]
) -> None:
    provider.answers = [answer]
    with pytest.raises(RegistryRefusedError) as caught:
        _login(provider, Hands()).headers()
    assert "canary" not in str(caught.value)
    assert "lines" not in str(caught.value)
    assert provider.answers == []


def test_a_provider_that_refuses_is_told_by_its_reason_and_its_fix_helps(
    provider: TokenServer,
) -> None:
    with RegistryServer(authorization=lambda: provider.last) as server:
        wrong = _options(provider.url, server.url, bearer_auth_client_secret="hunter2")
        with pytest.raises(RegistryRefusedError, match="invalid_client") as caught:
            registry_of(wrong).id_of("a", TEXT)
        assert "client.secret" in (caught.value.fix or "")
        assert "hunter2" not in str(caught.value)
        assert registry_of(_options(provider.url, server.url)).id_of("a", TEXT) == 1


def test_a_provider_that_is_away_is_named_by_its_setting() -> None:
    with TokenServer() as gone:
        pass
    with pytest.raises(RegistryUnreachableError) as caught:
        registry_of(_options(gone.url)).latest("a")
    assert ENDPOINT in (caught.value.fix or "")
    assert caught.value.evidence["tries"] == "2"


def test_an_authority_of_the_company_is_trusted_beside_the_systems(tmp_path: Path) -> None:
    """The registry's certificate settings hold for its provider too, but not its client's key."""
    (certificate, _key) = make_certificate(tmp_path, "server")
    options = _options("https://login.example/token", ssl_ca_location=str(certificate))
    assert options.oauth is not None
    OAuthLogin(options, options.oauth, monotonic=lambda: 0.0, sleep=lambda _: None)
    missing = _options("https://login.example/token", ssl_ca_location=str(tmp_path / "none"))
    assert missing.oauth is not None
    with pytest.raises(RegistryRefusedError, match="cannot be read"):
        OAuthLogin(missing, missing.oauth, monotonic=lambda: 0.0, sleep=lambda _: None)


def _without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda given: {key: text for key, text in given.items() if key != name}


def _with(**changes: str) -> Callable[[dict[str, str]], dict[str, str]]:
    named = {name.replace("_", "."): text for name, text in changes.items()}
    return lambda given: {**given, **named}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_with(bearer_auth_credentials_source="OAUTHBEARER_AZURE_IMDS"), "AZURE_IMDS"),
        (_with(bearer_auth_credentials_source="CUSTOM"), "STATIC_TOKEN, OAUTHBEARER"),
        (_with(bearer_auth_credentials_source="SASL_OAUTHBEARER_INHERIT"), "INHERIT"),
        (_with(basic_auth_credentials_source="SASL_INHERIT"), "USER_INFO, URL"),
        (_with(bearer_auth_credentials_source="STATIC_TOKEN"), "bearer.auth.token"),
        (_without(SOURCE), "credentials.source=OAUTHBEARER"),
        (_without(ENDPOINT), ENDPOINT),
        (_without("bearer.auth.client.id"), "bearer.auth.client.id"),
        (_without("bearer.auth.client.secret"), "bearer.auth.client.secret"),
        (_with(bearer_auth_issuer_endpoint_url="http://login.example/token"), "https://"),
        (_with(bearer_auth_issuer_endpoint_url="file:///etc/passwd"), "https://"),
        (_with(bearer_auth_issuer_endpoint_url="https://ann:canary@login/token"), "https://"),
    ],
)
def test_what_would_not_be_done_is_refused_by_name(
    change: Callable[[dict[str, str]], dict[str, str]], named: str
) -> None:
    """No source of credentials is ignored, and no secret goes where others read it."""
    given = change(_properties("https://login.example/token"))
    with pytest.raises(RegistryOptionError) as caught:
        RegistryOptions.of(given)
    assert named in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_static_token_is_one(provider: TokenServer) -> None:
    with pytest.raises(RegistryOptionError, match=r"needs bearer\.auth\.token"):
        RegistryOptions.of({"url": "http://registry", SOURCE: "STATIC_TOKEN"})
    with RegistryServer(authorization="Bearer t0ken") as server:
        given = {"url": server.url, SOURCE: "STATIC_TOKEN", "bearer.auth.token": "t0ken"}
        options = RegistryOptions.of(given)
        assert options is not None
        assert registry_of(options).id_of("a", TEXT) == 1


def test_the_secret_and_the_token_are_in_no_print(provider: TokenServer, tmp_path: Path) -> None:
    """Settings, options, errors of every kind: the canary is in none of them."""
    given = {"application_id": "a", "schema_registry": _properties(provider.url)}
    settings = Settings.load(given, environ={}, directory=tmp_path)
    options = _options(provider.url)
    prints = [repr(settings), str(settings.masked()), str(app_configs(settings)), repr(options)]
    for answers in ([(503, {"error": SECRET})] * 2, [(400, {"error": f"bad {SECRET}"})]):
        provider.answers = list(answers)
        with pytest.raises(MustelaError) as caught:
            _login(provider, Hands()).headers()
        prints.append(str(caught.value))
    login = _login(provider, Hands())
    prints.append(redact_text(str(login.headers())))
    assert not [text for text in prints if "canary" in text or "a-token-" in text]
