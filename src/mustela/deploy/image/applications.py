"""What of a project goes into an image: the modules that can be imported, and its settings.

A list of what is allowed, not of what is forbidden: a file that nobody thought of stays out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

import yaml

from mustela.config.layers import CONFIG_FILE
from mustela.config.masking import is_secret_key, mask_text
from mustela.deploy.image.errors import ImageError, ImageSecretError
from mustela.deploy.image.system import HOME
from mustela.deploy.image.trees import EXECUTABLE_MODE, FILE_MODE, Entry, Tree

__all__ = ["IGNORE_FILE", "Project", "application_tree", "find_project", "settings_keys"]

IGNORE_FILE = ".mustelaignore"

_NO_PROGRAM = {"conftest", "noxfile", "setup", "tasks"}
_NO_PACKAGE = {"build", "dist", "docs", "node_modules", "test", "tests", "venv"}
_NEVER = (
    ".*",
    "__pycache__",
    "*.pyc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.truststore",
    "*.kdbx",
    "*credentials*",
    "id_rsa*",
    "id_ed25519*",
    "secret.*",
    "secrets",
    "secrets.*",
)
"""Names that hold secrets, or nothing that a program needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A program and what it says of itself.

    Attributes:
        directory: Where it is.
        target: ``module:app``.
        name: Of the image.
        version: Of the image.
        requirements: What it needs, as it writes it.
        include: Patterns of further files.
    """

    directory: Path
    target: str
    name: str
    version: str
    requirements: tuple[str, ...]
    include: tuple[str, ...] = ()


def find_project(target: str, *, include: tuple[str, ...] = ()) -> Project:
    """Return the project that is meant; nothing of it is run.

    Args:
        target: ``module:app`` of the working directory, or a directory.
        include: Patterns of files that go in besides its modules and settings.

    Raises:
        ImageError: If there is no such program, or more than one.
    """
    if Path(target).is_dir():
        directory, target = Path(target), ""
    else:
        directory = Path()
    about = _about(directory / "pyproject.toml")
    own = about.get("tool", {}).get("mustela", {}).get("image", {})
    project = about.get("project", {})
    target = target or own.get("target") or _only_target(directory)
    module = target.partition(":")[0]
    if not any(_module_file(root, module) for root in _roots(directory)):
        msg = f"there is no module {module!r} in {directory.absolute()}"
        raise ImageError(
            msg, fix="name it from the project's directory: mustela image shop.app:app"
        )
    return Project(
        directory=directory,
        target=target if ":" in target else f"{target}:app",
        name=project.get("name") or module.split(".", 1)[0].replace("_", "-").lower(),
        version=project.get("version") or "latest",
        requirements=tuple(project.get("dependencies", ["mustela"])),
        include=(*own.get("include", ()), *include),
    )


def _about(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        msg = f"{file} cannot be read: {error}"
        raise ImageError(msg, fix="correct it") from error


def _roots(directory: Path) -> list[Path]:
    source = directory / "src"
    return [directory, source] if source.is_dir() and not _is_package(source) else [directory]


def _is_package(directory: Path) -> bool:
    return (directory / "__init__.py").is_file()


def _is_program(directory: Path) -> bool:
    return directory.name not in _NO_PACKAGE and _is_package(directory)


def _module_file(root: Path, module: str) -> Path | None:
    place = root.joinpath(*module.split("."))
    found = [place.with_suffix(".py"), place / "__init__.py"]
    return next((file for file in found if file.is_file()), None)


def _only_target(directory: Path) -> str:
    found = [
        ".".join(file.relative_to(root).with_suffix("").parts)
        for root in _roots(directory)
        for file in sorted([*root.glob("app.py"), *root.glob("*/app.py")])
        if not set(file.relative_to(root).parts) & _NO_PACKAGE and _wanted(file.relative_to(root))
    ]
    if len(found) != 1:
        what = " and ".join(found) if found else "none"
        msg = f"which application of {directory.absolute()} is meant cannot be seen"
        evidence = {"modules called app": what}
        raise ImageError(msg, evidence=evidence, fix="name it: mustela image shop.app:app")
    return f"{found[0]}:app"


def application_tree(project: Project) -> tuple[Tree, list[str]]:
    """Return the project as it is in an image, and what stays out because of its name.

    Raises:
        ImageSecretError: If its settings hold a secret.
        ImageError: If it includes what is not there.
    """
    tree = Tree([Entry(path=HOME.strip("/"), mode=0o755)])
    left_out: list[str] = []
    ignored = _ignored(project.directory)
    for path, file in _files(project):
        if not _wanted(Path(path)) or _matches(path, ignored):
            left_out.append(path)
            continue
        mode = EXECUTABLE_MODE if file.stat().st_mode & 0o100 else FILE_MODE
        tree.add(Entry(path=f"{HOME.strip('/')}/{path}", content=file.read_bytes(), mode=mode))
    return tree, left_out


def _wanted(path: Path) -> bool:
    return not any(fnmatch(part.lower(), name) for part in path.parts for name in _NEVER)


def _ignored(directory: Path) -> list[str]:
    file = directory / IGNORE_FILE
    if not file.is_file():
        return []
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return [line.rstrip("/") for line in lines if line and not line.startswith("#")]


def _matches(path: str, patterns: list[str]) -> bool:
    parts = path.split("/")
    starts = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return any(fnmatch(one, pattern) for pattern in patterns for one in (*starts, *parts))


def _files(project: Project) -> Iterator[tuple[str, Path]]:
    """Yield what may go in, by the path under the application's directory."""
    own = project.target.partition(":")[0].split(".", 1)[0]
    for root in _roots(project.directory):
        for place in sorted(root.iterdir()):
            if place.is_file() and place.suffix == ".py" and place.stem not in _NO_PROGRAM:
                yield place.name, place
            elif place.is_dir() and (place.name == own or _is_program(place)):
                yield from ((str(file.relative_to(root)), file) for file in _below(place))
    settings = project.directory / CONFIG_FILE
    if settings.is_file():
        _refuse_secrets(settings)
        yield CONFIG_FILE, settings
    for pattern in project.include:
        found = [file for file in sorted(project.directory.glob(pattern)) if file.is_file()]
        if not found:
            msg = f"no file of {project.directory.absolute()} is called {pattern!r}"
            raise ImageError(msg, fix="correct the pattern: --include 'schemas/*.avsc'")
        for file in found:
            yield str(file.relative_to(project.directory)), file


def _below(directory: Path) -> list[Path]:
    found = [file for file in sorted(directory.rglob("*")) if file.is_file()]
    return [file for file in found if "__pycache__" not in file.parts]


def settings_keys(project: Project) -> set[str]:
    """Return the settings that the project's own file has, such as ``log.format``."""
    file = project.directory / CONFIG_FILE
    return {key for key, _ in _flat(_settings(file))} if file.is_file() else set()


def _settings(file: Path) -> object:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        msg = f"{file} cannot be read: {error}"
        raise ImageError(msg, fix="mustela config check says which line is wrong") from error


def _refuse_secrets(file: Path) -> None:
    content = _settings(file)
    keys = [key for key, value in _flat(content) if _is_secret(key, value)]
    if keys:
        variable = f"MUSTELA__{keys[0].replace('.', '__', 1).replace('.', '_').upper()}"
        msg = f"{file} holds a secret, which everybody who has the image could read: {keys[0]}"
        raise ImageSecretError(
            msg,
            evidence={"all of them": ", ".join(keys)},
            fix=f"take it out; give it where the image runs, as {variable}",
        )


def _is_secret(key: str, value: object) -> bool:
    if value in (None, ""):
        return False
    return is_secret_key(key) or (isinstance(value, str) and mask_text(value) != value)


def _flat(content: object, above: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(content, Mapping):
        for key, value in cast("Mapping[object, object]", content).items():
            yield from _flat(value, f"{above}.{key}" if above else str(key))
    else:
        yield above, content
