"""The security of the settings in the words of Kafka's own tools, and the file that holds it."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mustela.config.settings import Settings
from mustela_dev.commands.tools import with_security
from mustela_dev.commands.toolsecurity import (
    ToolSecurityError,
    java_security,
    nameless_file,
    properties_text,
)

SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "joe",
    "sasl.password": 'hunt"er\\2',
}
PKCS8 = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
CHAIN = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"


def settings(**kafka: str) -> Settings:
    return Settings.load(application_id="a", bootstrap_servers="b:1,b:2", kafka=kafka)


def given(name: str, arguments: list[str], kafka: dict[str, str]) -> list[str]:
    return with_security(name, arguments, lambda: settings(**kafka))


def test_user_and_password_become_a_login_module() -> None:
    """Quotes and backslashes of a password reach Java as they are."""
    made = java_security(SASL, "--command-config")
    assert made == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="joe" password="hunt\\"er\\\\2";',
    }
    plain = java_security({**SASL, "sasl.mechanisms": "PLAIN"}, "--command-config")
    assert "plain.PlainLoginModule required" in plain["sasl.jaas.config"]


def test_kerberos_takes_the_keytab_or_the_ticket() -> None:
    """The mechanism is Kerberos where none is named, for both clients."""
    base = {"security.protocol": "sasl_plaintext", "sasl.kerberos.service.name": "broker"}
    made = java_security(base, "--command-config")
    assert made["sasl.mechanism"] == "GSSAPI"
    assert made["sasl.kerberos.service.name"] == "broker"
    assert 'useTicketCache="true"' in made["sasl.jaas.config"]
    keytab = {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "p@R"}
    text = java_security({**base, **keytab}, "--command-config")["sasl.jaas.config"]
    assert 'keyTab="/k" principal="p@R"' in text


def test_certificates_and_key_become_stores_in_pem(tmp_path: Path) -> None:
    """The authorities stay a file; the key is in the text, as Java wants both in one place."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_text(CHAIN)
    key.write_text(PKCS8)
    made = java_security(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": "/etc/ca.pem",
            "ssl.certificate.location": str(chain),
            "ssl.key.location": str(key),
            "ssl.key.password": "hunter2",
            "ssl.endpoint.identification.algorithm": "none",
        },
        "--command-config",
    )
    assert made == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CHAIN,
        "ssl.keystore.key": PKCS8,
        "ssl.key.password": "hunter2",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_certificates_as_text_a_directory_and_pkcs12(tmp_path: Path) -> None:
    """The other ways in which librdkafka takes them."""
    ssl = {"security.protocol": "ssl"}
    assert java_security({**ssl, "ssl.ca.pem": CHAIN}, "-")["ssl.truststore.certificates"] == CHAIN
    (tmp_path / "one.pem").write_text(CHAIN)
    (tmp_path / "two.pem").write_text(CHAIN)
    many = java_security({**ssl, "ssl.ca.location": str(tmp_path)}, "-")
    assert many["ssl.truststore.certificates"].count("BEGIN") == 2
    store = {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "pw"}
    made = java_security({**ssl, **store}, "-")
    assert made["ssl.keystore.type"] == "PKCS12"
    assert made["ssl.keystore.password"] == made["ssl.key.password"] == "pw"
    assert java_security({**ssl, "ssl.ca.location": "probe"}, "-") == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.mechanism": "OAUTHBEARER"},
        {"enable.ssl.certificate.verification": "false"},
        {"ssl.crl.location": "/crl"},
    ],
)
def test_what_java_has_not_is_named_with_a_way_on(more: dict[str, str]) -> None:
    """Nothing is weakened or left out without a word, and no secret is told."""
    with pytest.raises(ToolSecurityError) as caught:
        java_security({**SASL, **more}, "--command-config")
    assert next(iter(more)) in caught.value.what
    assert "--command-config FILE" in str(caught.value.fix)
    assert "hunt" not in str(caught.value)


def test_a_key_that_java_cannot_read_is_told_before_java_is_started(tmp_path: Path) -> None:
    """It would say that there is no matching entry. The key itself is not shown."""
    old = "-----BEGIN RSA PRIVATE KEY-----\nsecretkey\n-----END RSA PRIVATE KEY-----\n"
    pair = {"security.protocol": "ssl", "ssl.certificate.pem": CHAIN, "ssl.key.pem": old}
    with pytest.raises(ToolSecurityError, match="cannot read the key") as caught:
        java_security(pair, "--command-config")
    assert "openssl pkcs8" in str(caught.value.fix)
    assert "secretkey" not in str(caught.value)
    (tmp_path / "OLD.pem").write_bytes(
        subprocess.run(
            ["openssl", "genrsa", "-traditional", "2048"], check=True, capture_output=True
        ).stdout
    )
    pair["ssl.key.pem"] = (tmp_path / "OLD.pem").read_text()
    with pytest.raises(ToolSecurityError) as caught:
        java_security(pair, "--command-config")
    line = (caught.value.fix or "").removeprefix("convert it: ").split()
    subprocess.run(line, check=True, cwd=tmp_path, capture_output=True)
    pair["ssl.key.pem"] = (tmp_path / "NEW.pem").read_text()
    assert java_security(pair, "--command-config")["ssl.keystore.key"] == pair["ssl.key.pem"]
    gone = {**pair, "ssl.key.pem": "", "ssl.key.location": str(tmp_path / "gone.pem")}
    with pytest.raises(ToolSecurityError, match=r"gone\.pem cannot be read: No such file"):
        java_security(gone, "--command-config")


def test_lines_backslashes_and_letters_are_escaped_for_java() -> None:
    """Java reads Latin 1, takes a backslash for an escape and drops leading blanks."""
    text = properties_text({"a": "x\ny", "b": "\\", "c": "  é€", "d": "\U0001f40e", "e": "=:#!"})
    assert text == ("a=x\\ny\nb=\\\\\nc=\\u0020\\u0020\\u00e9\\u20ac\nd=\\ud83d\\udc0e\ne==:#!\n")


def test_the_file_has_no_name_and_the_program_can_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else could read it while it had one; nothing is left, however the tool ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    unlink = Path.unlink

    def noting(path: Path, **more: Any) -> None:
        modes.append(stat.S_IMODE(path.stat().st_mode))
        unlink(path, **more)

    monkeypatch.setattr(Path, "unlink", noting)
    path = nameless_file("a=b\n")
    handle = int(path.rpartition("/")[2])
    try:
        assert modes == [0o600]
        assert not list(tmp_path.iterdir())
        read = subprocess.run(["cat", path], pass_fds=[handle], capture_output=True, check=True)
        assert read.stdout == b"a=b\n"
        assert os.get_inheritable(handle)
    finally:
        os.close(handle)


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("kafka-topics", "--command-config"),
        ("kafka-console-consumer", "--consumer.config"),
        ("kafka-console-producer", "--producer.config"),
        ("kafka-leader-election", "--admin.config"),
        ("kafka-cluster", "--config"),
    ],
)
def test_each_tool_is_given_the_file_by_its_own_flag(name: str, flag: str) -> None:
    """Where the tool asks the broker of the settings."""
    made = given(name, ["cluster-id", "--bootstrap-server=b:2"], SASL)
    path = made[made.index(flag) + 1]
    handle = int(path.rpartition("/")[2])
    try:
        assert "ScramLoginModule" in os.read(handle, 10_000).decode()
        assert "hunt" not in " ".join(made)
    finally:
        os.close(handle)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--list", "--command-config", "mine"],
        ["--list", "--command-config=mine"],
        ["--bootstrap-server", "other:1", "--list"],
        ["--bootstrap-server=other:1", "--list"],
        ["--help"],
        [],
    ],
)
def test_nothing_is_given_to_a_tool_that_has_its_own_or_asks_others(arguments: list[str]) -> None:
    """A broker of another cluster does not learn the password."""
    assert given("kafka-topics", arguments, SASL) == arguments


def test_a_broker_without_security_needs_nothing() -> None:
    """And a tool that asks none neither."""
    assert given("kafka-topics", ["--list"], {}) == ["--list"]
    assert given("kafka-storage", ["random-uuid"], SASL) == ["random-uuid"]


def test_the_settings_of_one_kind_of_client_reach_its_tools() -> None:
    """A consumer's password is not the administrator's."""
    kafka = {**SASL, "consumer.sasl.password": "other"}
    for name, wanted in (("kafka-console-consumer", True), ("kafka-topics", False)):
        made = given(name, ["--topic", "t"], kafka)
        handle = int(made[1].rpartition("/")[2])
        try:
            assert (b'password=\\"other' in os.read(handle, 10_000)) is False
            os.lseek(handle, 0, os.SEEK_SET)
            assert (b'password="other"' in os.read(handle, 10_000)) is wanted
        finally:
            os.close(handle)
