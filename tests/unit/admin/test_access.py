"""The file that tells the command line of this user where to ask, and with which token."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from mustela.admin.access import Access, Tokens, access_file, read_access
from mustela.config.settings import Settings
from mustela.state.faults import StateDirectoryError


def settings_in(root: Path) -> Settings:
    return Settings.load({"application_id": "orders", "state_dir": root}, environ={})


def access() -> Access:
    return Access(
        application_id="orders",
        address="http://127.0.0.1:1",
        certificate="",
        pid=1,
        tokens=Tokens(read="r", query="q", operate="o"),
    )


def test_only_this_user_can_read_the_tokens(tmp_path: Path) -> None:
    """0600 in a directory of 0700, whatever the umask is."""
    path = access_file(settings_in(tmp_path))
    before = os.umask(0)
    try:
        access().write(path, tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_access(path) == access()
    assert [entry.name for entry in path.parent.iterdir()] == ["orders.json"]


def test_a_file_that_others_can_read_is_not_believed(tmp_path: Path) -> None:
    """Nor one that is a link, that is broken, or that is not there."""
    path = access_file(settings_in(tmp_path))
    access().write(path, tmp_path)
    path.chmod(0o640)
    assert read_access(path) is None
    path.chmod(0o600)
    assert read_access(path) == access()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    assert read_access(link) is None
    path.write_text("{}")
    assert read_access(path) is None
    path.write_text("[")
    assert read_access(path) is None
    assert read_access(tmp_path / "nothing") is None


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Who can place a link would have the tokens written elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "state"
    root.mkdir()
    (root / "~admin").symlink_to(elsewhere)
    with pytest.raises(StateDirectoryError):
        access().write(access_file(settings_in(root)), root)
    assert list(elsewhere.iterdir()) == []


def test_the_file_of_a_newer_instance_stays(tmp_path: Path) -> None:
    """Who ends removes what is its own."""
    path = access_file(settings_in(tmp_path))
    newer = replace(access(), pid=2)
    newer.write(path, tmp_path)
    access().remove(path)
    assert read_access(path) == newer
    newer.remove(path)
    assert not path.exists()


def test_tokens_are_made_anew_at_each_start_unless_they_are_set() -> None:
    """256 bits each, and no two the same."""
    plain = Settings.load({"application_id": "orders"}, environ={})
    one, other = Tokens.of(plain), Tokens.of(plain)
    made = {one.read, one.query, one.operate, other.read, other.query, other.operate}
    assert len(made) == 6
    assert min(map(len, made)) >= 43
    token = "s" * 24
    told = Settings.load({"application_id": "a", "admin.query_token": token}, environ={})
    assert Tokens.of(told).query == token
    assert token not in repr(Tokens.of(told))
