"""The command line's frame: exit codes, errors as text, and what a quick command imports."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela.cli import main as entry
from mustela.cli.console import ExitCode, exit_code_of, print_json, table_text
from mustela.cli.main import main
from mustela.errors import DataError, EnvironmentFault, InvariantError, UsageError
from mustela.runtime.coordinator import FencedError
from mustela.runtime.engine import JobInterruptedError

HEAVY = {"pyspark", "confluent_kafka", "lmdb", "pydantic", "pandas", "pyarrow"}
APP = """
from mustela import App

app = App("sample", bootstrap_servers="127.0.0.1:1", lanes=3, kafka={"sasl.password": "hunter2"})
other = 3


@app.topology
def build(builder):
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by_key().count(store="counts").to_stream().to("counts", key=str, value=int)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with an application, and nothing else in the environment."""
    for name in list(os.environ):
        if name.startswith("MUSTELA"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sampleapp.py").write_text(APP)
    yield tmp_path
    sys.modules.pop("sampleapp", None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), ExitCode.USAGE),
        (DataError("x"), ExitCode.FAULT),
        (InvariantError("x"), ExitCode.FAULT),
        (EnvironmentFault("x"), ExitCode.ENVIRONMENT),
        (FencedError("x"), ExitCode.FENCED),
        (JobInterruptedError("x"), ExitCode.UNFINISHED),
        (pickle.loads(pickle.dumps(FencedError("x"))), ExitCode.FENCED),
        (ValueError("x"), ExitCode.FAULT),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_an_error_has_an_exit_code(error: BaseException, code: ExitCode) -> None:
    """Whoever restarts applications tells a fenced one from all others."""
    assert exit_code_of(error) is code


def test_exit_codes_differ() -> None:
    """The code of a fenced application is its own."""
    assert len({int(code) for code in ExitCode}) == len(ExitCode)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], []])
def test_help_is_quick(arguments: list[str]) -> None:
    """Help imports neither Spark nor the Kafka client, nor anything else that is dear."""
    code = (
        "import sys; from mustela.cli.main import main; code = main(sys.argv[1:])\n"
        "print('modules', *sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.partition("\nmodules ")[2].split())
    assert "mustela.cli.main" in modules
    assert modules.isdisjoint(HEAVY)


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It says what may have been meant."""
    assert main(["descrive"]) == ExitCode.USAGE
    assert "describe" in capsys.readouterr().err


def test_an_error_is_printed_as_its_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """First line, fix and code; no stack."""
    assert main(["describe", "sampleap:app"]) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.err.startswith("error: there is no module 'sampleap'\n")
    assert "did you mean sampleapp?" in printed.err
    assert "APP_NOT_FOUND" in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("place", [0, 2])
def test_debug_shows_the_stack(here: Path, capsys: pytest.CaptureFixture[str], place: int) -> None:
    """Before or behind the command."""
    arguments = ["describe", "sampleap:app"]
    arguments.insert(place, "--debug")
    assert main(arguments) == ExitCode.USAGE
    assert "Traceback" in capsys.readouterr().err


def test_debug_behind_two_dashes_is_an_argument() -> None:
    """What stands there is the command's own."""
    assert entry._without_debug(["send", "t", "--", "--debug"]) == (
        ["send", "t", "--", "--debug"],
        False,
    )
    assert entry._without_debug(["--debug", "a", "--debug"]) == (["a"], True)


def test_an_error_of_no_kind_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug ends as text and a code, too."""

    def broken(_given: list[str]) -> int:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(entry, "_command", broken)
    assert main(["describe"]) == ExitCode.FAULT
    assert capsys.readouterr().err == ("error: ZeroDivisionError: by zero; --debug shows where\n")


def test_describe_prints_the_topology(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Kafka Streams would print it."""
    assert main(["describe", "sampleapp:app"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert out.startswith("Topologies:\n   Sub-topology: 0\n    Source: lines (topics: [lines])\n")


def test_describe_prints_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document with every node."""
    assert main(["describe", "sampleapp", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["application_id"] == "sample"
    kinds = {node["kind"] for node in found["nodes"]}
    assert {"Source", "Aggregate", "Sink"} <= kinds
    assert [node["topics"] for node in found["nodes"] if node["kind"] == "Source"] == [["lines"]]
    assert "sampleapp.py:10" in found["nodes"][0]["at"]


def test_explain_prints_the_plan(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stages in text and in JSON."""
    assert main(["explain", "sampleapp:app"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("Stage 0: reads topics\n")
    assert main(["explain", "sampleapp:app", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert [stage["stage"] for stage in found["stages"]] == [0, 1]
    assert found["stages"][1]["stores"] == ["counts"]


def test_settings_are_shown_with_their_sources(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the program, the file, the environment and the defaults; a secret is masked."""
    (here / "mustela.yaml").write_text("commit_interval: 250ms\n")
    monkeypatch.setenv("MUSTELA__EPOCH__MAX_RECORDS", "9")
    assert main(["config", "show", "sampleapp:app", "--json"]) == ExitCode.OK
    text = capsys.readouterr().out
    found = json.loads(text)
    assert found["lanes"] == {"value": 3, "source": "code"}
    assert found["commit_interval"] == {"value": "250ms", "source": "mustela.yaml:1"}
    assert found["epoch.max_records"]["source"] == "environment MUSTELA__EPOCH__MAX_RECORDS"
    assert found["emit"] == {"value": "barrier", "source": "default"}
    assert found["kafka.sasl.password"]["value"] == "******"
    assert "hunter2" not in text


def test_settings_are_shown_without_an_application(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table, although nobody gave an application_id."""
    assert main(["config", "show"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["setting", "value", "source"]
    assert any(line.split() == ["lanes", "None", "default"] for line in lines)


def test_the_reference_of_settings_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The same text as the page in the documentation."""
    assert main(["config", "reference"]) == ExitCode.OK
    assert "| `commit_interval` |" in capsys.readouterr().out


def test_a_bad_assignment_is_a_usage_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing starts."""
    assert main(["run", "sampleapp:app", "--set", "lanes"]) == ExitCode.USAGE
    assert "CLI_ASSIGNMENT" in capsys.readouterr().err
    assert main(["run", "sampleapp:app", "--set", "lanse=3"]) == ExitCode.USAGE
    assert "did you mean 'lanes'?" in capsys.readouterr().err


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Paths, bytes and line ends do not break it."""
    print_json({"path": Path("/a b"), "data": b"\xff\n", "set": {2, 1}, "text": "ä\nb"})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {
        "path": "/a b",
        "data": "\\xff\n",
        "set": [1, 2],
        "text": "ä\nb",
    }


def test_a_table_without_rows_is_its_head() -> None:
    """No row is no error."""
    assert table_text(["a", "b"], []) == "a  b"


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    """``mustela config reference | head -1`` ends in peace."""
    command = f"{sys.executable} -m mustela.cli.main config reference | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "# Settings\n"


@pytest.mark.slow
def test_output_survives_any_locale(here: Path) -> None:
    """What the terminal cannot show is printed as an escape."""
    (here / "umlaut.py").write_text(APP.replace("counts", "zählung"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mustela.cli.main", "describe", "umlaut:app"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, ExitCode.USAGE), done.stderr
    assert "UnicodeEncodeError" not in done.stderr


@pytest.mark.slow
def test_it_runs_as_a_module_too(tmp_path: Path) -> None:
    """Where pip's directory of scripts is not on the path."""
    command = [sys.executable, "-m", "mustela", "describe", "nothing:app"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE
    assert "nothing" in done.stderr
