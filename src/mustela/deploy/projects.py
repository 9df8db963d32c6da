"""A project to begin with: a topology, its tests, and what it takes to run it elsewhere."""

from __future__ import annotations

import keyword
import re
import shutil
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from mustela.config.settings import Settings
from mustela.deploy.errors import DeploymentError
from mustela.deploy.manifests import Deployment, manifests, text_of

__all__ = ["CopierMissingError", "update_project", "write_project"]

TEMPLATE = Path(__file__).parent / "template"
MONITORING = TEMPLATE.parents[1] / "admin" / "monitoring"
"""A dashboard for Grafana and alert rules for Prometheus."""

MARK = ".mustela-project.yaml"
MANIFESTS = "deploy/kubernetes.yaml"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OF_THE_USER = ["/{{package}}/**", "/tests/**", "/README.md", "/mustela.yaml", "/pyproject.toml"]


class CopierMissingError(DeploymentError):
    """The library that writes projects is not installed."""

    code = "DEPLOYMENT_COPIER"


def write_project(directory: Path, name: str | None = None) -> list[str]:
    """Write a new project.

    Args:
        directory: Where it is written; made if it is missing, otherwise empty.
        name: Of the project and of its application; by default that of the directory.

    Returns:
        The files that were written, from the directory.

    Raises:
        DeploymentError: If the directory holds something, or the name is none.
        CopierMissingError: If ``mustela[new]`` is not installed.
    """
    if directory.exists() and any(directory.iterdir()):
        msg = f"{directory} is not empty"
        raise DeploymentError(msg, fix="name a new directory, or pass --update for a project")
    return _write(directory, _checked(name or directory.absolute().name), keep=False)


def update_project(directory: Path) -> list[str]:
    """Write again what a project has from this release; what its people write stays as it is.

    Returns:
        The files that were written, from the directory.

    Raises:
        DeploymentError: If the directory is no project that `write_project` has written.
        CopierMissingError: If ``mustela[new]`` is not installed.
    """
    mark = directory / MARK
    if not mark.is_file():
        msg = f"{directory} has no {MARK}: it was not made by mustela new"
        raise DeploymentError(msg, fix="name the project's directory, or leave out --update")
    name = yaml.safe_load(mark.read_text(encoding="utf-8"))["name"]
    return _write(directory, _checked(name), keep=True)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or find_spec(name.replace("-", "_")):
        msg = f"a project cannot be called {name!r}"
        why = "its package is imported by that name, and Kafka and Kubernetes know it"
        fix = (
            "use lower-case letters, digits and -, and no name of an installed module: --name shop"
        )
        raise DeploymentError(msg, why=why, fix=fix)
    return name


def _write(directory: Path, name: str, *, keep: bool) -> list[str]:
    if find_spec("copier") is None:
        msg = "copier, which writes projects, is not installed"
        raise CopierMissingError(msg, fix="pip install 'mustela[new]'")
    from copier import run_copy

    before = _contents(directory)
    data = {"name": name, "release": version_of("mustela")}
    kept = _OF_THE_USER if keep else []
    run_copy(
        str(TEMPLATE),
        directory,
        data=data,
        defaults=True,
        overwrite=True,
        quiet=True,
        skip_if_exists=kept,
    )
    place = directory / MANIFESTS
    place.parent.mkdir(exist_ok=True)
    place.write_text(_manifests(name), encoding="utf-8")
    for found in sorted(MONITORING.iterdir()):
        shutil.copyfile(found, place.parent / found.name)
    after = _contents(directory)
    return sorted(path for path, text in after.items() if before.get(path) != text)


def _manifests(name: str) -> str:
    # What this machine's environment and files say is no part of the project.
    settings = Settings.load(
        {"application_id": name, "bootstrap_servers": "kafka:9092"}, environ={}, directory=TEMPLATE
    )
    target = f"{name.replace('-', '_')}.app:app"
    deployment = Deployment(target=target, image=f"{name}:0.1.0")
    return text_of(manifests(_Named(settings), deployment))


class _Named:
    """An application that is not there yet."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings


def _contents(directory: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not {".git", ".venv", "__pycache__"} & set(path.parts)
    }
