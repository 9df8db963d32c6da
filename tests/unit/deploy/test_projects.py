"""mustela new: what it writes can be read by those it is for, and its tests pass."""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

import mustela
from mustela.cli.main import main
from mustela.deploy import projects
from mustela.deploy.errors import DeploymentError
from mustela.deploy.projects import CopierMissingError, update_project, write_project


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this release, which tests only look at."""
    directory = tmp_path_factory.mktemp("new") / "corner-shop"
    write_project(directory)
    return directory


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_nothing_of_the_template_is_left(made: Path) -> None:
    """Each file has the project's name in the place of marks, and Python compiles."""
    for path in made.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            text = path.read_text(encoding="utf-8")
            if path.parent.name != "deploy":  # Grafana and Prometheus have marks of their own
                assert "{{" not in text.replace("${{", ""), path
            assert ".jinja" not in path.name
    assert (made / "corner_shop" / "app.py").is_file()
    assert compileall.compile_dir(str(made), quiet=2)
    project = tomllib.loads((made / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "corner-shop"
    assert project["dependencies"] == [f"mustela>={mustela.__version__}"]


def test_its_settings_and_manifests_are_valid(made: Path) -> None:
    """YAML that Compose, GitHub and Kubernetes read; Mustela knows each setting."""
    for name in ("compose.yaml", ".github/workflows/ci.yaml", "mustela.yaml"):
        assert yaml.safe_load((made / name).read_text(encoding="utf-8")), name
    text = (made / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    for document in yaml.safe_load_all(text):
        kubernetes_validate.validate(document, "1.31", strict=True)
        assert document["metadata"]["name"] == "corner-shop"
    assert json.loads((made / "deploy" / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    assert yaml.safe_load((made / "deploy" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]


@pytest.mark.slow
def test_its_first_tests_pass_and_its_commands_know_it(made: Path) -> None:
    """As the README of the project says, from its directory."""
    tests = run(made, sys.executable, "-m", "pytest", "-q", "tests/test_topology.py")
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "2 passed" in tests.stdout
    described = run(
        made, sys.executable, "-m", "mustela.cli.main", "describe", "corner_shop.app:app"
    )
    assert "Source: corner-shop-orders" in described.stdout, described.stderr
    image = ("k8s", "corner_shop.app:app", "--image", "corner-shop:0.1.0")
    servers = ("--set", "bootstrap.servers=kafka:9092")
    printed = run(made, sys.executable, "-m", "mustela.cli.main", *image, *servers)
    again = list(yaml.safe_load_all(printed.stdout))
    assert [one["kind"] for one in again] == ["Service", "StatefulSet"], printed.stderr


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    """Another one can be named."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "kept").write_text("mine", encoding="utf-8")
    with pytest.raises(DeploymentError, match="not empty"):
        write_project(tmp_path / "shop")
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["Shop", "2shop", "shop_eu", "json", "class", "mustela"])
def test_a_name_that_cannot_be_a_package_is_refused(name: str, tmp_path: Path) -> None:
    """Nor one of a module that is there already; the directory is not made."""
    with pytest.raises(DeploymentError, match="cannot be called"):
        write_project(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_release_renews_what_people_do_not_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Package, tests, README and settings are theirs."""
    project = tmp_path / "shop-of-old"
    assert main(["new", str(project), "--json"]) == 0
    assert "shop_of_old/app.py" in json.loads(capsys.readouterr().out)["written"]
    (project / "shop_of_old" / "app.py").write_text("mine = 1\n", encoding="utf-8")
    (project / "Dockerfile").write_text("FROM old\n", encoding="utf-8")
    assert update_project(project) == ["Dockerfile"]
    assert (project / "shop_of_old" / "app.py").read_text(encoding="utf-8") == "mine = 1\n"
    with pytest.raises(DeploymentError, match="not made by mustela new"):
        update_project(tmp_path)


def test_without_copier_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra: an application that runs does not need it."""
    found = projects.find_spec
    monkeypatch.setattr(projects, "find_spec", lambda n: None if n == "copier" else found(n))
    with pytest.raises(CopierMissingError, match=r"mustela\[new\]"):
        write_project(tmp_path / "corner-shop")
    monkeypatch.undo()
    assert write_project(tmp_path / "corner-shop")
