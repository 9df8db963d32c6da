"""What the doctor looks at: one function for each thing, each says what it found."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from mustela.cli.development import DEVELOPMENT, broker_line, development_part, install_line
from mustela.compiled import Form, form
from mustela.errors import MustelaError

if TYPE_CHECKING:
    from mustela.config.settings import Settings

__all__ = ["Finding", "Level", "examine"]

_MIB = 1 << 20
_GIB = 1 << 30
PYTHON_MIN, PYTHON_MAX = (3, 11), (3, 14)
MEMORY_MIN_BYTES = 3 * _GIB
DISK_WRONG_BYTES = 200 * _MIB
DISK_NOTE_BYTES = 2 * _GIB
TMPFS_NOTE_BYTES = _GIB
BROKER_TIMEOUT_S = 5.0
SHARED_MEMORY = Path("/dev/shm")
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"}
_PACKAGES = ("pyspark", "confluent-kafka", "lmdb", "msgspec", "pydantic-settings")


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: The thing.
        level: How bad it is.
        found: What there is.
        mend: What to do about it; empty where all is well.
    """

    name: str
    level: Level
    found: str
    mend: str = ""


def examine(bootstrap_servers: str | None = None) -> list[Finding]:
    """Look at everything; a thing that cannot even be looked at is a finding too."""
    findings = [_safely("python", examine_python), *_packages(), _safely("kernel", examine_form)]
    findings.append(_safely("java", examine_java))
    try:
        settings = _settings(bootstrap_servers)
    except MustelaError as error:
        findings.append(_of_error("settings", error))
        return findings
    source = settings.source_of("bootstrap_servers")
    examine_jars = development_part("examine_jars")
    if examine_jars is not None:
        findings.append(_safely("jars", lambda: examine_jars(settings)))
    findings.append(
        _safely("broker", lambda: examine_broker(settings, named=source != settings.DEFAULT))
    )
    findings.append(_safely("state", lambda: examine_directory("state", settings.state_dir)))
    temporary = Path(tempfile.gettempdir())
    findings.append(_safely("temporary", lambda: examine_directory("temporary", temporary)))
    findings.append(_safely("tmpfs", lambda: examine_tmpfs(SHARED_MEMORY)))
    findings.append(_safely("memory", examine_memory))
    findings.append(_safely("host name", examine_host_name))
    return findings


def _settings(bootstrap_servers: str | None) -> Settings:
    from mustela.cli.settings import loose_settings

    return loose_settings(bootstrap_servers=bootstrap_servers)


def _safely(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except MustelaError as error:
        return _of_error(name, error)
    except Exception as error:  # noqa: BLE001 - a doctor who faints helps nobody
        return Finding(
            name=name,
            level=Level.WRONG,
            found=f"cannot be looked at: {type(error).__name__}: {error}",
            mend="run mustela doctor --debug and report it",
        )


def _of_error(name: str, error: MustelaError) -> Finding:
    found = "; ".join([error.what, *(f"{key}: {value}" for key, value in error.evidence.items())])
    return Finding(
        name=name,
        level=Level.WRONG,
        found=" ".join(found.split()),
        mend=error.fix or error.why or "",
    )


def examine_python(running: tuple[int, int] | None = None) -> Finding:
    """Look at the version of Python."""
    found = running or sys.version_info[:2]
    shown = f"{'.'.join(map(str, found))} at {sys.executable}"
    if PYTHON_MIN <= found <= PYTHON_MAX:
        return Finding(name="python", level=Level.OK, found=shown)
    span = " to ".join(".".join(map(str, v)) for v in (PYTHON_MIN, PYTHON_MAX))
    return Finding(
        name="python",
        level=Level.WRONG,
        found=shown,
        mend=f"create an environment with Python {span}",
    )


def examine_form(running: Form | None = None) -> Finding:
    """Look at which form of the hot modules runs: slower is not wrong."""
    found = running or form()
    if found.compiled:
        return Finding(name="kernel", level=Level.OK, found=f"compiled, {found.why}")
    return Finding(name="kernel", level=Level.OK, found=f"plain Python: {found.why}")


def _packages() -> list[Finding]:
    import mustela

    findings = [Finding(name="mustela", level=Level.OK, found=mustela.__version__)]
    for package in _PACKAGES:
        try:
            findings.append(Finding(name=package, level=Level.OK, found=version(package)))
        except PackageNotFoundError:
            mend = "install mustela with pip, which installs what it needs"
            findings.append(
                Finding(name=package, level=Level.WRONG, found="not installed", mend=mend)
            )
    with contextlib.suppress(PackageNotFoundError):  # an application needs none
        found = version(DEVELOPMENT)
        level, mend = Level.OK, ""
        if found != mustela.__version__:
            level, mend = Level.WRONG, install_line()
        findings.append(Finding(name=DEVELOPMENT, level=level, found=found, mend=mend))
    return findings


def examine_java(environment: Mapping[str, str] | None = None) -> Finding:
    """Look for a Java that Spark and Kafka run on."""
    from mustela.java import find_java

    java = find_java(environment)
    return Finding(name="java", level=Level.OK, found=f"{java.version} in {java.home}")


def examine_broker(settings: Settings, *, named: bool) -> Finding:
    """Ask the broker for its cluster. Without one, it is only a note if nobody named any."""
    from mustela.config.clients import client_properties
    from mustela.connectors.kafka.admin import KafkaAdmin

    servers = settings.bootstrap_servers
    admin = KafkaAdmin(client_properties(settings, "admin"), timeout=BROKER_TIMEOUT_S)
    try:
        cluster = admin.cluster_id()
        topics = len(admin.topics())
    except MustelaError as error:
        if named:
            raise
        return Finding(
            name="broker",
            level=Level.NOTE,
            found=f"none answers at {servers}: {error.what}",
            mend=f"{broker_line()}, or set bootstrap_servers",
        )
    finally:
        admin.close()
    found = f"{servers}, cluster {cluster}, {topics} topics"
    return Finding(name="broker", level=Level.OK, found=found)


def examine_directory(name: str, directory: Path) -> Finding:
    """Look at a directory that is written to: rights, room, and whether the disk is a local one."""
    place = directory
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        mend = "set state_dir" if name == "state" else "set TMPDIR"
        return Finding(
            name=name,
            level=Level.WRONG,
            found=f"{directory} cannot be written",
            mend=f"{mend} to a directory that you can write to",
        )
    kind = _file_system(place)
    free = shutil.disk_usage(place).free
    found = f"{directory}, {free // _MIB} MiB free" + (f", {kind}" if kind else "")
    if name == "state" and kind in _NETWORK_FILE_SYSTEMS:
        mend = "set state_dir to a directory on a local disk: stores are mapped into memory"
        return Finding(name=name, level=Level.WRONG, found=found, mend=mend)
    if free < DISK_WRONG_BYTES:
        return Finding(name=name, level=Level.WRONG, found=found, mend="free space on that disk")
    if free < DISK_NOTE_BYTES:
        mend = "enough for the demo; free space before you keep large state there"
        return Finding(name=name, level=Level.NOTE, found=found, mend=mend)
    return Finding(name=name, level=Level.OK, found=found)


def _file_system(place: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the kind of the file system that holds a path; empty where it cannot be told."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    real = str(place.resolve())
    for line in lines:
        point, found = line.split()[1:3]
        point = point.replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def examine_tmpfs(place: Path) -> Finding:
    """Look at the room for state in memory."""
    if not place.is_dir():
        return Finding(
            name="tmpfs",
            level=Level.NOTE,
            found=f"{place} does not exist",
            mend="nothing to do unless state.backend is memory: then state is kept on disk",
        )
    free = shutil.disk_usage(place).free
    found = f"{place}, {free // _MIB} MiB free"
    if free < TMPFS_NOTE_BYTES:
        mend = (
            "nothing to do unless state.backend is memory: what does not fit is kept on disk; "
            "a container gets more with --shm-size"
        )
        return Finding(name="tmpfs", level=Level.NOTE, found=found, mend=mend)
    return Finding(name="tmpfs", level=Level.OK, found=found)


def examine_memory(limits: Sequence[Path] = _MEMORY_LIMITS) -> Finding:
    """Look at the memory of the machine, or of the container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in limits:
        with contextlib.suppress(OSError):
            limit = file.read_text(encoding="ascii").strip()
            # Where there is no limit it says max, or a number beyond all memory.
            total = min(total, int(limit)) if limit.isdigit() else total
    found = f"{total // _MIB} MiB, {os.cpu_count()} cores, {platform.machine()}"
    if total < MEMORY_MIN_BYTES:
        mend = "the demo with broker and Spark needs 4 GiB"
        return Finding(name="memory", level=Level.NOTE, found=found, mend=mend)
    return Finding(name="memory", level=Level.OK, found=found)


def examine_host_name() -> Finding:
    """Look whether the machine's own name resolves. Nothing of Mustela's depends on it."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return Finding(
            name="host name",
            level=Level.NOTE,
            found=f"{name} does not resolve",
            mend=f"nothing to do here; other programs may need a line '127.0.1.1 {name}' in "
            "/etc/hosts",
        )
    return Finding(name="host name", level=Level.OK, found=name)
