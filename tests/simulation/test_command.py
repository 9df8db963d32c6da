"""The command line of the simulator."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import main


@pytest.mark.parametrize(
    ("option", "one_of_them"),
    [("--kinds", "truncate"), ("--program", "histogram"), ("--bugs", "the-group-is-not-told")],
)
def test_a_name_that_nothing_has_is_refused_with_those_that_there_are(
    option: str, one_of_them: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown kind was never drawn and an unknown program never played, without a word."""
    with pytest.raises(SystemExit) as ended:
        main(["--seeds", "1", option, "nope"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "nope" in said
    assert one_of_them in said
