"""What mustela-dev adds to the doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.cli import examination
from mustela.cli.examination import Level
from mustela.config.settings import Settings
from mustela_dev.commands.examination import examine_jars


def test_the_doctor_looks_at_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars that are still to come are a note, an offline directory without them is a fault."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    online = Settings.load(application_id="a")
    assert examine_jars(online).level is Level.NOTE
    offline = Settings.load(application_id="a", jars={"directory": tmp_path})
    found = examination._safely("jars", lambda: examine_jars(offline))
    assert found.level is Level.WRONG
    assert str(tmp_path) in found.found
