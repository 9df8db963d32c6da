"""Where the admin server may listen."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from mustela import App
from mustela.admin.errors import AdminAddressError, AdminExposedError, AdminTlsError
from mustela.admin.exposure import bind, check_exposure
from mustela.config.admin import AdminSettings
from mustela.config.errors import SettingValueError
from mustela.config.settings import Settings
from mustela.runtime.events import AppState

TOKEN = "t" * 24


def app_of(tmp_path: Path, **admin: Any) -> App:
    app = App("orders", {"admin": {"enabled": True, **admin}, "state_dir": tmp_path})

    @app.topology
    def build(builder: Any) -> None:
        builder.stream("lines", key=str, value=str).to("copies")

    return app


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"])
def test_an_open_server_without_tls_and_token_ends_the_start(tmp_path: Path, listen: str) -> None:
    """The application refuses to start, and says what is missing."""
    app = app_of(tmp_path, listen=listen)
    with pytest.raises(AdminExposedError) as caught:
        app.start()
    assert app.state is AppState.CREATED
    assert "admin.tls_certificate" in str(caught.value)
    assert "admin.read_token" in str(caught.value)


def test_the_fix_of_an_exposed_server_helps(pair: tuple[Path, Path]) -> None:
    """Certificate, key, token and names together are enough; each alone is not."""
    certificate, key = pair
    tls: dict[str, Any] = {"tls_certificate": certificate, "tls_key": key}
    whole = {"listen": "0.0.0.0:0", **tls, "read_token": TOKEN, "allowed_hosts": "admin.example"}
    check_exposure(AdminSettings(**whole))
    for left_out in (("tls_certificate", "tls_key"), ("read_token",), ("allowed_hosts",)):
        some = {name: value for name, value in whole.items() if name not in left_out}
        with pytest.raises(AdminExposedError):
            check_exposure(AdminSettings(**some))
    check_exposure(AdminSettings(listen="127.0.0.1:0"))


def test_the_fix_of_an_unusable_certificate_helps(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Both files, readable and of one another."""
    certificate, key = pair
    check_exposure(AdminSettings(tls_certificate=certificate, tls_key=key))
    pairs: list[dict[str, Any]] = [
        {"tls_certificate": certificate},
        {"tls_certificate": certificate, "tls_key": certificate},
        {"tls_certificate": tmp_path / "none", "tls_key": key},
    ]
    for wrong in pairs:
        with pytest.raises(AdminTlsError):
            check_exposure(AdminSettings(**wrong))


def test_an_address_that_is_taken_is_named_and_another_is_free() -> None:
    """Port 0 takes any."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AdminAddressError) as caught:
            bind(f"127.0.0.1:{port}")
        assert "port 0 takes any" in str(caught.value.fix)
        bind("127.0.0.1:0").close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listen", "8080"),
        ("listen", "localhost:70000"),
        ("probe_listen", "0.0.0.0"),
        ("endpoints_off", "everything"),
        ("read_token", "short"),
        ("operate_token", "\u00e9" * 30),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(name: str, value: str) -> None:
    """And what is shown of it is no token."""
    with pytest.raises(SettingValueError) as caught:
        Settings.load({"application_id": "a", "admin": {name: value}}, environ={})
    if name.endswith("token"):
        assert value not in str(caught.value)


def test_tokens_are_shown_nowhere(tmp_path: Path) -> None:
    """Not by printing settings, and not to processors."""
    from mustela.config.settings import app_configs

    settings = Settings.load({"application_id": "a", "admin.operate_token": TOKEN}, environ={})
    assert TOKEN not in repr(settings) + str(settings.masked()) + str(app_configs(settings))


def test_an_installed_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its entry point, which pip registers."""
    from mustela.admin.server import AdminServer
    from mustela.runtime import installed

    with monkeypatch.context() as context:
        context.setattr(installed, "entry_points", lambda **_: ())
        with pytest.raises(installed.AdminMissingError) as caught:
            installed.load_admin()
    assert "install mustela with pip" in str(caught.value.fix)
    assert isinstance(installed.load_admin(), AdminServer)


@pytest.mark.slow
def test_without_the_setting_nothing_is_loaded(tmp_path: Path) -> None:
    """Neither the server nor what it is made of."""
    import subprocess
    import sys

    code = "import mustela, sys, mustela.runtime.app, mustela.admin.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"starlette", "uvicorn", "prometheus_client"}.isdisjoint(done.stdout.split())
