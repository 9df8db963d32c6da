"""Properties of the schema registry in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.config.errors import UnknownSettingError
from mustela.config.registry import registry_properties
from mustela.config.settings import Settings, app_configs
from mustela.serdes.schemas.options import PROPERTIES

SECRETS = {
    "basic.auth.user.info": "ann:canary",
    "bearer.auth.token": "canary",
    "ssl.key.password": "canary",
}


def test_settings_and_serdes_know_the_same_properties() -> None:
    assert set(registry_properties()) == set(PROPERTIES)


def test_confluents_names_are_taken_from_every_source(tmp_path: Path) -> None:
    """The same property by three names: Confluent's two, and the section's."""
    (tmp_path / "mustela.yaml").write_text("schema.registry.url: http://file\n")
    environ = {"MUSTELA__SCHEMA_REGISTRY__BASIC_AUTH_USER_INFO": "ann:secret"}
    given = {"auto.register.schemas": False, "schema_registry": {"max.retries": 5}}
    settings = Settings.load({"application_id": "a", **given}, environ=environ, directory=tmp_path)
    assert settings.schema_registry == {
        "url": "http://file",
        "basic.auth.user.info": "ann:secret",
        "auto.register.schemas": "false",
        "max.retries": "5",
    }


def test_secrets_of_the_registry_are_in_no_print(tmp_path: Path) -> None:
    given = {
        "application_id": "a",
        "schema_registry": {**SECRETS, "url": "http://ann:canary@registry:8081"},
    }
    settings = Settings.load(given, environ={}, directory=tmp_path)
    prints = (repr(settings), str(settings.masked()), str(app_configs(settings)))
    assert all("canary" not in text for text in prints)
    assert settings.masked()["schema_registry.url"] == "http://******@registry:8081"


def test_a_property_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownSettingError, match=r"schema_registry\.url"):
        Settings.load(
            {"application_id": "a", "schema.registry.urls": "http://a"},
            environ={},
            directory=tmp_path,
        )
