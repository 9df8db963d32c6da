"""The JVM of an application that runs Spark inside its own process, started without a detour.

Spark's own launcher is a script that starts one JVM to learn how to start another, and it adds
modules that print warnings. For a Spark that is PySpark's own and runs on this host, all it would
say is known: this module starts the JVM itself, with a log that begins at real warnings and, where
`mustela.spark.archive` has made one, an archive of the classes that a start loads. Whatever differs
(a cluster, an installed Spark, launcher settings) is left to Spark's launcher.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64

from mustela.java import Java, user_cache
from mustela.logs.options import LogOptions
from mustela.processes import boot_id
from mustela.spark.jars import class_path, wants_all
from mustela.spark.jvm_log import relay

__all__ = [
    "MODULE_OPTIONS",
    "Jvm",
    "Starting",
    "archive_directory",
    "archive_name",
    "archive_sum",
    "can_start",
    "end",
    "find_archive",
    "gateway",
    "ignore_interrupts",
    "log_settings",
    "start",
    "surroundings",
]

_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _PACKAGES),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark's launcher gives every JVM, but for the module of vectors: machine learning alone uses
it, and it cannot be added without a warning."""

_LAUNCHERS = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.memoryOverhead",
    "spark.submit.deployMode",
)
_VARIABLES = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DAEMON_MEMORY",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_JAVA_OPTS",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_MEM",
    "SPARK_SUBMIT_OPTS",
    "_JAVA_OPTIONS",
)
_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""Of the C library's memory, in the JVM and in the workers that come of it: threads would have up
to eight for each core, and what one of them gave back stays where it was."""

_CONNECTION = struct.Struct("!ii")
_PART_BYTES = 1 << 20
_PAUSE_S = 0.01
_START_TIMEOUT_S = 120.0
_MAIN = "org.apache.spark.deploy.SparkSubmit"


class Jvm(NamedTuple):
    """A JVM that waits for a Spark context.

    Attributes:
        process: The process; it ends when its standard input is closed.
        port: Where it listens.
        secret: What it wants to hear first.
    """

    process: subprocess.Popen[bytes]
    port: int
    secret: str


def can_start(properties: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether nothing asks for what only Spark's launcher does.

    Example:
        >>> can_start({"spark.master": "local[2]"}, {})
        True
        >>> can_start({"spark.master": "spark://host:7077"}, {})
        False
        >>> can_start({"spark.master": "local[2]"}, {"SPARK_HOME": "/opt/spark"})
        False
    """
    return (
        os.name == "posix"
        and properties.get("spark.master", "").startswith("local")
        and not any(name in properties for name in _LAUNCHERS)
        and not any(environment.get(name) for name in _VARIABLES)
        and not (_spark() / "conf").exists()
    )


class Starting:
    """A JVM that was started, and is not ready yet.

    Args:
        process: The process.
        directory: Where it writes down how to reach it; deleted by `wait` and `drop`.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], directory: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._process = process
        self._directory = directory

    def wait(self) -> Jvm | None:
        """Wait until the JVM is ready; None if it ended before."""
        process, ready = self._process, _ready_file(self._directory)
        deadline = time.monotonic() + _START_TIMEOUT_S  # noqa: TID251 - waits for a real process
        with self._directory:
            while process.poll() is None and not ready.exists():
                if time.monotonic() > deadline:  # noqa: TID251
                    process.kill()
                time.sleep(_PAUSE_S)
            if not ready.exists():
                end(process)
                return None
            return Jvm(process, *_connection(ready.read_bytes()))

    def drop(self) -> None:
        """End the JVM at once: nobody needs it."""
        end(self._process)
        self._directory.cleanup()


def start(
    java: Java,
    properties: Mapping[str, str],
    scratch: Path,
    *,
    archive: Path | None = None,
    record: bool = False,
    logs: LogOptions | None = None,
) -> Starting:
    """Start a JVM for a Spark context.

    Args:
        java: Which Java.
        properties: Spark's properties.
        scratch: Where it writes what only it needs, unless the properties say otherwise.
        archive: An archive of classes to use, or to write.
        record: Write the archive when the JVM ends.
        logs: How the application logs: what the JVM and its workers print takes this form.
    """
    directory = tempfile.TemporaryDirectory(prefix="mustela-jvm-")
    environment = {
        **surroundings(),
        "SPARK_HOME": str(_spark()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_ready_file(directory)),
    }
    # Its standard input is its life: the JVM ends when this process does, however that ends.
    # Ctrl-C is not for it: the application closes it when the last epoch is done.
    process = subprocess.Popen(
        _command(java, properties, scratch, archive, record=record, lines=logs is not None),
        stdin=subprocess.PIPE,
        stdout=None if logs is None else subprocess.PIPE,
        stderr=None if logs is None else subprocess.PIPE,
        env=environment,
        preexec_fn=ignore_interrupts,
    )
    if logs is not None:
        relay(process, logs)
    return Starting(process, directory)


def _ready_file(directory: tempfile.TemporaryDirectory[str]) -> Path:
    return Path(directory.name) / "connection"


def _connection(said: bytes) -> tuple[int, str]:
    """Return port and secret as the JVM wrote them down: two numbers, and the secret's bytes."""
    port, length = _CONNECTION.unpack_from(said)
    return port, said[_CONNECTION.size : _CONNECTION.size + length].decode()


def _command(
    java: Java,
    properties: Mapping[str, str],
    scratch: Path,
    archive: Path | None,
    *,
    record: bool,
    lines: bool,
) -> list[str]:
    classes: list[str] = []
    if archive is not None and record:
        classes = [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    elif archive is not None:
        # An archive that does not fit is passed over in silence. At the address that it was made
        # for, nothing of it is rewritten: three fifths of its pages stay the file's, which JVMs
        # share and the kernel may drop. Elsewhere, as Java 17 and later do, all become memory.
        classes = [
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:ArchiveRelocationMode=0",
            f"-XX:SharedArchiveFile={archive}",
            "-Xshare:auto",
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
            "-Xlog:cds=off",
        ]
    confs = [word for name, value in properties.items() for word in ("--conf", f"{name}={value}")]
    return [
        str(java.executable),
        "-cp",
        os.pathsep.join(
            map(str, class_path(_spark(), everything=wants_all(properties, sys.modules)))
        ),
        f"-Xmx{properties.get('spark.driver.memory', '1g')}",
        *classes,
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j.configurationFile={log_settings(lines=lines)}",
        *shlex.split(properties.get("spark.driver.extraJavaOptions", "")),
        *MODULE_OPTIONS,
        _MAIN,
        *confs,
        "pyspark-shell",
    ]


def log_settings(*, lines: bool = False) -> Path:
    """Return the settings of Spark's log: warnings and worse, without those of every start.

    Args:
        lines: JSON lines on standard output, for the driver; else text on standard error.
    """
    name = "log4j2-lines.properties" if lines else "log4j2.properties"
    return Path(__file__).with_name(name)


def archive_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return where this user's archives of classes are."""
    variables = os.environ if environment is None else environment
    return user_cache(variables) / "classes"


def archive_name(java: Java) -> str:
    """Return the first part of an archive's name: what it was made for.

    To a class path with all jars it does not fit; such a JVM passes it over.
    """
    jars = class_path(_spark())
    said = [str(java.home), java.version, str(_spark())]
    said += [f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def archive_sum(file: Path) -> str:
    """Return the sum of an archive, which is the second part of its name."""
    total = xxh3_64()
    with file.open("rb") as data:
        while part := data.read(_PART_BYTES):
            total.update(part)
    return total.hexdigest()


def find_archive(java: Java, environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the archive for this Java and these jars, if there is one; a damaged one is deleted.

    The JVM itself would end with a signal where a file has been cut short. So the first start after
    a boot reads all of it and notes size and time; for the next ones these are enough.
    """
    for file in archive_directory(environment).glob(f"{archive_name(java)}-*.jsa"):
        try:
            if _is_whole(file):
                return file
            file.unlink(missing_ok=True)
        except OSError:
            continue
    return None


def _is_whole(file: Path) -> bool:
    """Whether an archive is what was written, as far as its name or an earlier look tells."""
    there = file.stat()
    now = f"{boot_id()} {there.st_ino} {there.st_size} {there.st_mtime_ns}"
    note = file.with_suffix(".seen")
    if boot_id() and note.exists() and note.read_text(encoding="utf-8") == now:
        return True
    if file.stem.rpartition("-")[2] != archive_sum(file):
        return False
    with suppress(OSError):  # the next start reads it again
        note.write_text(now, encoding="utf-8")
    return True


@cache
def _spark() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        msg = "PySpark is not installed"
        raise ModuleNotFoundError(msg, name="pyspark")
    return Path(found.origin).parent


def surroundings() -> dict[str, str]:
    """Return the environment of this process, for one that it starts."""
    return {**_ARENAS, **os.environ}


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the application, which ends its processes when the last epoch is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a JVM at once."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


@contextmanager
def gateway(jvm: Jvm) -> Generator[None]:
    """Let PySpark find a JVM while it makes its gateway."""
    own = {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)
