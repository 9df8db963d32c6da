"""Which form of the hot modules runs: the compiled one where there is one, or plain Python.

Some modules of the kernel and the stores are also compiled to machine code, with mypyc, from the
same source (`[tool.mustela.compiled]` in ``pyproject.toml`` lists them, `hatch_build.py` compiles
them). What was compiled lies in ``mustela/_compiled``, beside a manifest of the sources that it was
made from. It is used only if they are those that are installed: compiled code that is older than a
changed source, or was made for another Python, is never run. All of these modules are compiled, or
none is, as compiled ones call each other directly.

Both forms do the same and write the same bytes, so processes of one application need not agree.
``MUSTELA_COMPILED=0`` in the environment has Python run, ``MUSTELA_COMPILED=1`` refuses to run
anything else than what was compiled.

Owns: the choice. May import: nothing of Mustela, as it is asked before anything else is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_settings: object) -> Callable[[type], type]:
        """Tell mypyc something of a class; in Python it means nothing.

        Example:
            >>> @mypyc_attr(allow_interpreted_subclasses=True)
            ... class Base: ...
        """
        return _same


__all__ = ["SWITCH", "Form", "digest", "form", "install", "manifest_file", "mypyc_attr"]

SWITCH: Final = "MUSTELA_COMPILED"
"""In the environment: 0 for plain Python; 1, or the directory of the compiled modules, for those
alone; if it is not set or empty, they run if they are there and fit."""

SUFFIX: Final = EXTENSION_SUFFIXES[0]
"""Of compiled modules for this Python on this kind of machine."""

_SOURCES: Final = Path(__file__).parent.parent
_DIRECTORY: Final = Path(__file__).with_name("_compiled")


class Form(NamedTuple):
    """Which form of the hot modules this process runs.

    Attributes:
        compiled: Whether they are compiled.
        why: Why not; or which are.
    """

    compiled: bool
    why: str


def form() -> Form:
    """Return which form this process runs.

    Example:
        >>> form().compiled in (True, False)
        True
    """
    return _chosen[0] if _chosen else Form(False, "nothing was chosen yet")


def install() -> None:
    """Choose a form, and have modules imported in it; called once, before any of them is.

    Raises:
        ImportError: If only compiled modules are wanted, and there are none that fit.
    """
    if _chosen:
        return
    switch = os.environ.get(SWITCH, "")
    chosen, modules, directory = _choice(switch)
    if switch not in ("", "0") and not chosen.compiled:
        msg = f"{SWITCH}={switch} asks for compiled modules, but {chosen.why}"
        raise ImportError(msg)
    _chosen.append(chosen)
    if modules:
        sys.meta_path.insert(0, CompiledModules(modules, directory))


class CompiledModules:
    """Finds the compiled form of modules, for Python's import.

    Args:
        names: The modules; and the library that all of them share.
        directory: Where they lie.
    """

    def __init__(self, names: Sequence[str], directory: Path) -> None:
        self._names = frozenset(names)
        self._directory = directory

    def find_spec(
        self, fullname: str, _path: object = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module comes from, if it is one of these."""
        if fullname not in self._names:
            return None
        file = str(self._directory / f"{fullname}{SUFFIX}")
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, file))


def manifest_file(directory: Path) -> Path:
    """Return the manifest of what was compiled for this Python.

    Its first line is the digest of the sources, its second one names those, its third one what was
    made of them.
    """
    return directory / f"manifest{SUFFIX}.txt"


def digest(names: Sequence[str], sources: Path = _SOURCES) -> str:
    """Return a digest of the sources of modules.

    Raises:
        OSError: If one is not there.

    Example:
        >>> digest(["mustela.clock"]) == digest(["mustela.errors"])
        False
    """
    found = blake2b(digest_size=16)
    for name in names:
        file = sources.joinpath(*name.split("."))
        at = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        text = at.read_bytes()
        found.update(f"{name} {len(text)}\n".encode())
        found.update(text)
    return found.hexdigest()


_chosen: list[Form] = []


def _choice(switch: str) -> tuple[Form, list[str], Path]:
    """Return the form, and the modules to take from a directory."""
    directory = Path(switch) if os.sep in switch else _DIRECTORY
    if switch == "0":
        return Form(False, f"{SWITCH}=0"), [], directory
    try:
        known, sources, names, *_ = manifest_file(directory).read_text().split("\n")
    except FileNotFoundError:
        return Form(False, "this installation has no compiled modules"), [], directory
    except (OSError, ValueError) as error:
        return Form(False, f"the compiled modules cannot be read: {error}"), [], directory
    try:
        fresh = known == digest(sources.split())
    except OSError:
        fresh = False
    if not fresh:
        return Form(False, "the compiled modules are of other sources than these"), [], directory
    made = names.split()
    return Form(True, f"{len(made) - 1} modules"), made, directory


def _same(cls: Any) -> Any:
    return cls
