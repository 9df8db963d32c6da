"""The user's modules on their way to hosts without them, and how they are imported there."""

from __future__ import annotations

import hashlib
import importlib.abc
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import NamedTuple

from mustela.errors import InvariantError

__all__ = ["CodeDamagedError", "UserModule", "install", "sum_of"]


class CodeDamagedError(InvariantError):
    """What arrived of the user's modules is not what was sent."""

    code = "CODE_DAMAGED"


class UserModule(NamedTuple):
    """A module of the user's.

    Attributes:
        name: Its full name.
        path: Its file on the driver's host, for tracebacks.
        package: Whether it holds others.
        text: Its source.
    """

    name: str
    path: str
    package: bool
    text: bytes


def sum_of(modules: Iterable[UserModule]) -> str:
    """Return what changes when any of the modules does: a SHA-256, in hexadecimal.

    Example:
        >>> sum_of([])[:8]
        'e3b0c442'
    """
    total = hashlib.sha256()
    for one in modules:
        told = f"{one.name}\0{one.path}\0{one.package}\0{len(one.text)}\0"
        total.update(told.encode() + one.text)
    return total.hexdigest()


class _Loader(importlib.abc.InspectLoader):
    """Gives Python the sources that it was given; nothing of them is on a disk."""

    def __init__(self, modules: Sequence[UserModule]) -> None:
        self._modules = {one.name: one for one in modules}

    def knows(self, name: str) -> bool:
        return name in self._modules

    def is_package(self, fullname: str) -> bool:
        return self._modules[fullname].package

    def get_source(self, fullname: str) -> str:
        return self._modules[fullname].text.decode("utf-8")

    def get_filename(self, fullname: str) -> str:
        return self._modules[fullname].path

    def get_code(self, fullname: str) -> CodeType:
        one = self._modules[fullname]
        return self.source_to_code(one.text, one.path)  # pyright: ignore[reportArgumentType]

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        exec(code, module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the user's modules first: what this host has of the same name may be older."""

    def __init__(self, modules: Sequence[UserModule], total: str) -> None:
        self.total = total
        self.names = [one.name for one in modules]
        self._loader = _Loader(modules)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        del path, target
        if not self._loader.knows(fullname):
            return None
        spec = spec_from_loader(fullname, self._loader, origin=self._loader.get_filename(fullname))
        if spec is not None:
            spec.has_location = True
        return spec


def install(modules: Sequence[UserModule], total: str) -> None:
    """Let this process import modules as they are on the driver's host.

    Modules of an earlier program are forgotten if anything is different.

    Args:
        modules: The modules.
        total: What `sum_of` said on the driver's host.

    Raises:
        CodeDamagedError: If the sum is another one here.
    """
    if not modules:
        return
    if sum_of(modules) != total:
        msg = "the modules that a worker was sent are not those that the driver read"
        raise CodeDamagedError(msg, fields={"sum": total})
    known = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if known is not None:
        if known.total == total:
            return
        sys.meta_path.remove(known)
        _forget(known.names)
    _forget(one.name for one in modules)
    sys.meta_path.insert(0, _Finder(modules, total))


def _forget(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)
