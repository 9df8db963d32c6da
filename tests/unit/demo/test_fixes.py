"""What the errors of the demonstration advise, followed to the letter: it helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mustela_dev.broker.child import ProcessMark
from mustela_dev.demo import command, stage
from mustela_dev.demo.command import TooFewLinesError
from mustela_dev.demo.corpus import InputMissingError, read_corpus, standard_library
from mustela_dev.demo.kept import NotKeptError, stop_kept, write_kept
from tests.unit.cli.test_fixes import refused

pytestmark = pytest.mark.slow


def test_a_demonstration_of_enough_lines_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """DEMO_TOO_FEW_LINES names how many are enough."""
    ran: list[int] = []

    def run_demo(options: Any) -> tuple[Any, list[str]]:
        ran.append(options.lines)
        raise TooFewLinesError("stop here")

    monkeypatch.setattr(stage, "run_demo", run_demo)
    fix = refused(TooFewLinesError, command.demo, lines=1)
    refused(TooFewLinesError, command.demo, lines=int(fix.removeprefix("use at least ")))
    assert ran == [command.LINES_MIN]


def test_the_standard_library_as_source_is_input_enough(tmp_path: Path) -> None:
    """DEMO_INPUT_MISSING: that is what an installed Python has."""
    fix = refused(InputMissingError, read_corpus, 10, partitions=1, root=tmp_path)
    assert fix == "install Python with its standard library as source"
    assert read_corpus(10, partitions=1, root=standard_library()).lines


def test_the_directory_of_a_demonstration_is_the_one_to_name(tmp_path: Path) -> None:
    """DEMO_NOT_KEPT: another directory stays; the one that was told goes."""
    (tmp_path / "other").mkdir()
    fix = refused(NotKeptError, stop_kept, tmp_path / "other")
    assert fix == "name the directory that mustela demo --keep printed"
    kept = tmp_path / "mustela-demo-x"
    kept.mkdir()
    write_kept(kept, ProcessMark(pid=2**22 + 1, started=1, boot="another"))
    stop_kept(kept)
    assert not kept.exists()
