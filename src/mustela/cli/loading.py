"""From ``module:app``, as a user types it, to the application."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from mustela.errors import MustelaError, Origin, UsageError

if TYPE_CHECKING:
    from mustela.runtime.app import App

__all__ = ["ApplicationImportError", "ApplicationNotFoundError", "load_app"]

_DEFAULT_NAME = "app"


class ApplicationNotFoundError(UsageError):
    """No application exists under the given name."""

    code = "APP_NOT_FOUND"


class ApplicationImportError(UsageError):
    """The user's module raised when it was imported."""

    code = "APP_IMPORT"


def load_app(target: str, *, directory: Path | None = None) -> App:
    """Import a module, from the working directory first, and return the application in it.

    Spark's workers find the module too: the directory goes into ``PYTHONPATH``, which they inherit.

    Args:
        target: ``module:app``; without a colon the application is the one called ``app``.
        directory: Where modules are looked for first; by default the working directory.

    Raises:
        ApplicationNotFoundError: If there is no such module, or no application in it.
        ApplicationImportError: If the module raises.
    """
    module_name, _, name = target.partition(":")
    _refuse_paths(target, module_name)
    make_importable(directory or Path.cwd())
    module = _import(module_name, target)
    return _application_in(module, name or _DEFAULT_NAME, target)


def make_importable(directory: Path) -> None:
    """Let this process and those it starts import modules of a directory."""
    place = str(directory.absolute())
    if place not in sys.path:
        sys.path.insert(0, place)
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if place not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([place, *inherited])
    importlib.invalidate_caches()


def _refuse_paths(target: str, module_name: str) -> None:
    if "/" in module_name or module_name.endswith(".py"):
        stem = Path(module_name).stem
        what = f"{target!r} names a file, not a module"
        fix = f"change to the file's directory and name the module: {stem}:{_DEFAULT_NAME}"
        raise ApplicationNotFoundError(what, fix=fix)


def _import(module_name: str, target: str) -> ModuleType:
    try:
        known = find_spec(module_name) is not None
    except (ImportError, ValueError):
        known = False
    if not known:
        raise _no_module(module_name, target)
    try:
        return importlib.import_module(module_name)
    except MustelaError:
        raise
    except (Exception, SystemExit) as error:
        what = f"the module {module_name!r} raised {type(error).__name__}: {error}"
        fix = "correct the module; --debug shows the full stack trace"
        raise ApplicationImportError(what, at=_place_of(error), fix=fix) from error


def _no_module(name: str, target: str) -> ApplicationNotFoundError:
    what, place = f"there is no module {name!r}", Path.cwd()
    package, _, last = name.rpartition(".")
    spec = find_spec(package) if package in sys.modules else None
    if spec is not None and spec.submodule_search_locations:
        place = Path(next(iter(spec.submodule_search_locations)))
        there = sorted(module.name for module in iter_modules([str(place)]))
        close = difflib.get_close_matches(last, there, n=1) or there
        fix = f"did you mean {package}.{close[0]}?" if close else f"write {place / last}.py"
    else:
        top = name.partition(".")[0]
        here = sorted(module.name for module in iter_modules([str(place)]))
        close = difflib.get_close_matches(top, here, n=1)
        guess = f"did you mean {close[0]}{name[len(top) :]}? or " if close else ""
        fix = f"{guess}change to the directory that holds {top}{'' if package else '.py'}"
    evidence = {"looked in": place}
    return ApplicationNotFoundError(what, evidence=evidence, fix=fix, fields={"target": target})


def _place_of(error: BaseException) -> Origin | None:
    """Return the innermost line of the user's own code: not of the import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return Origin(error.filename, error.lineno or 0, (error.text or "").strip())
    place = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and file not in (__file__, importlib.__file__):
            place = Origin(file, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _application_in(module: ModuleType, name: str, target: str) -> App:
    from mustela.runtime.app import App

    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    others = sorted(key for key, value in vars(module).items() if isinstance(value, App))
    what = (
        f"there is no {name!r} in {module.__name__}"
        if found is None
        else f"{target} is a {type(found).__name__}, not an App"
    )
    fix = f"did you mean {module.__name__}:{others[0]}?" if others else 'write app = App("…")'
    raise ApplicationNotFoundError(what, evidence={"file": module.__file__ or "?"}, fix=fix)
