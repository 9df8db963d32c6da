"""What the errors of settings advise, followed to the letter: it helps."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mustela.config import clients
from mustela.config.settings import Settings, setting_keys
from tests.following import Followed, caused_by, each_of, namespace


def run(program: str) -> None:
    """Run a program that says ``yaml``, ``environ`` and ``code``; load what they say."""
    names: dict[str, Any] = {**namespace(), "yaml": "", "environ": {}, "code": {}}
    with tempfile.TemporaryDirectory() as folder:
        names["folder"] = Path(folder)
        names["id"] = {"application_id": "app"}
        exec(compile(program, "settings.py", "exec", dont_inherit=True), names)
        (Path(folder) / "mustela.yaml").write_text(names["yaml"], encoding="utf-8")
        given = {**names["id"], **names["code"]}
        environ = {"HOME": folder, **names["environ"]}
        Settings.load(given, environ=environ, directory=Path(folder))


@pytest.mark.parametrize("case", each_of(Path(__file__).parent))
def test_the_fix_of_a_setting_that_cannot_be_helps(case: Followed) -> None:
    """Word for word: the wrong settings say it, the right ones do it and are loaded."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - told apart by its code
        run(case.wrong)
    error = caused_by(caught.value, case.code)
    assert error is not None, caught.value
    assert error.fix == case.fix
    run(case.right)


def test_every_property_that_is_named_in_place_of_a_java_one_can_be_set() -> None:
    """A property of the Java client is refused with what to use instead, which is known."""
    said: dict[str, str] = {p: fix for p, fix in vars(clients)["_JAVA"].items() if "use " in fix}
    assert len(said) > 20
    keys = setting_keys()
    for fix in said.values():
        for word in re.findall(r"[a-z]+[._][\w.…]+", fix):
            used = word.rstrip(".")
            if used not in keys and "…" not in used:
                clients.check_client_property(used, "here")
