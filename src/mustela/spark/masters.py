"""What Spark must be told about the network for each kind of master."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mustela.errors import EnvironmentFault, UsageError

__all__ = [
    "MasterUnknownError",
    "MasterUnreachableError",
    "SparkJarsError",
    "SparkSecretError",
    "check_jars",
    "is_local",
    "network_properties",
    "open_to_all",
    "submitted_properties",
]

_KINDS = ("spark://", "yarn", "k8s://")
_JARS: Final = {"k8s://": "spark-kubernetes_*.jar", "yarn": "spark-yarn_*.jar"}
_LOOPBACK = "127.0.0.1"
_CRYPTO = "spark.network.crypto.enabled"
_DEFAULT: Final = re.compile(r"([^\s=]+)\s*=?\s*(.*)")
_SECRETS = ("spark.authenticate.secret", "spark.authenticate.secret.file")

_CLUSTER = {
    # The loss of a host is found out in seconds: until then an epoch waits for it. A driver that
    # was stopped for so long loses its executors, and the epoch runs again.
    "spark.network.timeout": "20s",
    # How often the driver looks whose heartbeat is that old: a host is given up so much later.
    "spark.network.timeoutInterval": "200ms",
    "spark.executor.heartbeatInterval": "4s",
    # What a lost host held is gone with it; fetching from it again and again only takes time.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    # Only tasks with a home wait for a core there; sooner it is dearer to read state elsewhere.
    # They wait as long for an executor that ended as they were placed. Any of the host will do.
    "spark.locality.wait": "1s",
    "spark.locality.wait.process": "0s",
    # What a lane receives comes from everywhere; where most of it is says nothing of its state.
    "spark.shuffle.reduceLocality.enabled": "false",
}


class MasterUnknownError(UsageError):
    """Spark knows no such master."""

    code = "SPARK_MASTER"


class MasterUnreachableError(EnvironmentFault):
    """There is no way from this host to Spark's master."""

    code = "SPARK_MASTER_UNREACHABLE"
    retryable = True


class SparkSecretError(UsageError):
    """Spark is to authenticate its processes, and nobody can bring them the secret."""

    code = "SPARK_SECRET"


class SparkJarsError(UsageError):
    """Spark is not installed with what it needs for its master."""

    code = "SPARK_JARS"


def check_jars(master: str, spark: Path) -> None:
    """See whether Spark is installed with the jars that a kind of master needs.

    Args:
        master: Spark's master.
        spark: Where Spark is installed.

    Raises:
        SparkJarsError: If it is not.
    """
    for kind, jar in _JARS.items():
        if master.startswith(kind) and not any((spark / "jars").glob(jar)):
            msg = f"Spark cannot run with {master}: {spark / 'jars'} has no {jar}"
            raise SparkJarsError(
                msg,
                why="an image that mustela image writes has only those jars of Spark's that an "
                "application on one host loads",
                fix="put all of them in: mustela image --all-jars",
                fields={"master": master},
            )


def is_local(master: str) -> bool:
    """Whether a master runs everything on the driver's host.

    Example:
        >>> is_local("local[4]"), is_local("spark://host:7077"), is_local("yarn")
        (True, False, False)
    """
    return master.startswith("local")


def likely_cores(user: Mapping[str, str]) -> int:
    """Return how many tasks a local context will run at once, as far as can be told without one.

    Example:
        >>> likely_cores({"spark.master": "local[3,1]"}), likely_cores({"spark.master": "local"})
        (3, 1)
    """
    named = user.get("spark.master", "local[*]")
    told = named.removeprefix("local").strip("[]").partition(",")[0].strip()
    if told.isdecimal():
        return int(told)
    return len(os.sched_getaffinity(0)) if told == "*" else 1


def network_properties(user: Mapping[str, str], *, master: str) -> dict[str, str]:
    """Return the defaults for addresses, ports, authentication and time limits.

    Locally everything listens on the loopback interface and has a secret of its own. YARN and
    Kubernetes bring a secret to the executors. A standalone master does not: its processes have one
    only if its administrator gave them one, and the user says it.

    Args:
        user: What the user says.
        master: Spark's master.

    Raises:
        MasterUnknownError: If Spark has no such kind of master.
        MasterUnreachableError: If nothing leads to a standalone master.
        SparkSecretError: If a standalone cluster is to authenticate without a secret.
    """
    if is_local(master):
        return {
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.authenticate": "true",
        }
    if not master.startswith(_KINDS):
        msg = f"{master!r} is no master of Spark's"
        raise MasterUnknownError(
            msg,
            why="the master says where epochs run",
            fix="set spark.master (or --master) to local[*], spark://HOST:7077, yarn or "
            "k8s://https://HOST:PORT",
        )
    if not master.startswith("spark://"):
        return {**_CLUSTER, "spark.authenticate": "true", _CRYPTO: "true"}
    return {**_CLUSTER, **_standalone_secret(user), **_address_towards(master, user)}


def _standalone_secret(user: Mapping[str, str]) -> dict[str, str]:
    wanted = user.get("spark.authenticate", "").lower()
    given = any(user.get(name) for name in _SECRETS)
    if wanted == "true" and not given:
        msg = "spark.authenticate is true, and no secret is set"
        raise SparkSecretError(
            msg,
            why="a standalone master takes only those who have its own secret, and brings it to "
            "nobody",
            fix="set spark.authenticate.secret to the one in the configuration of the master and "
            "its workers, or remove spark.authenticate",
        )
    on = str(given and wanted != "false").lower()
    return {"spark.authenticate": on, _CRYPTO: on}


def open_to_all(properties: Mapping[str, str]) -> str | None:
    """Return what is to be said of a cluster that lets everybody connect, or None.

    Example:
        >>> open_to_all({"spark.authenticate": "true"}) is None
        True
    """
    if properties.get("spark.authenticate", "false").lower() == "true":
        return None
    return (
        "this cluster has no secret: whoever reaches the driver's ports can run code in it; set "
        "spark.authenticate.secret, here and on the master and its workers"
    )


def _address_towards(master: str, user: Mapping[str, str]) -> dict[str, str]:
    """Return the address of this host that executors reach, which is where the master is reached.

    Raises:
        MasterUnreachableError: If nothing leads there.
    """
    said = os.environ.get("SPARK_LOCAL_IP")
    if "spark.driver.host" in user or said:
        return {"spark.driver.host": said} if said else {}
    trouble = ""
    for one in master.removeprefix("spark://").split(","):
        place = urlsplit(f"//{one}")
        try:
            found = socket.getaddrinfo(place.hostname, place.port or 7077, type=socket.SOCK_DGRAM)
            family, kind, _, _, target = found[0]
            with socket.socket(family, kind) as probe:
                probe.connect(target)  # sends nothing: it only asks for the way
                return {"spark.driver.host": str(probe.getsockname()[0])}
        except (OSError, ValueError) as error:
            trouble = str(error)
    msg = f"nothing leads from this host to Spark's master {master}: {trouble}"
    raise MasterUnreachableError(
        msg,
        why="executors connect to the driver at the address from which it reaches the master",
        fix="check the master's name and port, or set spark.driver.host to this host's address",
    )


def submitted_properties(context: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what was given to ``spark-submit``, or stands in Spark's file of defaults.

    Args:
        context: PySpark's class of contexts, whose JVM ``spark-submit`` may have started.
        environment: Variables.
    """
    if environment.get("PYSPARK_GATEWAY_PORT"):
        return _of_the_jvm(context)
    directory = environment.get("SPARK_CONF_DIR") or ""
    if not directory and environment.get("SPARK_HOME"):
        directory = f"{environment['SPARK_HOME']}/conf"
    file = Path(directory) / "spark-defaults.conf"
    if not directory or not file.is_file():
        return {}
    return _parsed(file.read_text(encoding="utf-8"))


def _of_the_jvm(context: Any) -> dict[str, str]:
    context._ensure_initialized()
    found = context._jvm.org.apache.spark.SparkConf(True).getAll()
    return {str(one._1()): str(one._2()) for one in found}


def _parsed(text: str) -> dict[str, str]:
    r"""Return the properties of Spark's file of defaults.

    Example:
        >>> _parsed("# ours\nspark.master  spark://a:7077\nspark.x=1\n\n")
        {'spark.master': 'spark://a:7077', 'spark.x': '1'}
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        said = line.strip()
        if said and not said.startswith(("#", "!")):
            split = _DEFAULT.fullmatch(said)
            if split is not None and split[1].startswith("spark."):
                found[split[1]] = split[2]
    return found
