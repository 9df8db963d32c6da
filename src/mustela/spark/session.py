"""The Spark context that epochs run in, and how long it stays for the next application."""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark import SparkConf, SparkContext

from mustela.errors import EnvironmentFault
from mustela.logs.options import LogOptions
from mustela.spark.carried import carried_properties, carry
from mustela.spark.converters import ask_no_test_helpers
from mustela.spark.jvm_log import set_levels
from mustela.spark.masters import check_jars, is_local
from mustela.spark.own_jvm import environment, own_jvm, wanted_jvm

__all__ = [
    "LINGER_S",
    "SparkNotStartedError",
    "is_stopped",
    "jvm_ended",
    "lingers",
    "open_context",
    "release_context",
    "take_context",
]

LINGER_S = 15.0
"""How long a context outlives its application, for the next one in the same process."""


class SparkNotStartedError(EnvironmentFault):
    """Spark refused to start a context."""

    code = "SPARK_NOT_STARTED"


def open_context(
    application_id: str,
    user: Mapping[str, str],
    *,
    record: Path | None = None,
    logs: LogOptions | None = None,
) -> SparkContext:
    """Start a Spark context in a JVM that Spark can use, whatever ``JAVA_HOME`` says.

    Args:
        application_id: Whose context.
        user: Spark properties of the user's.
        record: Where the JVM writes an archive of its classes when it ends.
        logs: How the application logs, if Mustela set that up.
    """
    wanted = wanted_jvm(user, SparkContext)
    properties = wanted.properties
    installed = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    check_jars(properties["spark.master"], Path(installed))
    wheel = None if is_local(properties["spark.master"]) else carry()
    if wheel is not None:
        properties |= carried_properties(properties, wheel)
    conf = SparkConf(loadDefaults=False)
    conf.setAppName(f"mustela {application_id}")
    for name, value in properties.items():
        conf.set(name, value)
    ask_no_test_helpers()
    with environment(**wanted.environment), own_jvm(wanted, record, logs):
        try:
            context: Any = SparkContext(conf=conf)
        except Py4JError as error:
            raise _not_started(error, properties["spark.master"]) from None
    context.setLogLevel("ERROR")
    if wheel is not None:
        context.addFile(str(wheel))
    if logs is not None:
        set_levels(context, logs)
    return context


def _not_started(error: Exception, master: str) -> SparkNotStartedError:
    java = getattr(error, "java_exception", None)
    said = str(error if java is None else java.toString()).strip().splitlines()[0]
    return SparkNotStartedError(
        f"Spark could not start with {master}: {said}",
        why="Spark refused its properties, or did not reach its master",
        fix="see that the master runs at this address and takes this application's login; the "
        "property that Spark names is set in the settings spark.…, or by spark-submit",
        fields={"master": master},
    )


class _Lingering(NamedTuple):
    """A context that no application uses.

    Attributes:
        context: The context.
        properties: What the user had asked for.
        logs: How its JVM logs.
        timer: Stops it.
    """

    context: SparkContext
    properties: dict[str, str]
    logs: LogOptions | None
    timer: threading.Timer


_LINGERING: list[_Lingering] = []
"""At most one: Spark allows one context in a process."""


def lingers(context: SparkContext) -> bool:
    """Return whether a context is ours and no application uses it."""
    return any(kept.context is context for kept in _LINGERING)


def _is_alive(context: Any) -> bool:
    """Return whether a context, and the JVM behind it, still work."""
    if SparkContext._active_spark_context is not context:  # pyright: ignore[reportPrivateUsage]
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def jvm_ended(context: Any, *, wait_s: float) -> int | None:
    """Return what the JVM of a context returned; None if it lives or is not ours to ask."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return None
    try:
        return int(process.wait(wait_s))
    except subprocess.TimeoutExpired:
        return None


def is_stopped(context: Any) -> bool:
    """Return whether somebody has stopped a context."""
    return context._jsc is None


def take_context(
    application_id: str, user: Mapping[str, str], logs: LogOptions | None = None
) -> SparkContext:
    """Return a context of our own: the one that lingers, if it was opened alike, or a new one."""
    if _LINGERING:
        kept = _LINGERING.pop()
        kept.timer.cancel()
        alive = _is_alive(kept.context)
        if alive and kept.properties == dict(user) and kept.logs == logs:
            return kept.context
        _stop(kept.context)
    return open_context(application_id, user, logs=logs)


def _stop(context: SparkContext) -> None:
    """Stop a context, also one whose JVM has ended; the next one has a JVM of its own then."""
    for _ in range(2):  # without its JVM the first try ends halfway, and the second one behind that
        with suppress(Py4JError, OSError):
            context.stop()
            break
    spark: Any = SparkContext
    process = getattr(spark._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        spark._gateway = spark._jvm = None


def release_context(
    context: SparkContext, user: Mapping[str, str], logs: LogOptions | None = None
) -> None:
    """Let a context of our own linger for a while, then stop it.

    Starting Spark takes seconds; an application that restarts in its process should not wait.
    """

    def stop() -> None:
        if _LINGERING and _LINGERING[0].context is context:
            _LINGERING.clear()
            _stop(context)
        atexit.unregister(stop)

    # At the end of the process too: a JVM that is cut off makes workers print tracebacks.
    atexit.register(stop)
    timer = threading.Timer(LINGER_S, stop)
    timer.daemon = True
    _LINGERING[:] = [_Lingering(context, dict(user), logs, timer)]
    timer.start()
