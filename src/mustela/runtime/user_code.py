"""Which files of the user's program the executors of a cluster are given: Python sources alone.

Whatever is imported is there, wherever it lies, unless it was installed: then it is installed on
every host. A package comes whole, and with a module all those beside it, as functions may import
them later. A directory without ``__init__.py`` may hold anything: of what lies in it, packages come
if something of them was imported. No file of another kind is ever read: no settings, no keys, no
data.
"""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from mustela.errors import UsageError
from mustela.plan.user_code import UserModule, sum_of

__all__ = ["BYTES_MAX", "UserCodeTooLargeError", "sum_of", "user_code"]

BYTES_MAX = 16 << 20
"""All sources together; they are sent with each program."""

_OWN = frozenset({"mustela", "mustela_dev"})
_MUSTELA = Path(__file__).parents[1]
"""Also where it runs from its sources: its command line may be the main program."""


class UserCodeTooLargeError(UsageError):
    """The user's sources are too large to be sent to executors."""

    code = "CODE_TOO_LARGE"


def user_code(modules: Mapping[str, ModuleType] | None = None) -> list[UserModule]:
    """Return the sources that workers elsewhere need to import what the program has imported.

    Args:
        modules: What is imported; by default all of this process.

    Raises:
        UserCodeTooLargeError: If they are more than `BYTES_MAX`.
    """
    loaded = dict(sys.modules if modules is None else modules)
    found: dict[str, UserModule] = {}
    size = 0
    for file, name in sorted(_files(loaded), key=lambda one: one[1]):
        if name in found:
            continue
        text = file.read_bytes()
        size += len(text)
        if size > BYTES_MAX:
            msg = f"the program's Python files are more than {BYTES_MAX >> 20} MiB"
            raise UserCodeTooLargeError(
                msg,
                evidence={"last": str(file)},
                why="they are sent to every executor",
                fix="install what is large on the executors' hosts, as a wheel; "
                "`mustela run --dry-run` lists the files",
            )
        found[name] = UserModule(name, str(file), file.name == "__init__.py", text)
    for one in list(found.values()):
        parent, directory = one.name.rpartition(".")[0], Path(one.path).parent
        if one.package:
            directory = directory.parent
        while parent:  # a directory without __init__.py
            found.setdefault(parent, UserModule(parent, str(directory), True, b""))
            parent, directory = parent.rpartition(".")[0], directory.parent
    return sorted(found.values())


def _files(modules: Mapping[str, ModuleType]) -> Iterator[tuple[Path, str]]:
    """Yield the files that belong to a program, with the names that they are imported by."""
    installed = _installed()
    spaces = _namespaces(modules)
    beside = {(Path(place), name) for name, places in spaces.items() for place in places}
    for known, module in modules.items():
        name = _name_of(known, module)
        parent = name.rpartition(".")[0]
        origin = getattr(module, "__file__", None)
        if (parent and parent not in spaces) or name in _OWN or not isinstance(origin, str):
            continue
        file = Path(origin)
        if file.suffix != ".py" or not file.is_file() or _lies_in(file, installed):
            continue
        if file.name == "__init__.py":
            yield from _of_package(file.parent, parent)
        beside.add((file.parent.parent if file.name == "__init__.py" else file.parent, parent))
    for directory, parent in beside:
        for file in directory.glob("*.py"):
            if file.stem.isidentifier():
                yield file, f"{parent}.{file.stem}" if parent else file.stem


def _name_of(known: str, module: ModuleType) -> str:
    """Return a module's name; that of ``python -m shop.app`` is not ``__main__``."""
    spec = getattr(module, "__spec__", None) if known == "__main__" else None
    return known if spec is None else str(spec.name)


def _namespaces(modules: Mapping[str, ModuleType]) -> dict[str, list[str]]:
    """Return the user's packages without ``__init__.py``, and the directories of each."""
    installed, found = _installed(), dict[str, list[str]]()
    for name in sorted(modules):  # outer ones first
        parent = name.rpartition(".")[0]
        places = [str(place) for place in getattr(modules[name], "__path__", ())]
        if getattr(modules[name], "__file__", None) is not None or (parent and parent not in found):
            continue
        # One that was also installed is there, and has other parts than these.
        if places and not any(_lies_in(Path(place), installed) for place in places):
            found[name] = places
    return found


def _of_package(directory: Path, parent: str) -> Iterator[tuple[Path, str]]:
    root = directory.parent
    for file in directory.rglob("*.py"):
        parts = file.relative_to(root).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            names = parts[:-1] if parts[-1] == "__init__" else parts
            yield file, ".".join((parent, *names) if parent else names)


def _installed() -> list[Path]:
    """Return where what was installed lies: other hosts get it as this one did."""
    named = [
        path for kind, path in sysconfig.get_paths().items() if kind not in ("scripts", "data")
    ]
    return [
        Path(path).resolve()
        for path in (*named, *site.getsitepackages(), site.getusersitepackages(), _MUSTELA)
    ]


def _lies_in(file: Path, directories: Iterable[Path]) -> bool:
    whole = file.resolve()
    return any(whole.is_relative_to(one) for one in directories)
