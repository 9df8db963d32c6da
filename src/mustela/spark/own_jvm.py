"""The JVM of a context of our own, and the parent of its workers: begun before they are needed.

This is the engine's first module to be imported, so it does without PySpark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mustela.errors import MustelaError
from mustela.java import Java, find_java
from mustela.logs.options import LogOptions
from mustela.runtime.engine import EngineOptions
from mustela.spark import jvm as jvms
from mustela.spark.early import EARLY, EarlyDaemon
from mustela.spark.jvm_log import relay_stream
from mustela.spark.masters import is_local
from mustela.spark.properties import (
    can_begin_without,
    properties_for,
    starts_directly,
    with_submitted,
)
from mustela.spark.scratch import give_back, take_scratch

__all__ = [
    "Wanted",
    "begin",
    "begin_jvm",
    "begun_workers",
    "end_begun",
    "environment",
    "own_jvm",
    "wanted_jvm",
]


class Wanted(NamedTuple):
    """A JVM as a context needs it.

    Attributes:
        java: Which Java.
        properties: All of Spark's properties.
        environment: Variables of its environment, beside those of this process.
    """

    java: Java
    properties: dict[str, str]
    environment: dict[str, str]


def wanted_jvm(user: Mapping[str, str], context: Any) -> Wanted:
    """Return the JVM for a context with the user's properties.

    Args:
        user: The user's properties.
        context: PySpark's class of contexts; used only where ``spark-submit`` has started the JVM.
    """
    properties = properties_for(with_submitted(user, context))
    java = find_java()
    here = {"SPARK_LOCAL_IP": properties.get("spark.driver.bindAddress")}
    if is_local(properties["spark.master"]):
        here["PYSPARK_PYTHON"] = sys.executable
    elif not os.environ.get("PYSPARK_PYTHON"):
        # As Spark does it: the Python of this name on each executor's host.
        here["PYSPARK_PYTHON"] = properties.get("spark.pyspark.python", sys.executable)
    variables = {"JAVA_HOME": str(java.home), "PYSPARK_PIN_THREAD": "true"}
    variables |= {name: value for name, value in here.items() if value is not None}
    return Wanted(java, properties, variables)


@contextmanager
def environment(**values: str) -> Generator[None]:
    """Set environment variables while the JVM starts, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Begun(NamedTuple):
    """A JVM that has begun to start, or is about to.

    Attributes:
        starting: The JVM; None if it is only about to.
        scratch: Its directory.
        archive: The archive of classes that it uses or writes, if it does.
        daemon: What waits to be the parent of its workers, if it does.
        wanted: What it was started for.
        logs: How it logs.
    """

    starting: jvms.Starting | None
    scratch: Path
    archive: Path | None
    daemon: EarlyDaemon | None
    wanted: Wanted
    logs: LogOptions | None


_BEGUN: list[_Begun] = []
"""At most one, by `begin`."""

_DAEMONS: list[EarlyDaemon] = []
"""Those that Spark has asked for, or will; they end with it."""


def begin(options: EngineOptions) -> None:
    """Let begin what `mustela.spark.engine.SparkEngine.start` will need.

    The parent of the workers now, while this process imports Spark and the engine: what it imports
    is on the way to the first result. The JVM follows (`begin_jvm`), as there is no third core for
    it meanwhile. What cannot be started is left to the engine, which has words for it.
    """
    user = options.properties
    _DAEMONS[:] = [daemon for daemon in _DAEMONS if daemon.lives()]
    if options.session is not None or _BEGUN or _gateway() is not None or not starts_directly(user):
        return
    with suppress(MustelaError, OSError):
        wanted, scratch, daemon = wanted_jvm(user, None), take_scratch(), None
        with environment(**wanted.environment), suppress(OSError):
            daemon = _early_daemon(wanted, _socket(scratch), options.logs)
        _BEGUN.append(_Begun(None, scratch, None, daemon, wanted, options.logs))


def begin_jvm() -> None:
    """Let the JVM begin as well, if `begin` has found that one will be needed."""
    if not _BEGUN or _BEGUN[0].starting is not None:
        return
    begun = _BEGUN.pop()
    wanted, logs, scratch = begun.wanted, begun.logs, begun.scratch
    try:
        with environment(**wanted.environment):
            started = _begin(wanted, logs, scratch=scratch, early=begun.daemon is not None)
    except (MustelaError, OSError):
        _drop(begun)
    else:
        _BEGUN.append(started._replace(daemon=begun.daemon))


def begun_workers(options: EngineOptions) -> EarlyDaemon | None:
    """Return the parent of the workers, if it can have one for an application before Spark asks."""
    if not _BEGUN or _BEGUN[0].daemon is None or not can_begin_without(options.properties):
        return None
    return _BEGUN[0].daemon


def end_begun() -> None:
    """End the JVM that was started for a context that nobody takes."""
    while _BEGUN:
        _drop(_BEGUN.pop())


@contextmanager
def own_jvm(wanted: Wanted, record: Path | None, logs: LogOptions | None) -> Generator[None]:
    """Let a context that is made in the block find a JVM, where Spark's launcher is not needed."""
    if _gateway() is not None or not jvms.can_start(wanted.properties, os.environ):
        yield
        return
    known = None if record else _take_begun(wanted, logs)
    begun = known or _begin(wanted, logs, record=record)
    started = _wait(begun)
    if started is None and begun.archive is not None and record is None:
        begun.archive.unlink(missing_ok=True)  # a bad one
        _drop_daemon(begun)
        begun = _begin(wanted, logs, scratch=begun.scratch)
        started = _wait(begun)
    if started is None:
        _drop_daemon(begun)
        give_back(begun.scratch)
        yield  # Spark's launcher has the same trouble, and words for it
        return
    try:
        with jvms.gateway(started):
            yield
    except BaseException:
        if _gateway() is None:
            jvms.end(started.process)
            _drop_daemon(begun)
            give_back(begun.scratch)
        raise
    if begun.daemon is not None:
        _DAEMONS.append(begun.daemon)
    _gateway().proc = started.process


def _wait(begun: _Begun) -> jvms.Jvm | None:
    assert begun.starting is not None
    return begun.starting.wait()


def _gateway() -> Any:
    """Return PySpark's connection to a JVM; None if it has none, or was not even imported."""
    module = sys.modules.get("pyspark.core.context")
    return None if module is None else module.SparkContext._gateway


def _take_begun(wanted: Wanted, logs: LogOptions | None) -> _Begun | None:
    """Return the JVM that has begun to start, if it was started alike; another one is ended."""
    begin_jvm()
    if not _BEGUN:
        return None
    begun = _BEGUN.pop()
    if (begun.wanted, begun.logs) == (wanted, logs):
        return begun
    _drop(begun)
    return None


def _drop(begun: _Begun) -> None:
    if begun.starting is not None:
        begun.starting.drop()
    _drop_daemon(begun)
    give_back(begun.scratch)


def _drop_daemon(begun: _Begun) -> None:
    if begun.daemon is not None:
        begun.daemon.drop()


def _begin(
    wanted: Wanted,
    logs: LogOptions | None,
    *,
    record: Path | None = None,
    scratch: Path | None = None,
    early: bool = False,
) -> _Begun:
    """Start a JVM with the archive of classes, if there is one; the environment is set."""
    java, properties = wanted.java, wanted.properties
    where = scratch or take_scratch()
    if record is not None:
        starting = jvms.start(java, properties, where, archive=record, record=True)
        return _Begun(starting, where, record, None, wanted, logs)
    archive = jvms.find_archive(java)
    with environment(**({EARLY: str(_socket(where))} if early else {})):
        starting = jvms.start(java, properties, where, archive=archive, logs=logs)
    return _Begun(starting, where, archive, None, wanted, logs)


def _socket(scratch: Path) -> Path:
    """Return where the parent of the workers waits for Spark."""
    return scratch / "daemon"


def _early_daemon(wanted: Wanted, path: Path, logs: LogOptions | None) -> EarlyDaemon | None:
    """Start the parent of the workers with what Spark gives it and Python reads when it starts."""
    properties = wanted.properties
    if properties.get("spark.python.use.daemon", "true").lower() != "true":
        return None
    threads = properties.get("spark.task.cpus", "1")
    variables = {
        "OMP_NUM_THREADS": properties.get("spark.executorEnv.OMP_NUM_THREADS", threads),
        "PYTHONHASHSEED": "0",
        **jvms.surroundings(),
        "PYTHONUNBUFFERED": "YES",
    }
    piped = logs is not None
    daemon = EarlyDaemon.start(path, variables, jvms.ignore_interrupts, piped=piped)
    if daemon is not None and daemon.errors is not None and logs is not None:
        relay_stream(daemon.errors, "spark.stderr", logs)
    return daemon
