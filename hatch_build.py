"""Compiles the hot modules with mypyc, for a wheel of one platform or into the tree.

`[tool.mustela.compiled]` in ``pyproject.toml`` lists them; `mustela.compiled` tells when they are
used. As a build hook of hatchling this adds them to a wheel, if ``HATCH_BUILD_HOOKS_ENABLE`` is
set: without it the wheel holds Python alone and fits every platform. ``./dev compile`` runs it for
the tree.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import sys
import sysconfig
import tempfile
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCES = ROOT / "src"
GROUP = "mustela"
PLACE = "mustela/_compiled"
OPTIMIZE = "MUSTELA_COMPILED_OPTIMIZE"
"""In the environment: how much the C compiler optimizes, 0 to 3."""
TYPES = "[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n"
"""The settings with which the compiler checks types first."""
NEEDED = ["mypy[mypyc]>=2", "setuptools"]


class CompiledModulesHook(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what a build of its own environment needs."""
        return NEEDED if self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform of the wheel."""
        if self.target_name != "wheel" or version == "editable":
            return
        made = Path(os.environ.get(runtime().SWITCH) or SOURCES / PLACE)
        if not is_fresh(made):
            self._made = Path(tempfile.mkdtemp(prefix="mustela-wheel-"))
            made = compile_into(self._made)
        for file in made.iterdir():
            build_data["force_include"][str(file)] = f"{PLACE}/{file.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        del version, build_data, artifact_path
        shutil.rmtree(getattr(self, "_made", ""), ignore_errors=True)


def modules() -> list[str]:
    """Return the modules that are compiled."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return sorted(project["tool"]["mustela"]["compiled"]["modules"])


def file_of(name: str) -> Path:
    """Return the source of a module."""
    file = SOURCES.joinpath(*name.split("."))
    return file / "__init__.py" if file.is_dir() else file.with_suffix(".py")


def imported_by(names: list[str]) -> list[str]:
    """Return modules with all of Mustela that they import, and that these import, and so on.

    Compiled code holds constants and types of what it imports.
    """
    found, open_ = set(names), list(names)
    while open_:
        for node in ast.walk(ast.parse(file_of(open_.pop()).read_bytes())):
            told: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                told = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
            elif isinstance(node, ast.Import):
                told = [name.name for name in node.names]
            for name in told:
                if name.split(".")[0] == "mustela" and name not in found and file_of(name).exists():
                    found.add(name)
                    open_.append(name)
    return sorted(found)


def runtime() -> Any:
    """Return `mustela.compiled` of this tree, without importing the library."""
    spec = spec_from_file_location("mustela_compiled", SOURCES / "mustela" / "compiled.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_into(directory: Path) -> Path:
    """Compile the modules of this tree, with their manifest, and return the directory."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    names, told = modules(), runtime()
    work = Path(tempfile.mkdtemp(prefix="mustela-compile-"))
    here = Path.cwd()
    try:
        settings = work / "mypy.ini"
        settings.write_text(TYPES)
        os.chdir(SOURCES)  # tracebacks name files as they lie in a directory of sys.path
        extensions = mypycify(
            [f"--config-file={settings}", *(str(file_of(n).relative_to(SOURCES)) for n in names)],
            opt_level=os.environ.get(OPTIMIZE, "2"),
            debug_level="0",
            target_dir=str(work / "c"),
            group_name=GROUP,
        )
        command = build_ext(Distribution({"name": "mustela", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(work / "lib"), str(work / "objects")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(here)
    made: list[str] = []
    directory.mkdir(parents=True, exist_ok=True)
    for file in sorted((work / "lib").rglob("*" + told.SUFFIX)):
        name = ".".join(file.relative_to(work / "lib").parts).removesuffix(told.SUFFIX)
        made.append(name)
        shutil.copyfile(file, directory / (name + told.SUFFIX))
    sources = imported_by(names)
    lines = (told.digest(sources, SOURCES), " ".join(sources), " ".join(made))
    told.manifest_file(directory).write_text("\n".join(lines) + "\n")
    shutil.rmtree(work, ignore_errors=True)
    return directory


def is_fresh(directory: Path) -> bool:
    """Say whether a directory has what would be compiled of this tree now."""
    told = runtime()
    try:
        known, sources, made, *_ = told.manifest_file(directory).read_text().split("\n")
        wanted = imported_by(modules())
        named = {*modules(), f"{GROUP}__mypyc"}
        same = sources.split() == wanted and named == set(made.split())
        return same and known == told.digest(wanted, SOURCES)
    except (OSError, ValueError):
        return False


def compiler() -> str | None:
    """Return the C compiler of this Python, if it and Python's headers are there."""
    words = (sysconfig.get_config_var("CC") or "cc").split()
    found = shutil.which(os.environ.get("CC", words[0]))
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return found if headers.exists() else None


def main() -> int:
    """Compile into a directory, or into the tree if it has none that are fresh.

    Returns:
        3 if there is no compiler.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="the tree's by default")
    parser.add_argument("--force", action="store_true", help="also if there is nothing to do")
    given = parser.parse_args()
    place = SOURCES / PLACE if given.directory is None else given.directory.absolute()
    if is_fresh(place) and not given.force:
        return 0
    if compiler() is None:
        return 3
    made = compile_into(Path(tempfile.mkdtemp(prefix="_compiled-", dir=place.parent)))
    shutil.rmtree(place, ignore_errors=True)
    made.chmod(0o755)
    made.replace(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
