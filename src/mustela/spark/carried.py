"""Mustela itself on its way to executors that lack it, or have another version of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from mustela.spark.scratch import take_scratch

__all__ = ["DAEMON", "carried_properties", "carry", "write_wheel"]

DAEMON: Final = "mustela_executor"
"""What an executor starts: the module of the wheel that is made of `mustela.spark.on_executor`."""

_DAEMON_PROPERTY: Final = "spark.python.daemon.module"
_PATH_PROPERTY: Final = "spark.executorEnv.PYTHONPATH"
_UNKNOWN: Final = "0"
_LEFT_OUT: Final = ("deploy", "_compiled")
"""Projects' templates, which no task uses, and what is made for the driver's machine."""


def write_wheel(directory: Path) -> Path:
    """Write Mustela's sources, as they are here, as a wheel from which Python can import.

    It is none to install: templates and pages are missing, and it has no list of its files.

    Args:
        directory: Where it is written.

    Returns:
        The file; its name says the version.

    Example:
        >>> import tempfile
        >>> write_wheel(Path(tempfile.mkdtemp())).suffix
        '.whl'
    """
    name, told = _distribution()
    wheel = directory / f"mustela-{name}-py3-none-any.whl"
    with ZipFile(wheel, "w", ZIP_DEFLATED, compresslevel=1) as made:
        for place, text in _members():
            made.writestr(ZipInfo(place), text)
        if told:
            made.writestr(ZipInfo(f"mustela-{name}.dist-info/METADATA"), told)
    return wheel


def carried_properties(user: Mapping[str, str], wheel: Path) -> dict[str, str]:
    """Return the Spark properties with which executors find the wheel.

    Spark puts files that it was given into an executor's directory, which its workers begin in.

    Args:
        user: What the user says.
        wheel: The wheel.

    Example:
        >>> carried_properties({}, Path("mustela-1-py3-none-any.whl"))["spark.python.daemon.module"]
        'mustela_executor'
    """
    own = user.get(_PATH_PROPERTY, "")
    path = os.pathsep.join(filter(None, (f"./{wheel.name}", own)))
    return {_DAEMON_PROPERTY: DAEMON, _PATH_PROPERTY: path}


@cache
def carry() -> Path:
    """Return the wheel that this process gives to executors, written once."""
    return write_wheel(take_scratch())


def _distribution() -> tuple[str, str]:
    """Return Mustela's version, and what is said of it; from sources alone neither is known."""
    try:
        found: Any = distribution("mustela")
    except PackageNotFoundError:
        return _UNKNOWN, ""
    return str(found.version), found.read_text("METADATA") or ""


def _members() -> Iterator[tuple[str, bytes]]:
    spec = find_spec("mustela")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    for file in sorted(package.rglob("*.py")):
        within = file.relative_to(package)
        if within.parts[0] not in _LEFT_OUT:
            yield f"mustela/{within.as_posix()}", file.read_bytes()
    yield f"{DAEMON}.py", (package / "spark" / "on_executor.py").read_bytes()
