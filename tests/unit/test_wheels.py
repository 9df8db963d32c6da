"""The two wheels: what each holds, and that the library is whole without mustela-dev."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import mustela
from mustela.cli.console import ExitCode
from mustela.cli.development import broker_line
from mustela.compiled import SWITCH

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DEVELOPMENT = ROOT / "packages" / "mustela-dev"
OURS = ("mustela", "_mustela", "__editable__")
TELL = "print(broker_line())"
APP = """
from mustela import App, TopologyTestDriver

app = App("shop")


@app.topology
def build(builder):
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by_key().count(store="counts").to_stream().to("counts")


if __name__ == "__main__":
    with TopologyTestDriver(app) as driver:
        driver.create_input_topic("lines").pipe_key_value_list([("ann", "a"), ("ann", "b")])
        print(driver.create_output_topic("counts").read_key_values_to_list())
"""


@dataclass(frozen=True)
class Environment:
    """An environment of its own, with every dependency and nothing of this tree's."""

    home: Path

    def install(self, wheel: Path) -> None:
        """Install a wheel, without looking for others."""
        uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--no-index"]
        told = ["--no-cache", "--link-mode", "copy", "--python", str(self.home / "bin" / "python")]
        subprocess.run([*uv, *told, str(wheel)], check=True, cwd=self.home)

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, far from the repository."""
        left_out = ("PYTHON", SWITCH)  # the wheel is of Python alone
        names = {
            name: value
            for name, value in os.environ.items()
            if not any(word in name for word in left_out)
        }
        return subprocess.run(
            [self.home / "bin" / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env={**names, "HOME": str(self.home), "COLUMNS": "200"},
        )


def build(project: Path, to: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(to)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = to.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def library_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def development_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(DEVELOPMENT, tmp_path_factory.mktemp("development"))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment with what the library depends on, and without the library."""
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (there,) = home.glob("lib/python*/site-packages")
    for found in Path(sysconfig.get_path("purelib")).iterdir():
        if not found.name.startswith(OURS) and found.suffix != ".pth":
            (there / found.name).symlink_to(found)
    return Environment(home)


def files_of(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return archive.namelist()


def settings(project: Path) -> dict[str, Any]:
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))


def test_each_wheel_holds_its_own_package(library_wheel: Path, development_wheel: Path) -> None:
    """An image of an application carries no broker, no jar sums, no demonstration."""
    library, development = files_of(library_wheel), files_of(development_wheel)
    assert {name.split("/")[0] for name in library} == {
        "mustela",
        "mustela-0.1.0.dist-info",
        "pyspark_mustela",
    }
    assert not [name for name in library if "broker/" in name or "demo" in name or "sets/" in name]
    assert {name.split("/")[0] for name in development} == {
        "mustela_dev",
        "mustela_dev-0.1.0.dist-info",
    }
    for needed in (
        "mustela_dev/broker/sets/kafka.toml",
        "mustela_dev/broker/tools-log4j2.properties",
        "mustela_dev/demo/wordcount.py",
        "mustela_dev/py.typed",
        "mustela_dev-0.1.0.dist-info/licenses/LICENSE",
    ):
        assert needed in development


def test_the_two_have_one_version() -> None:
    """mustela-dev knows the inside of the library, and asks for its very version."""
    library, development = settings(ROOT)["project"], settings(DEVELOPMENT)["project"]
    assert library["version"] == development["version"] == mustela.__version__
    assert f"mustela=={mustela.__version__}" in development["dependencies"]


def test_what_mustela_dev_needs_is_locked() -> None:
    """`./dev lock` reads the library's file alone: what the other one adds stands there too."""
    library = settings(ROOT)
    read = {*library["project"]["dependencies"], *library["dependency-groups"]["dev"]}
    needed = set(settings(DEVELOPMENT)["project"]["dependencies"])
    assert needed - read == {f"mustela=={mustela.__version__}"}


@pytest.mark.slow
def test_the_library_is_whole_without_mustela_dev(
    library_wheel: Path, environment: Environment
) -> None:
    """Programs run and are described; what is not there says which line to type."""
    environment.install(library_wheel)
    (environment.home / "shop.py").write_text(APP, encoding="utf-8")
    assert environment.run("python", "-c", "import mustela_dev").returncode == 1
    done = environment.run("python", "shop.py")
    assert done.stdout == "[('ann', 1), ('ann', 2)]\n", done.stderr
    assert "lines" in environment.run("mustela", "describe", "shop:app").stdout
    told = environment.run("mustela", "--help").stdout
    assert " run " in told
    assert "pip install mustela-dev==0.1.0 adds commands" in " ".join(told.split())
    assert not [line for line in told.splitlines() if line.startswith(("│ broker", "│ demo"))]
    for arguments in (["broker", "start"], ["demo", "--crash"], ["kafka-topics", "--list"]):
        refused = environment.run("mustela", *arguments)
        assert refused.returncode == ExitCode.USAGE
        assert f"mustela {arguments[0]} belongs to mustela-dev" in refused.stderr
        assert "fix: pip install mustela-dev==0.1.0" in " ".join(refused.stderr.split())
    looked = environment.run("mustela", "doctor").stdout
    assert "cannot be looked at" not in looked
    # Not of the doctor's text: at the usual port another test may have its broker.
    told = environment.run("python", "-c", f"from {broker_line.__module__} import *; {TELL}").stdout
    assert told == "pip install mustela-dev==0.1.0 && mustela broker start\n"


@pytest.mark.slow
def test_the_line_that_the_refusal_names_brings_the_commands(
    library_wheel: Path, development_wheel: Path, environment: Environment
) -> None:
    """DEVELOPMENT_TOOLS: once mustela-dev is installed, the library finds its commands."""
    environment.install(library_wheel)
    refused = environment.run("mustela", "broker", "status")
    assert "DEVELOPMENT_TOOLS" in refused.stderr
    environment.install(development_wheel)
    told = environment.run("mustela", "--help").stdout
    listed = {line.split()[1] for line in told.splitlines() if line.startswith("│ ")}
    assert {"broker", "demo", "run"} <= listed
    assert "mustela kafka-topics" in " ".join(told.split())
    assert "adds commands" not in told
    found = environment.run("mustela", "broker", "status")
    assert found.returncode == ExitCode.FAULT, found.stderr  # nobody has started one
    assert "running" in found.stdout
    few = environment.run("mustela", "demo", "--lines", "1")
    assert "DEMO_TOO_FEW_LINES" in few.stderr
    place = environment.run("python", "-c", "import mustela_dev; print(mustela_dev.__file__)")
    assert str(environment.home) in place.stdout


@pytest.mark.slow
def test_a_mustela_dev_of_another_version_is_not_loaded(
    library_wheel: Path, development_wheel: Path, environment: Environment, tmp_path: Path
) -> None:
    """DEVELOPMENT_TOOLS: whoever renewed the library alone is told so; the rest works on."""
    environment.install(library_wheel)
    environment.install(development_wheel)
    (metadata,) = environment.home.glob("lib/python*/site-packages/mustela_dev-*/METADATA")
    text = metadata.read_text(encoding="utf-8")
    metadata.write_text(text.replace("Version: 0.1.0", "Version: 0.0.9", 1), encoding="utf-8")
    refused = environment.run("mustela", "broker", "status")
    assert refused.returncode == ExitCode.USAGE
    assert "which is installed in version 0.0.9" in refused.stderr
    assert environment.run("mustela", "config", "--help").returncode == 0
    assert "pip install mustela-dev==0.1.0" in environment.run("mustela", "doctor").stdout
