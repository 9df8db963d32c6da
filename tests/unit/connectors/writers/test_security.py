"""Logging in, without a broker."""

from __future__ import annotations

import secrets
import struct
from typing import Any

import pytest
from confluent_kafka import KafkaException

from mustela.connectors.kafka.writers.security import log_in, unsupported
from mustela.connectors.kafka.writers.wire import (
    NO_TAGS,
    Answer,
    Api,
    compact_array,
    compact_bytes,
    compact_string,
)

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
USER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "user",
    "sasl.password": "pencil",
}


class Broker:
    """Answers a login as it is told to, and keeps what was asked."""

    def __init__(self, *tokens: str, code: int = 0) -> None:
        self.asked: list[bytes] = []
        self._tokens, self._code = iter(tokens), code

    def call(self, api: Api, body: bytes, _sent: object = None) -> Answer:
        if api.name == "SaslHandshake":
            return Answer(struct.pack(">hi", 0, 0))
        self.asked.append(body[1:-1])
        code, text = self._code, "Authentication failed" if self._code else None
        token = b"" if code else next(self._tokens).encode()
        told = compact_bytes(token)
        return Answer(struct.pack(">h", code) + compact_string(text) + told + bytes(8) + NO_TAGS)


@pytest.fixture
def nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _count: NONCE)


@pytest.mark.usefixtures("nonce")
def test_a_login_by_scram_is_that_of_the_standard() -> None:
    """The example of RFC 7677."""
    broker = Broker(SERVER_FIRST, SERVER_FINAL)
    log_in(broker.call, USER)
    assert broker.asked == [f"n,,n=user,r={NONCE}".encode(), CLIENT_FINAL.encode()]


@pytest.mark.usefixtures("nonce")
@pytest.mark.parametrize(
    "told",
    [
        (SERVER_FIRST, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="),
        (SERVER_FIRST.replace(NONCE, "another"), SERVER_FINAL),
    ],
    ids=["wrong proof", "wrong nonce"],
)
def test_a_broker_that_cannot_prove_itself_is_not_believed(told: tuple[str, str]) -> None:
    """It does not know the password."""
    with pytest.raises(KafkaException, match="SASL_AUTHENTICATION_FAILED"):
        log_in(Broker(*told).call, USER)


def test_a_refusal_has_the_words_of_the_broker() -> None:
    """And not the password."""
    with pytest.raises(KafkaException, match="Authentication failed") as caught:
        log_in(Broker(code=58).call, {**USER, "sasl.mechanism": "PLAIN"})
    assert "pencil" not in str(caught.value)


def test_plain_sends_name_and_password() -> None:
    """RFC 4616."""
    broker = Broker("")
    log_in(broker.call, {**USER, "sasl.mechanism": "PLAIN"})
    assert broker.asked == [b"\0user\0pencil"]


def test_nobody_logs_in_where_nobody_has_to() -> None:
    """Whatever names are set."""
    log_in(Broker().call, {**USER, "security.protocol": "ssl"})


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, []),
        (USER, []),
        ({**USER, "sasl.mechanism": "OAUTHBEARER"}, ["sasl.mechanism"]),
        ({"security.protocol": "SASL_SSL"}, ["sasl.mechanism"]),
        ({"security.protocol": "ssl", "ssl.key.pem": "…"}, ["ssl.key.pem"]),
        ({"ssl.key.pem": "…"}, []),
    ],
)
def test_what_is_not_known_is_named(properties: dict[str, Any], expected: list[str]) -> None:
    """So that the driver's way is taken."""
    assert unsupported(properties) == expected


def test_an_answer_that_ends_too_early_is_an_error() -> None:
    """Not an index that is out of range."""
    for read in (Answer.int64, Answer.data, Answer.tags, Answer.uvarint):
        with pytest.raises(KafkaException, match="_BAD_MSG"):
            read(Answer(b"\xff" * 3))
    answer = Answer(compact_array([b"\0\1", b"\0\2"]))
    assert answer.array(answer.int16) == [1, 2]
