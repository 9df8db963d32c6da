"""mustela bench: a topology is measured, and what is measured is what went through it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.console import ExitCode
from mustela.cli.main import main

PROGRAM = """
from mustela import App
app = App("benched")
@app.topology
def build(builder):
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split, value=str, name="words")
    counted = words.group_by(lambda _key, word: word, key=str, name="by-word").count(store="counts")
    counted.to_stream().to("counts")

def sample(count):
    for number in range(count):
        yield "lines", "k", f"a {number % 2}"

def wrong(count):
    yield from range(count)
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that counts words."""
    (tmp_path / "benched_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "benched_program:app"


def measured(capsys: pytest.CaptureFixture[str], *typed: str) -> Any:
    """Return what the command prints as JSON."""
    assert main(["bench", *typed, "--json"]) == ExitCode.OK
    return json.loads(capsys.readouterr().out)


def test_records_of_a_function_are_measured_by_step(
    app: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What went through each, and which share of the processor time it took."""
    typed = (app, "--records", "benched_program:sample", "-n", "300", "--epoch", "100")
    found = measured(capsys, *typed)
    assert (found["records"], found["epochs"], found["bytes_in"]) == (300, 3, 300 * 4)
    steps = {step["step"]: step for step in found["steps"]}
    assert (steps["words"]["in"], steps["words"]["out"]) == (300, 600)
    assert found["bytes_out"] == 3 * 3 * (1 + 8)  # three keys in each of three epochs
    assert found["bytes_for_changelogs"] > 0
    assert found["records_per_second"] > 0
    assert 0 < sum(step["share"] for step in found["steps"]) <= 1
    assert "the broker" in found["note"]
    assert main(["bench", *typed]) == ExitCode.OK
    told = capsys.readouterr().out
    assert told.startswith("300 records in 3 epochs: ")
    assert "not measured: the broker and its network" in told


def test_records_of_a_file_are_those_that_tail_prints(
    app: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without a topic they are of the only one that the program reads; --count cuts them off."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"value": "a b"}\n\n{"topic": "lines", "key": "k", "value": "c"}\n' * 2)
    assert measured(capsys, app, "--file", str(lines))["records"] == 4
    assert measured(capsys, app, "--file", str(lines), "-n", "3")["records"] == 3


def test_what_cannot_be_measured_is_refused_and_the_fixes_help(
    app: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each says what to write, and that is enough."""
    bad, empty = tmp_path / "bad.jsonl", tmp_path / "empty.jsonl"
    bad.write_text("{}")
    empty.write_text("")
    for typed, told in {
        (): "no records were named",
        ("--records", "a:b", "--file", "c"): "in several ways",
        ("--records", "benched_program:none"): "there is no function",
        ("--records", "benched_program:wrong"): "gave 0",
        ("--file", "nowhere"): "there is no file nowhere",
        ("--file", str(bad)): "line 1 is no record: {}",
        ("--file", str(empty)): "no records to process",
    }.items():
        assert main(["bench", app, *typed]) == ExitCode.USAGE, typed
        seen = capsys.readouterr().err
        assert told in seen
        assert "BENCH_INPUT" in seen
    bad.write_text('{"topic": "lines", "key": "k", "value": "v"}')
    assert measured(capsys, app, "--file", str(bad))["records"] == 1
    assert measured(capsys, app, "--records", "benched_program:sample", "-n", "5")["records"] == 5
