"""What the demonstration shows."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mustela_dev.demo.report import DemoOutcome, Screen, State, next_lines, outcome_fields

OUTCOME = DemoOutcome(
    lines=10,
    words=20,
    distinct=5,
    mismatches=0,
    missing=0,
    duplicates=0,
    torn_epochs=0,
    seconds=2.0,
    lines_per_s=5.0,
    epochs=4,
    kills=3,
    replayed_epochs=2,
)


def test_the_outcome_has_the_promised_fields() -> None:
    """What other programs read from ``--json``."""
    assert " ".join(outcome_fields(OUTCOME)) == (
        "lines words distinct mismatches missing duplicates torn_epochs seconds lines_per_s "
        "epochs kills replayed_epochs"
    )


@pytest.mark.parametrize("quiet", [True, False])
def test_faults_are_shown_to_everybody(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error where a program reads standard output."""
    screen = Screen(quiet=quiet)
    screen.program("x = 1\n", "mustela run x:app")
    screen.words([("[bold]", 3), ("tab\there", 2), ("x", 1)])
    screen.outcome(OUTCOME, ["line 3 is twice in the side stream"], 0.5)
    printed = capsys.readouterr()
    shown = printed.err if quiet else printed.out
    assert "FAULT  line 3 is twice in the side stream" in shown
    assert "all checks passed" not in shown
    assert (printed.out == "") == quiet
    assert ("[bold]" in shown) != quiet
    assert ("killed 3 times" in shown) != quiet


def test_progress_without_a_terminal_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The last state is always printed, another only now and then."""
    screen = Screen(quiet=False)
    state = State(lines=1500, total=3000, words=7, epochs=2, lag=5, lanes=2, kills=1)
    with screen:
        for _ in range(5):
            screen.update(state)
        screen.update(state, last=True)
    out = capsys.readouterr().out.splitlines()
    line = "lines 1,500 of 3,000  words 7  epochs 2  lag 5  lanes 2  kills 1"
    assert out == [line, line]


def test_progress_on_a_terminal_fits_into_80_columns() -> None:
    """A bar, and a line with all the numbers; nothing is cut off."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None)
    screen = Screen(quiet=False, console=console)
    state = State(lines=599_999, total=600_000, words=1_993_972, epochs=69, lag=5, lanes=2, kills=3)
    with screen:
        screen.update(state, last=True)
    assert state.text() in " ".join(file.getvalue().split("\n")).replace("   ", "  ")


def test_the_next_lines_can_be_typed() -> None:
    """Paths with a blank are quoted."""
    lines = next_lines(
        "mustela",
        home=Path("/tmp/a b/app"),
        scratch=Path("/tmp/a b"),
        application_id="wordcount",
    )
    assert lines[0] == "cd '/tmp/a b/app'"
    assert "mustela kafka-consumer-groups --describe --group wordcount" in lines
    assert lines[-1] == "mustela demo --stop '/tmp/a b'"
