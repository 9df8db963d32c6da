"""Starts Spark's executor in a pod: ``python -m mustela.spark.executor_pod executor``.

What Spark's own image does with a shell script, so that an image which can run an application can
run its executors, too. The pod has an environment that Spark's driver made.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mustela.errors import MustelaError, UsageError
from mustela.java import find_java
from mustela.spark.masters import check_jars

__all__ = ["ExecutorPodError", "command_of", "main"]

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


class ExecutorPodError(UsageError):
    """This is no pod that Spark made for an executor."""

    code = "EXECUTOR_POD"


def command_of(environment: Mapping[str, str], spark: Path, java: Path) -> list[str]:
    """Return the command of an executor.

    Args:
        environment: What Spark's driver gave to the pod.
        spark: PySpark's directory, with Spark's jars.
        java: The program.

    Raises:
        ExecutorPodError: If Spark did not make the pod.
        SparkJarsError: If the image lacks Spark's jars for Kubernetes.

    Example:
        >>> command_of({}, Path("/opt/pyspark"), Path("/usr/bin/java"))
        Traceback (most recent call last):
            ...
        mustela.spark.executor_pod.ExecutorPodError: this is no pod of a Spark executor: ...
    """
    needed = (*_ARGUMENTS.values(), "SPARK_EXECUTOR_MEMORY")
    missing = [name for name in needed if not environment.get(name)]
    if missing:
        msg = f"this is no pod of a Spark executor: {missing[0]} is not set"
        raise ExecutorPodError(
            msg,
            why="only Spark's driver starts executors, in pods that it makes",
            fix="run the application with what its manifests for executors say: they start it",
        )
    check_jars("k8s://", spark)
    options = {
        int(found[1]): value
        for name, value in environment.items()
        if (found := _JAVA_OPTION.fullmatch(name))
    }
    own = f"{spark}/jars/*"
    places = (environment.get("SPARK_CONF_DIR"), environment.get("SPARK_CLASSPATH"), own)
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    return [
        str(java),
        *(options[number] for number in sorted(options)),
        f"-Xmx{memory}",
        "-cp",
        ":".join(place for place in places if place),
        _BACKEND,
        *(part for name, of in _ARGUMENTS.items() for part in (name, environment[of])),
    ]


def main() -> None:
    """Become the executor: the JVM takes the place of this process, and gets its signals."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    spark = Path(found.origin).parent
    try:
        java = find_java()
        command = command_of(os.environ, spark, java.executable)
    except MustelaError as error:
        sys.exit(f"error: {error}")
    os.execve(command[0], command, {**java.environment(os.environ), "SPARK_HOME": str(spark)})


if __name__ == "__main__":
    main()
