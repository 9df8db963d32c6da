"""The Spark context that epochs run in: its JVM, its properties, and the user's own session."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark import SparkConf, SparkContext

from mustela.errors import EnvironmentFault, UsageError
from mustela.java import Java, find_java
from mustela.logs.options import LogOptions
from mustela.spark import jvm as jvms
from mustela.spark.carried import carried_properties, carry
from mustela.spark.converters import ask_no_test_helpers
from mustela.spark.jvm_log import set_levels
from mustela.spark.masters import (
    check_jars,
    is_local,
    network_properties,
    submitted_properties,
)
from mustela.spark.scratch import give_back, take_scratch

__all__ = [
    "LINGER_S",
    "ForcedSparkPropertyError",
    "SparkNotStartedError",
    "check_joined",
    "forced_properties",
    "is_stopped",
    "jvm_ended",
    "lingers",
    "open_context",
    "properties_for",
    "release_context",
    "starts_directly",
    "take_context",
    "with_submitted",
]

LINGER_S = 15.0
"""How long a context outlives its application, for the next one in the same process."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_HEAP_LOCAL = (
    " -Xmn24m -Xms64m -XX:MinHeapFreeRatio=25 -XX:MaxHeapFreeRatio=40 -XX:-ShrinkHeapInSteps"
)
"""The JVM's heap where records go by file. The young generation is all touched, however little is
in it. The old one begins small, is collected before it grows, and keeps two fifths of itself free
at most: else it begins with a sixty-fourth of the machine's memory, and what is dead in it is left
there until ten minutes have gone by. It may still grow to ``spark.driver.memory``."""

_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.driver.memory": "768m",
    "spark.driver.maxResultSize": "0",
    # What the JVM does for an epoch is little: the first compiler's code is good enough, and the
    # second one would take seconds of both cores.
    _JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "5",
    "spark.ui.retainedStages": "5",
    "spark.ui.retainedTasks": "50",
    "spark.eventLog.enabled": "false",
    "spark.locality.wait": "0",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.rdd.compress": "false",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Properties that the user may change."""

_LOCAL_DEFAULTS = {
    # A machine that slept, or a process that was stopped for a while, goes on where it was: driver
    # and executor are one JVM, and would give each other up. (More would not fit into 31 bits.)
    "spark.network.timeout": "20d",
    "spark.executor.heartbeat.maxFailures": "2147483647",
}
"""What is more where driver and executor are one process."""

_FORCED = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "mustela.spark.daemon",
}
"""Properties that the epoch protocol depends on: an epoch succeeds whole or is run again whole."""


_JOINED_LOCAL = {"spark.speculation": "false"}
_JOINED = {
    **_JOINED_LOCAL,
    "spark.task.maxFailures": "4",
    "spark.stage.maxConsecutiveAttempts": "4",
    "spark.python.worker.reuse": "true",
}
"""What a session that the user built is looked at for, with Spark's own defaults."""


class ForcedSparkPropertyError(UsageError):
    """The user set a Spark property that the epoch protocol depends on."""

    code = "SPARK_PROPERTY_FORCED"


class SparkNotStartedError(EnvironmentFault):
    """Spark refused to start a context."""

    code = "SPARK_NOT_STARTED"


def forced_properties() -> dict[str, str]:
    """Return the Spark properties that cannot be changed, with their values."""
    return dict(_FORCED)


def properties_for(user: Mapping[str, str]) -> dict[str, str]:
    """Return all Spark properties: defaults, then the user's, then the forced ones.

    Raises:
        ForcedSparkPropertyError: If the user set a forced property to another value.
        MasterUnknownError: As `network_properties`, and so on.

    Example:
        >>> properties_for({"spark.master": "local[3]"})["spark.master"]
        'local[3]'
    """
    for name, value in _FORCED.items():
        if user.get(name, value) != value:
            msg = f"the Spark property {name} must be {value}, not {user[name]}"
            raise ForcedSparkPropertyError(
                msg,
                why="an epoch runs as a whole and only once, so that nothing is lost or duplicated",
                fix=f"remove {name} from the settings",
            )
    master = user.get("spark.master", _DEFAULTS["spark.master"])
    local = is_local(master)
    network = network_properties(user, master=master)
    properties = {**_DEFAULTS, **network, **user, **_FORCED}
    if local:
        properties = {**_LOCAL_DEFAULTS, **properties}
    if local and _JAVA_OPTIONS not in user:
        properties[_JAVA_OPTIONS] += _HEAP_LOCAL
    if local and sys.platform == "linux":
        # Over TCP, small frames wait for delayed acknowledgements: 40 ms for each task.
        properties.setdefault("spark.python.unix.domain.socket.enabled", "true")
    return properties


def with_submitted(user: Mapping[str, str]) -> dict[str, str]:
    """Return the user's properties, and what they do not say but ``spark-submit`` was given.

    Its ``--master`` holds against a setting: whoever submits has prepared for it. ``local[*]`` is
    also what it says if nobody named a master, and that gives way.
    """
    found = submitted_properties(SparkContext, os.environ)
    # What Spark does by default for all that run on this host is no wish for this application.
    submitted = {name: value for name, value in found.items() if name not in _FORCED}
    merged = {**submitted, **user}
    master = submitted.get("spark.master", "local[*]")
    if os.environ.get("PYSPARK_GATEWAY_PORT") and master != "local[*]":
        merged["spark.master"] = master
    return merged


def starts_directly(user: Mapping[str, str]) -> bool:
    """Whether a context with the user's properties runs in a JVM that is started here."""
    local = is_local(user.get("spark.master", _DEFAULTS["spark.master"]))
    return local and jvms.can_start(properties_for(user), os.environ)


def check_joined(properties: Mapping[str, str]) -> None:
    """See whether the user's own session can run epochs.

    On one host nothing of a stage is lost but with all of it, and a task that is tried again
    refuses itself. On a cluster Spark would run the lost part of a stage again whose other parts
    were used, and a task cannot tell.

    Raises:
        ForcedSparkPropertyError: If it runs a part of an epoch twice.
    """
    local = is_local(properties.get("spark.master", "local"))
    for name, usual in _JOINED_LOCAL.items() if local else _JOINED.items():
        value = properties.get(name, usual).lower()
        if value != _FORCED[name]:
            said = "" if name in properties else ", Spark's default"
            msg = f"the Spark session has {name} at {value}{said}"
            raise ForcedSparkPropertyError(
                msg,
                why="a task that runs twice at the same time would write its state twice, and a "
                "stage of which a part runs again would mix two runs of one epoch",
                fix=f'build the session with .config("{name}", "{_FORCED[name]}")',
                fields={"property": name},
            )


@contextmanager
def _environment(**values: str) -> Generator[None]:
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
    properties = properties_for(with_submitted(user))
    installed = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    check_jars(properties["spark.master"], Path(installed))
    wheel = None if is_local(properties["spark.master"]) else carry()
    if wheel is not None:
        properties |= carried_properties(properties, wheel)
    conf = SparkConf(loadDefaults=False)
    conf.setAppName(f"mustela {application_id}")
    for name, value in properties.items():
        conf.set(name, value)
    java = find_java()
    ask_no_test_helpers()
    here = {"SPARK_LOCAL_IP": properties.get("spark.driver.bindAddress")}
    if is_local(properties["spark.master"]):
        here["PYSPARK_PYTHON"] = sys.executable
    elif not os.environ.get("PYSPARK_PYTHON"):
        # As Spark does it: the Python of this name on each executor's host.
        here["PYSPARK_PYTHON"] = properties.get("spark.pyspark.python", sys.executable)
    with (
        _environment(
            JAVA_HOME=str(java.home),
            PYSPARK_PIN_THREAD="true",
            **{name: value for name, value in here.items() if value is not None},
        ),
        _own_jvm(java, properties, record, logs),
    ):
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


@contextmanager
def _own_jvm(
    java: Java, properties: Mapping[str, str], record: Path | None, logs: LogOptions | None
) -> Generator[None]:
    """Let a context that is made in the block find a JVM, where Spark's launcher is not needed."""
    spark: Any = SparkContext
    if spark._gateway is not None or not jvms.can_start(properties, os.environ):
        yield
        return
    scratch = take_scratch()
    if record is None:
        started = _start_quickly(java, properties, scratch, logs)
    else:
        started = jvms.start(java, properties, scratch, archive=record, record=True)
    if started is None:
        give_back(scratch)
        yield  # Spark's launcher has the same trouble, and words for it
        return
    try:
        with jvms.gateway(started):
            yield
    except BaseException:
        if spark._gateway is None:
            jvms.end(started.process)
            give_back(scratch)
        raise
    gateway: Any = spark._gateway
    gateway.proc = started.process


def _start_quickly(
    java: Java, properties: Mapping[str, str], scratch: Path, logs: LogOptions | None
) -> jvms.Jvm | None:
    """Start a JVM with the archive of classes, if there is one; a bad one is deleted."""
    archive = jvms.find_archive(java)
    if archive is not None:
        started = jvms.start(java, properties, scratch, archive=archive, logs=logs)
        if started is not None:
            return started
        archive.unlink(missing_ok=True)
    return jvms.start(java, properties, scratch, logs=logs)


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
