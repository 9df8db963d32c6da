"""Spark's properties: Mustela's defaults, the user's, and those that nobody can change."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from mustela.errors import UsageError
from mustela.spark import jvm as jvms
from mustela.spark.masters import is_local, network_properties, submitted_properties

__all__ = [
    "ForcedSparkPropertyError",
    "can_begin_without",
    "check_joined",
    "forced_properties",
    "properties_for",
    "starts_directly",
    "with_submitted",
]

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_HEAP_LOCAL = (
    " -Xmn8m -Xms48m -XX:MinHeapFreeRatio=25 -XX:MaxHeapFreeRatio=40 -XX:-ShrinkHeapInSteps"
    " -XX:TrimNativeHeapInterval=10000"
)
"""The JVM's heap where records go by file. The young generation is all touched, however little is
in it. The old one begins small, is collected before it grows, and keeps two fifths of itself free
at most: else it begins with a sixty-fourth of the machine's memory, and what is dead in it is left
there until ten minutes have gone by. It may still grow to ``spark.driver.memory``. What the C
library holds for nobody goes back every ten seconds, where this Java can do that: 8 MB."""

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


_HARMLESS = (
    "spark.app.name",
    "spark.driver.",
    "spark.local.dir",
    "spark.master",
    "spark.sql.",
    "spark.ui.",
)
"""So begin properties that change nothing for a worker."""


class ForcedSparkPropertyError(UsageError):
    """The user set a Spark property that the epoch protocol depends on."""

    code = "SPARK_PROPERTY_FORCED"


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


def with_submitted(user: Mapping[str, str], context: Any) -> dict[str, str]:
    """Return the user's properties, and what they do not say but ``spark-submit`` was given.

    Its ``--master`` holds against a setting: whoever submits has prepared for it. ``local[*]`` is
    also what it says if nobody named a master, and that gives way.

    Args:
        user: The user's properties.
        context: PySpark's class of contexts, whose JVM ``spark-submit`` may have started.
    """
    found = submitted_properties(context, os.environ)
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


def can_begin_without(user: Mapping[str, str]) -> bool:
    """Whether nothing that the user has set concerns workers, so that they need not be Spark's.

    Example:
        >>> can_begin_without({"spark.master": "local[2]"})
        True
        >>> can_begin_without({"spark.executorEnv.TOKEN": "secret"})
        False
    """
    return all(name.startswith(_HARMLESS) for name in user)


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
