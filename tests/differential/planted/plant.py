"""Plants a bug: a module is loaded from its source with one piece of text replaced."""

from __future__ import annotations

import importlib.machinery
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

__all__ = ["Bug", "bugs", "plant"]

_LIST = Path(__file__).with_name("bugs.toml")


class Bug(NamedTuple):
    """A bug.

    Attributes:
        operators: Operators whose examples show it: one, or a pair.
        module: The module that has it.
        old: Text that occurs once in its source.
        new: What it becomes.
    """

    operators: tuple[str, ...]
    module: str
    old: str
    new: str

    def spoilt(self, source: str) -> str:
        """Return the source with the bug.

        Raises:
            AssertionError: If the text is not there, or more than once.
        """
        count = source.count(self.old)
        assert count == 1, f"{self.module} has {self.old!r} {count} times: mend bugs.toml"
        return source.replace(self.old, self.new)


def bugs(listed: Path = _LIST) -> dict[str, Bug]:
    """Return all bugs by name."""
    table = tomllib.loads(listed.read_text(encoding="utf-8"))
    return {
        name: Bug(tuple(said.get("operators", ())), said["module"], said["old"], said["new"])
        for name, said in table.items()
    }


def plant(name: str, listed: Path = _LIST) -> None:
    """Plant a bug in this process.

    Raises:
        AssertionError: If its module is loaded already.
    """
    bug = bugs(listed)[name]
    assert bug.module not in sys.modules, f"{bug.module} is loaded already"
    sys.meta_path.insert(0, _Finder(bug))


class _Finder:
    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._bug.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin, self._bug)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, bug: Bug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> Any:
        """Compile the spoilt source; compiled files are neither read nor written."""
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(self._bug.spoilt(source), self.path, "exec", dont_inherit=True)
