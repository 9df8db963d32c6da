"""The command line of the long run."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import parse
from tests.faults.kinds.registry import CHECKED


@pytest.mark.parametrize(
    ("option", "one_of_them"),
    [
        ("--fault", "kill-worker"),
        ("--kinds", "word_count"),
        ("--bug", "dead-letters-lost"),
        ("--shock", "cut-active"),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_those_that_there_are(
    option: str, one_of_them: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typing error ends the command with 2 and a list, not with a traceback."""
    with pytest.raises(SystemExit) as ended:
        parse([option, "nope"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "'nope'" in said
    assert one_of_them in said


def test_names_are_taken_as_they_are() -> None:
    """Kinds with commas between them, all by default; faults one by one."""
    given = parse(["--kinds", "word_count,sequence", "--fault", "kill-jvm", "--fault", "kill-app"])
    assert given.kinds == ["word_count", "sequence"]
    assert given.fault == ["kill-jvm", "kill-app"]
    assert parse([]).kinds == list(CHECKED)
