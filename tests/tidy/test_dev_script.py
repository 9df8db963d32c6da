"""The script behind every command of a developer."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.tidy.conftest import ROOT


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "dev", *arguments], capture_output=True, text=True, check=False, cwd="/"
    )


def call_function(directory: Path, call: str) -> int:
    """Run one function of the script, without the commands at its end."""
    functions = (ROOT / "dev").read_text(encoding="utf-8").split("\ncommand=")[0]
    script = directory / "functions"
    script.write_text(f"{functions}\n{call}\n", encoding="utf-8")
    return subprocess.run(["bash", script], capture_output=True, check=False).returncode


def java_home(directory: Path, version: str, *tools: str) -> Path:
    home = directory / f"a jvm {version}"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="utf-8")
    for tool in tools:
        (home / "bin" / tool).touch(mode=0o755)
    return home


def test_help_names_every_command() -> None:
    """``./dev help`` and the commands that the script knows are the same list."""
    script = (ROOT / "dev").read_text(encoding="utf-8")
    known = set(re.findall(r"^    ([a-z-]+)\) need", script, flags=re.MULTILINE))
    told = set(re.findall(r"^  \./dev ([a-z-]+)", dev("help").stdout, flags=re.MULTILINE))
    assert known == told
    assert {"demo", "test", "check", "bench", "faults", "docs"} <= known


def test_an_unknown_command_is_refused() -> None:
    """A slip of the finger ends with status 1 and a hint, and changes nothing."""
    done = dev("tset")
    assert done.returncode == 1
    assert "unknown command 'tset'" in done.stderr


@pytest.mark.parametrize(
    ("version", "fit"),
    [("17", True), ("17.0.15", True), ("21.0.4", True), ("1.8.0_392", False), ("25.0.1", False)],
)
def test_only_java_17_and_21_will_do(tmp_path: Path, version: str, fit: bool) -> None:
    """Spark 4.2 runs on Java 17 and 21, and not on 25."""
    home = java_home(tmp_path, version, "java")
    assert (call_function(tmp_path, f"java_is_fit '{home}' java") == 0) is fit


def test_a_runtime_is_no_compiler(tmp_path: Path) -> None:
    """The benchmarks compile a peer: there a Java without javac does not do."""
    home = java_home(tmp_path, "17.0.15", "java")
    assert call_function(tmp_path, f"java_is_fit '{home}' java") == 0
    assert call_function(tmp_path, f"java_is_fit '{home}' javac") != 0


def test_ci_runs_the_commands_a_developer_runs() -> None:
    """Whoever passes ``./dev check`` and ``./dev test`` passes continuous integration."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^\./dev (\w+)", script, flags=re.MULTILINE) == ["check", "test"]


@pytest.mark.parametrize("lane", ["read_code", "quick_tests"])
def test_a_check_fails_with_either_of_its_lanes(tmp_path: Path, lane: str) -> None:
    """What runs beside the tests is not lost, nor is what it says."""
    passing = "read_code() { :; }; quick_tests() { :; }"
    failing = f'{lane}() {{ step "a certain step" bash -c "echo reason; exit 3"; }}'
    assert call_function(tmp_path, f"{passing}; check") == 0
    assert call_function(tmp_path, f"{passing}; {failing}; check") != 0
