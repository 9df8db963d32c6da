"""Secrets do not leave the settings, whatever prints them."""

from __future__ import annotations

import io
import traceback
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from rich.pretty import Pretty

from mustela.config.masking import MASK, is_secret_key, mask_text, mask_value
from mustela.config.settings import Settings
from mustela.errors import UsageError

CANARY = "c4n4ry-5ecret"

SECRET_KEYS = [
    "kafka.sasl.password",
    "kafka.consumer.sasl.password",
    "kafka.ssl.key.password",
    "kafka.ssl.key.pem",
    "kafka.ssl.key.location",
    "kafka.ssl.keystore.password",
    "kafka.sasl.oauthbearer.client.secret",
    "kafka.sasl.oauthbearer.client.credentials.client.secret",
    "kafka.sasl.oauthbearer.config",
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase",
    "kafka.sasl.oauthbearer.assertion.private.key.pem",
    "kafka.sasl.jaas.config",
    "spark.authenticate.secret",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.ssl.keyPassword",
    "spark.my.api_key",
    "basic.auth.user.info",
    "admin.token",
]

OPEN_KEYS = [
    "kafka.sasl.username",
    "kafka.sasl.mechanism",
    "kafka.security.protocol",
    "kafka.ssl.ca.location",
    "kafka.ssl.keystore.location",
    "kafka.sasl.oauthbearer.token.endpoint.url",
    "key_groups",
    "application_id",
    "state.map_size",
]

SECRET_VALUES = [
    f"http://joe:{CANARY}@proxy:3128/x",
    f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
    f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}",
    f'org.apache.Login required username="joe" password="{CANARY}";',
    f"https://host/path?token={CANARY}&a=b",
    f"Authorization: Bearer {CANARY}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJ4{CANARY.replace('-', '')}.sig",
]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_secrets_are_known_by_name(key):
    """By key, in either spelling."""
    assert is_secret_key(key)
    assert mask_value(key, CANARY) == MASK


@pytest.mark.parametrize("key", OPEN_KEYS)
def test_what_is_no_secret_is_shown(key):
    """A mask over everything would help nobody."""
    assert not is_secret_key(key)
    assert mask_value(key, "plain value") == "plain value"


@pytest.mark.parametrize("value", SECRET_VALUES)
def test_secrets_are_known_by_their_look(value):
    """By value, under any name, also inside a longer text."""
    for text in (value, f"before {value} after"):
        masked = mask_text(text)
        assert CANARY not in masked
        assert CANARY.replace("-", "") not in masked
        assert MASK in masked
    assert CANARY not in str(mask_value("spark.x", {"a": [value]}))


def test_what_looks_harmless_stays():
    """Hosts, schemes and plain text are left alone."""
    for text in ("localhost:9092", "https://host/path", "local[4]", "a@b", "tokenize the text"):
        assert mask_text(text) == text
    assert mask_value("lanes", 5) == 5
    assert mask_value("kafka.sasl.password", None) is None


@pytest.fixture
def secretive(tmp_path: Path) -> Settings:
    return Settings.load(
        application_id="app",
        kafka={
            "sasl.password": CANARY,
            "consumer.sasl.password": CANARY,
            "ssl.key.pem": f"-----BEGIN KEY-----\n{CANARY}",
            "client.rack": f"http://joe:{CANARY}@x/",
        },
        spark={"authenticate.secret": CANARY, "driver.extraJavaOptions": f"-Dpassword={CANARY}"},
        jars={"mirror": f"https://joe:{CANARY}@mirror/maven2"},
        environ={},
        directory=tmp_path,
    )


def test_no_print_shows_a_secret(secretive):
    """repr, str, format, rich, masked, and the sections by themselves."""
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(Pretty(secretive))
    console.print(secretive)
    shown = [
        repr(secretive),
        str(secretive),
        f"{secretive}",
        repr([secretive]),
        repr(secretive.jars),
        str(secretive.jars),
        repr(secretive.masked()),
        yaml.safe_dump({k: str(v) for k, v in secretive.masked().items()}),
        console.export_text(),
    ]
    for text in shown:
        assert CANARY not in text
    assert secretive.kafka["sasl.password"] == CANARY
    assert secretive.masked()["kafka.sasl.password"] == MASK
    assert secretive.masked()["jars.mirror"] == f"https://{MASK}@mirror/maven2"


ERRORS = [
    {"kafka": {"sasl.password": {"nested": CANARY}}},
    {"kafka": {"sasl.pasword": CANARY}},
    {"kafka": {"sasl.jaas.config": CANARY}},
    pytest.param({"kafka": {"sasl.password": object()}}, id="an object"),
    {"kafka": {"sasl.password": CANARY, "sasl_password": CANARY + "x"}},
    {"kafka": CANARY},
    {"spark": [CANARY]},
    {"jars": {"mirror": [f"http://joe:{CANARY}@x"]}},
    {"application_id": f"http://joe:{CANARY}@x"},
    {"commit.interval.ms": f"http://joe:{CANARY}@x"},
    {"epoch": {"max_bytes": f"token={CANARY}"}},
    {"sasl.password.file": CANARY},
]


@pytest.mark.parametrize("code", ERRORS, ids=str)
def test_no_error_shows_a_secret(tmp_path, code):
    """Neither the error nor its traceback, with all that is chained to it."""
    with pytest.raises(UsageError) as caught:
        Settings.load({"application_id": "app", **code}, environ={}, directory=tmp_path)
    text = "".join(traceback.format_exception(caught.value))
    assert CANARY not in text
    assert CANARY not in repr(caught.value.fields)
