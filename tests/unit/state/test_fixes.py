"""What the errors of state advise, followed to the letter: it helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.state.faults import FencedStateError, StateDirectoryError
from mustela.state.interfaces import Committed, Token
from tests.unit.state.environments import committed, fill, open_lmdb


def refused(root: Path) -> str:
    with pytest.raises(StateDirectoryError) as caught:
        open_lmdb(root).condition(Committed())
    return caught.value.fix or ""


def test_a_state_directory_is_made_right_as_the_error_says(tmp_path: Path) -> None:
    """StateDirectoryError: the directory itself, one that is none, rights; or another one."""
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(real)
    assert refused(link) == "name the directory itself"
    open_lmdb(real).condition(Committed())
    file = tmp_path / "file"
    file.touch()
    assert refused(file) == "remove it, or name another state_dir"
    open_lmdb(tmp_path / "other").condition(Committed())
    file.unlink()
    open_lmdb(file).condition(Committed())
    wide = tmp_path / "wide"
    (wide / "app").mkdir(parents=True)
    (wide / "app").chmod(0o777)
    command, mode, path = refused(wide).split()
    assert (command, path) == ("chmod", str(wide / "app"))
    Path(path).chmod(int(mode, 8))
    open_lmdb(wide).condition(Committed())


def test_when_the_older_instance_stops_the_newer_one_goes_on(tmp_path: Path) -> None:
    """FencedStateError: nothing of the older one is in the way."""
    environment = open_lmdb(tmp_path / "state")
    state = fill(environment, 10, Token(5, 1, 0))
    with pytest.raises(FencedStateError) as caught:
        environment.write_pending(Token(4, 2, 0), state, {"counts": [(b"k", b"v")]})
    assert caught.value.fix == "stop this instance"
    environment.write_pending(Token(5, 2, 0), state, {"counts": [(b"k", b"v")]})
    assert environment.snapshot(committed(Token(5, 2, 0), counts=11)).count("counts") == 11
    environment.close(clean=True)
