"""A secured development broker: what is made, for whom it can be read, and what clients get."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela_dev.broker.daemon import broker_status, start_broker, stop_broker
from mustela_dev.broker.probe import free_port
from mustela_dev.broker.process import BrokerAlreadyRunningError
from mustela_dev.broker.security import VALID_DAYS, find_security, make_security
from tests.unit.broker.conftest import StandIn

DAY_MS = 86_400_000
NOW_MS = int(datetime(2026, 5, 4, tzinfo=UTC).timestamp() * 1000)


def test_everything_is_for_the_owner_and_no_key_of_the_authority_is_kept(tmp_path: Path) -> None:
    """What could make certificates that clients trust exists nowhere."""
    security = make_security(tmp_path / "data", now_ms=NOW_MS)
    security.write_client_files(9092)
    assert stat.S_IMODE(security.directory.stat().st_mode) == 0o700
    files = sorted(security.directory.iterdir())
    assert [file.name for file in files] == [
        *("ca.pem", "client.env", "client.yaml", "server.pem", "users.json")
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert sum(file.read_text().count("PRIVATE KEY-----") for file in files) == 2
    assert security.password not in repr(security) + repr(security.login)


def test_passwords_stay_and_certificates_are_renewed_a_week_before_they_expire(
    tmp_path: Path,
) -> None:
    """Clients keep their settings; a broker of last month starts again."""
    first = make_security(tmp_path, now_ms=NOW_MS)
    ca = first.ca.read_bytes()
    assert make_security(tmp_path, now_ms=NOW_MS + (VALID_DAYS - 8) * DAY_MS) == first
    assert first.ca.read_bytes() == ca
    assert make_security(tmp_path, now_ms=NOW_MS + (VALID_DAYS - 6) * DAY_MS) == first
    assert first.ca.read_bytes() != ca
    assert find_security(tmp_path) == first
    assert find_security(tmp_path / "none") is None


def test_both_files_and_the_properties_say_the_same(tmp_path: Path) -> None:
    """Variables for a shell or an image, a settings file, and properties of a client."""
    security = make_security(tmp_path / "a data", now_ms=NOW_MS)
    security.write_client_files(9092)
    lines = security.environment_file.read_text().splitlines()
    variables = {name: text.strip("'") for name, _, text in (line.partition("=") for line in lines)}
    own = {"application_id": "shop"}
    by_variables = Settings.load(own, environ=variables, directory=tmp_path)
    by_file = Settings.load(
        own, environ={"MUSTELA_CONFIG_FILE": str(security.settings_file)}, directory=tmp_path
    )
    wanted = {"bootstrap.servers": "127.0.0.1:9092", **security.client_properties()}
    for settings in (by_variables, by_file):
        assert wanted.items() <= client_properties(settings, "admin").items()


def test_a_broker_that_runs_without_security_is_not_passed_off_as_secure(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for --secure gets it or an error; what runs secure is reported as it is."""
    from dataclasses import replace

    from mustela_dev.broker import daemon, process

    for module in (daemon, process):
        monkeypatch.setattr(module, "answers", lambda *_: True)
    plain, place = stand_in("exec sleep 1000"), tmp_path / "data"
    secure = replace(plain, secure=True)
    try:
        assert start_broker(place, port=free_port(), options=plain).client_env is None
        with pytest.raises(BrokerAlreadyRunningError, match="without TLS") as caught:
            start_broker(place, options=secure)
        assert "mustela broker stop" in (caught.value.fix or "")
        stop_broker(place)
        status = start_broker(place, options=secure)
        assert status.client_env is not None
        assert status.client_env.is_file()
        assert start_broker(place, options=plain) == status == broker_status(place)
    finally:
        stop_broker(place)


def test_a_certificate_names_the_address_that_clients_elsewhere_use(tmp_path: Path) -> None:
    """It is made anew for another address, and kept for the same one."""
    from cryptography import x509

    def names() -> set[str]:
        chain = x509.load_pem_x509_certificates((security.directory / "server.pem").read_bytes())
        found = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {str(one) for one in found.get_values_for_type(x509.IPAddress)}

    security = make_security(tmp_path, now_ms=NOW_MS)
    assert names() == {"127.0.0.1"}
    security = make_security(tmp_path, now_ms=NOW_MS, address="192.0.2.7")
    assert names() == {"127.0.0.1", "192.0.2.7"}
    before = security.ca.read_bytes()
    assert make_security(tmp_path, now_ms=NOW_MS, address="192.0.2.7").ca.read_bytes() == before
    security.write_client_files(9092, "192.0.2.7")
    assert "192.0.2.7:9092" in security.environment_file.read_text()


def test_whoever_listens_for_others_demands_a_login(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--listen` alone is enough: no plain listener is ever at an address of the network."""
    from dataclasses import replace

    from mustela_dev.broker import daemon, process

    for module in (daemon, process):
        monkeypatch.setattr(module, "answers", lambda *_: True)
    plain, place = stand_in("exec sleep 1000"), tmp_path / "data"
    try:
        status = start_broker(place, port=free_port(), options=replace(plain, listen="127.0.0.2"))
        assert status.bootstrap_servers == f"127.0.0.2:{status.port}"
        assert status.client_env is not None
        assert "PLAINTEXT" not in (place / "server.properties").read_text()
        with pytest.raises(BrokerAlreadyRunningError, match=r"already running, at 127\.0\.0\.2"):
            start_broker(place, options=replace(plain, listen="127.0.0.3"))
    finally:
        stop_broker(place)
