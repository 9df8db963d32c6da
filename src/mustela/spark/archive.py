"""Make the archive of classes that shortens every start: ``python -m mustela.spark.archive``.

A JVM that finds the classes of a start ready in an archive takes a second less. The archive belongs
to one Java and to the jars of one PySpark; it is kept in the user's cache, takes 70 MB, and is made
by starting Spark once and writing down what it loaded. An image of an application makes it while it
is built. Where there is none, or one that does not fit, a start takes as long as it did.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mustela.errors import EnvironmentFault
from mustela.java import find_java
from mustela.spark.job import Jobs
from mustela.spark.jvm import archive_directory, archive_name, archive_sum, end
from mustela.spark.session import open_context

__all__ = ["ArchiveError", "make_archive"]

_KEPT = 3
_CORES = 2
_WRITE_TIMEOUT_S = 120.0


class ArchiveError(EnvironmentFault):
    """The archive of classes could not be made; starts go on without it."""

    code = "CLASS_ARCHIVE"


def make_archive() -> Path:
    """Start Spark, run a job, and keep the classes that were loaded; return the file.

    Raises:
        ArchiveError: If the JVM wrote nothing.
        JavaNotFoundError: If there is no Java that does.
    """
    java = find_java()
    directory, name = archive_directory(), archive_name(java)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = directory / f"{name}.{os.getpid()}.part"
    try:
        _record(part)
        if not part.exists():
            what = f"{java.executable} wrote no archive of classes"
            raise ArchiveError(what, evidence={"version": java.version})
        # Whoever starts meanwhile sees all of it or nothing.
        target = part.replace(directory / f"{name}-{archive_sum(part)}.jsa")
    finally:
        part.unlink(missing_ok=True)
    known = sorted(directory.glob("*.jsa"), key=lambda file: -file.stat().st_mtime)
    for old in known[_KEPT:]:
        old.unlink(missing_ok=True)
    return target


def _record(part: Path) -> None:
    context: Any = open_context("classes", {"spark.master": f"local[{_CORES}]"}, record=part)
    Jobs(context).warm_up(_CORES)
    pairs = context.parallelize([(number, b"") for number in range(_CORES)], _CORES)
    pairs.partitionBy(_CORES).collect()
    context.stop()
    gateway = context._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return  # Spark's launcher started it
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(_WRITE_TIMEOUT_S)
    finally:
        end(process)


if __name__ == "__main__":
    sys.stdout.write(f"{make_archive()}\n")
