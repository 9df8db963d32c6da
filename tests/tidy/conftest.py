"""What the repository holds, read once for all tidy tests."""

from __future__ import annotations

import ast
import gc
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "mustela"
DEVELOPMENT = ROOT / "packages" / "mustela-dev" / "src" / "mustela_dev"
PACKAGES = (PACKAGE, DEVELOPMENT)


@dataclass
class Source:
    """One Python file of the repository."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The path as messages show it."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file: many objects that live as long as the tests, and are no garbage."""
        gc.disable()
        try:
            return ast.parse(self.text, filename=self.name)
        finally:
            gc.freeze()
            gc.enable()

    @property
    def in_package(self) -> bool:
        """True for what is installed, False for tests, benchmarks and examples."""
        return self._package is not None

    @property
    def _package(self) -> Path | None:
        return next((place for place in PACKAGES if self.path.is_relative_to(place)), None)

    @property
    def room(self) -> str | None:
        """The room of its package that the file belongs to, if any."""
        if self._package is None:
            return None
        parts = self.path.relative_to(self._package).parts
        return parts[0] if len(parts) > 1 else self.path.stem


def repository_files() -> list[Path]:
    """Name every file that is, or is about to be, part of the repository."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout.decode()
        names = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive has no git
        tops = [
            "src",
            "packages",
            "tests",
            "docs",
            "benchmarks",
            "examples",
            "changes",
            "requirements",
        ]
        names = [path for top in tops for path in (ROOT / top).rglob("*")]
        names = [path for path in names if "__pycache__" not in path.parts]
    return sorted(path for path in set(names) if path.is_file())


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """Every file of the repository."""
    return repository_files()


@pytest.fixture(scope="session")
def sources(files: list[Path]) -> list[Source]:
    """Every Python file of the repository."""
    return [Source(p, p.read_text(encoding="utf-8")) for p in files if p.suffix == ".py"]


@pytest.fixture(scope="session")
def library(sources: list[Source]) -> list[Source]:
    """Every Python file of the two packages."""
    return [source for source in sources if source.in_package]
