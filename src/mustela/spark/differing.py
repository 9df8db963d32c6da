"""Whether the hosts of executors have what the driver's has: Python, and what Mustela needs."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from mustela.errors import UsageError
from mustela.spark.carried import DAEMON

__all__ = ["ExecutorDiffersError", "compare_versions", "difference_told", "installed_versions"]

_PACKAGES: Final = ("mustela", "pyspark", "confluent-kafka", "lmdb", "msgspec", "pydantic")
"""What travels between driver and executors, or keeps state, is of these."""

_NAMED: Final = re.compile(r"ExecutorDiffersError: (.+)")
_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor")
_PYTHON: Final = re.compile(
    r"Python in worker has different version: (\S+) than that in driver: (\S+),"
)
_NO_MUSTELA: Final = re.compile(r"No module named '?mustela\b")
_NOT_STARTED: Final = re.compile(
    r"Error from python worker:\s(?:(?!PYTHONPATH was:).)*?"
    r"No module named '?([\w.]+)'?\s+PYTHONPATH was:",
    re.DOTALL,
)
"""What Spark says of workers whose parent could not import what every task needs."""


class ExecutorDiffersError(UsageError):
    """An executor's host lacks something that the driver has, or has another version of it."""

    code = "EXECUTOR_DIFFERS"


def installed_versions() -> dict[str, str]:
    """Return the versions of what driver and executors must have alike; empty for what is missing.

    Example:
        >>> "mustela" in installed_versions()
        True
    """
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # it may be there as source
            found[name] = ""
    return found


def compare_versions(driver: Mapping[str, str], here: Mapping[str, str], host: str = "") -> None:
    """See whether an executor's host has the driver's versions; what has none is not compared.

    Raises:
        ExecutorDiffersError: If it has not; its first line names host and packages.

    Example:
        >>> compare_versions({"msgspec": "0.20.0"}, {"msgspec": "0.20.0"})
    """
    told = [
        f"{name} {here[name]} where the driver has {wanted}"
        for name, wanted in driver.items()
        if wanted and here.get(name) and here[name] != wanted
    ]
    if told:
        what = f"{host or socket.gethostname()} has {', '.join(told)}"
        raise _differs(what)


def difference_told(text: str) -> ExecutorDiffersError | None:
    """Return the error for what Spark says of a failed job, if an executor's host is the reason.

    Example:
        >>> told = "Lost task 0.0 (TID 3) (10.0.0.7 executor 1): No module named 'mustela'"
        >>> str(difference_told(told)).splitlines()[0]
        'Mustela is not installed on 10.0.0.7'
    """
    named = _NAMED.search(text)
    if named is not None:
        return _differs(named[1].strip())
    found = _HOST.search(text)
    host = found[1] if found else "an executor's host"
    python = _PYTHON.search(text)
    if python is not None:
        return _differs(f"{host} has Python {python[1]} where the driver has {python[2]}")
    if _NO_MUSTELA.search(text):
        return _differs(f"Mustela is not installed on {host}")
    missing = _NOT_STARTED.search(text)
    if missing is not None:
        name = missing[1].partition(".")[0]
        return _differs(f"{'Mustela' if name == DAEMON else name} is not installed on {host}")
    return None


def _differs(what: str) -> ExecutorDiffersError:
    return ExecutorDiffersError(
        what,
        why="functions, rows and state travel between the driver and executors, which must read "
        "them alike",
        fix="install the driver's versions on every executor's host, in the Python that "
        "PYSPARK_PYTHON names there, or give executors an environment with spark.archives",
    )
