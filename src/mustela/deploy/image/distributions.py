"""What an environment has installed: what of it an application needs, file by file.

Files are taken as they are and held against the sums that the installer wrote down (``RECORD``):
what pip installed with ``--require-hashes`` is what goes in. What an installer leaves that tells of
this machine stays out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mustela.config.sparkjars import is_spare
from mustela.deploy.image.errors import DistributionError, ImageError
from mustela.deploy.image.trees import EXECUTABLE_MODE, FILE_MODE, Entry, Tree

__all__ = ["PREFIX", "Environment", "Installed", "distribution_tree", "environment_tree"]

PREFIX = "opt/mustela"
"""Of the virtual environment in an image."""

_SITE = re.compile(r"python3\.(\d+)")
_JARS = "pyspark/jars/"
_OF_THE_MACHINE = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"}
_SCRIPT = """#!/{prefix}/bin/python
import sys
from {module} import {name}
sys.exit({call}())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A distribution of an environment.

    Attributes:
        name: In its normal form.
        version: Its version.
        distribution: What is installed.
    """

    name: str
    version: str
    distribution: Distribution


class Environment:
    """The distributions that are installed at one place, for one Python.

    Args:
        site: The directory of its packages, ``…/lib/python3.12/site-packages``.

    Raises:
        ImageError: If the directory is none.
    """

    def __init__(self, site: Path) -> None:
        match = _SITE.fullmatch(site.parent.name)
        if not site.is_dir() or match is None:
            msg = f"{site} is no lib/python3.N/site-packages of an environment"
            raise ImageError(msg, fix="name a virtual environment: --environment .venv")
        self.site = site
        self.python = (3, int(match[1]))
        self._known = {_normal(d.name): d for d in distributions(path=[str(site)])}

    @classmethod
    def at(cls, directory: Path) -> Environment:
        """Return the environment of a directory that ``python -m venv`` has made.

        Raises:
            ImageError: If it is none.
        """
        sites = sorted(directory.glob("lib/python3.*/site-packages"))
        return cls(sites[0] if sites else directory)

    def closure(self, requirements: Iterable[str], *, without: str = "") -> list[Installed]:
        """Return what some requirements need, and what that needs in turn, by name.

        Args:
            requirements: As a project writes them: ``mustela[avro]>=0.1``.
            without: A name that is left out: the application itself.

        Raises:
            DistributionError: If something is not installed.
            ImageError: If ``mustela[image]`` is not installed.
        """
        if find_spec("packaging") is None:
            msg = "packaging, which reads what distributions need, is not installed"
            raise ImageError(msg, fix="pip install 'mustela[image]'")
        from packaging.markers import default_environment
        from packaging.requirements import InvalidRequirement, Requirement

        version = f"{self.python[0]}.{self.python[1]}"
        machine: dict[str, Any] = {**default_environment(), "python_version": version}
        waiting = [(text, "what the image is to have", "") for text in requirements]
        seen: set[tuple[str, str]] = set()
        found: dict[str, Installed] = {}
        while waiting:
            text, by, extra = waiting.pop()
            try:
                wanted = Requirement(text)
            except InvalidRequirement as error:
                msg = f"{by} needs {text!r}, which is no requirement"
                raise DistributionError(msg, fix="correct it: mustela[avro]>=0.1") from error
            name = _normal(wanted.name)
            applies = wanted.marker is None or wanted.marker.evaluate({**machine, "extra": extra})
            if name == _normal(without) or not applies:
                continue
            held = self._known.get(name)
            if held is None or not wanted.specifier.contains(held.version, prereleases=True):
                raise _not_installed(text, by, held, self.site)
            found[name] = Installed(name=name, version=held.version, distribution=held)
            for one in ("", *wanted.extras):
                if (name, one) not in seen:
                    seen.add((name, one))
                    waiting += [(need, name, one) for need in held.requires or ()]
        return [found[name] for name in sorted(found)]


def _not_installed(text: str, by: str, held: Distribution | None, site: Path) -> DistributionError:
    is_there = "it is not installed" if held is None else f"{held.version} is installed"
    msg = f"{by} needs {text.partition(';')[0].strip()}, but {is_there}"
    fix = "pip install it there, or name another environment: --environment .venv"
    return DistributionError(msg, evidence={"looked in": site}, fix=fix)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def environment_tree(python: str, version: tuple[int, int]) -> Tree:
    """Return a virtual environment without any distribution.

    Args:
        python: The Python of the image that it is for, such as ``/usr/bin/python3.11``.
        version: Its version.
    """
    home = python.rpartition("/")[0]
    tree = Tree()
    settings = f"home = {home}\ninclude-system-site-packages = false\n"
    tree.file(f"{PREFIX}/pyvenv.cfg", f"{settings}version = {version[0]}.{version[1]}\n")
    tree.link(f"{PREFIX}/bin/python", python)
    tree.link(f"{PREFIX}/bin/python3", "python")
    return tree


def _is_spare(path: str) -> bool:
    return path.startswith(_JARS) and is_spare(path.removeprefix(_JARS))


def distribution_tree(
    installed: Installed, python: tuple[int, int], *, all_jars: bool = True
) -> Tree:
    """Return a distribution as it is in an image.

    Args:
        installed: The distribution.
        python: The version of the image's Python.
        all_jars: Whether those of Spark's jars go in that no application loads.

    Raises:
        DistributionError: If a file differs from what was installed.
    """
    site = f"{PREFIX}/lib/python{python[0]}.{python[1]}/site-packages"
    files = _editable_files if _is_editable(installed) else _recorded_files
    entries = [one for one in files(installed) if all_jars or not _is_spare(one[0])]
    tree = Tree(
        Entry(path=_place(path, site), content=content, mode=_mode(content))
        for path, content in entries
    )
    info = f"{installed.name.replace('-', '_')}-{installed.version}.dist-info"
    for path, _ in entries:
        if path.endswith(".dist-info/METADATA"):
            info = path.rpartition("/")[0]
    rows = sorted(_row(path, content) for path, content in entries)
    tree.file(f"{site}/{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")
    tree.file(f"{site}/{info}/INSTALLER", "mustela\n")
    for name, text in _scripts(installed.distribution):
        tree.file(f"{PREFIX}/bin/{name}", text, EXECUTABLE_MODE)
    return tree


def _place(path: str, site: str) -> str:
    above = "../../../"
    return f"{PREFIX}/{path.removeprefix(above)}" if path.startswith(above) else f"{site}/{path}"


def _mode(content: Path | bytes) -> int:
    can_run = isinstance(content, Path) and content.stat().st_mode & 0o100
    return EXECUTABLE_MODE if can_run else FILE_MODE


def _row(path: str, content: Path | bytes) -> str:
    data = content.read_bytes() if isinstance(content, Path) else content
    return f"{path},sha256={_sum(data)},{len(data)}\n"


def _sum(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _recorded_files(installed: Installed) -> Iterator[tuple[str, Path | bytes]]:
    files = installed.distribution.files
    if not files:
        msg = f"{installed.name} {installed.version} has no list of its files"
        raise DistributionError(msg, fix=_again(installed))
    for file in files:
        path = str(file)
        of_info = path.split("/", 1)[0].endswith(".dist-info")
        if path.endswith(".pyc") or path.startswith(("../../../bin/", "/")):
            continue  # scripts carry the path of this machine's Python: they are made anew
        if of_info and file.name in _OF_THE_MACHINE:
            continue
        place = Path(str(file.locate()))
        if not place.is_file() or file.hash is None or _sum(place.read_bytes()) != file.hash.value:
            msg = f"{path} of {installed.name} {installed.version} is not what was installed"
            raise DistributionError(msg, evidence={"file": place}, fix=_again(installed))
        yield path, place


def _again(installed: Installed) -> str:
    return f"pip install --force-reinstall --no-deps {installed.name}=={installed.version}"


def _is_editable(installed: Installed) -> bool:
    text = installed.distribution.read_text("direct_url.json")
    return bool(text) and bool(json.loads(text).get("dir_info", {}).get("editable"))


def _editable_files(installed: Installed) -> Iterator[tuple[str, Path | bytes]]:
    """Yield the files of a package that is used from where it is written."""
    distribution = installed.distribution
    package = installed.name.replace("-", "_")
    for path_file in (file for file in distribution.files or () if file.suffix == ".pth"):
        for line in Path(str(path_file.locate())).read_text(encoding="utf-8").splitlines():
            source = Path(line) / package
            if source.is_dir():
                yield from _source_files(source)
                info = f"{package}-{installed.version}.dist-info"
                for name in ("METADATA", "entry_points.txt"):
                    if text := distribution.read_text(name):
                        yield f"{info}/{name}", text.encode()
                return
    msg = f"{installed.name} is installed as editable, and where {package} is cannot be seen"
    raise DistributionError(msg, fix="pip install it without -e")


def _source_files(source: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(source.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc":
            yield str(file.relative_to(source.parent)), file


def _scripts(distribution: Distribution) -> Iterator[tuple[str, str]]:
    points = ConfigParser(delimiters=("=",), interpolation=None)
    points.optionxform = str  # type: ignore[assignment,method-assign]
    points.read_string(distribution.read_text("entry_points.txt") or "")
    if not points.has_section("console_scripts"):
        return
    for name, target in points.items("console_scripts"):
        module, _, call = target.partition("[")[0].strip().partition(":")
        first = call.split(".", 1)[0]
        yield name, _SCRIPT.format(prefix=PREFIX, module=module, name=first, call=call)
