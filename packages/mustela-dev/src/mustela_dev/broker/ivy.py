"""Fetches jars by their Maven coordinates, with the Ivy that PySpark ships."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from mustela.errors import EnvironmentFault, UsageError
from mustela.java import Java

__all__ = [
    "JarsDownloadError",
    "MirrorError",
    "PySparkJarsError",
    "fetch",
    "pyspark_jars",
    "without_password",
]

ATTEMPTS_MAX = 3
CONNECT_TIMEOUT_MS = 20_000
READ_TIMEOUT_MS = 60_000
TAIL_LINES = 8
_MIRROR_SCHEMES = ("http", "https", "file")
_ADDRESS_PASSWORD = re.compile(r"//[^/\s@]+@")
_JAR_ARRIVED = "[SUCCESSFUL ]"


class JarsDownloadError(EnvironmentFault):
    """The jars could not be fetched."""

    code = "JARS_DOWNLOAD_FAILED"
    retryable = True


class PySparkJarsError(EnvironmentFault):
    """PySpark, or a jar that it should contain, is not installed."""

    code = "JARS_NO_PYSPARK"


class MirrorError(UsageError):
    """The mirror is not the address of a Maven repository."""

    code = "JARS_MIRROR"


def pyspark_jars(pattern: str) -> list[Path]:
    """Return PySpark's own jars whose names match ``pattern``, without importing PySpark.

    Raises:
        PySparkJarsError: If there is none.
    """
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    found = sorted(jar for place in places for jar in (Path(place) / "jars").glob(pattern))
    if not found:
        what = f"no jar {pattern} in the installed PySpark"
        raise PySparkJarsError(what, fix="pip install --force-reinstall 'pyspark>=4.2,<4.3'")
    return found


def without_password(address: str) -> str:
    """Return ``address`` without the user and password that it may carry."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def fetch(  # noqa: PLR0913 - one call of a program, all of it named
    coordinates: Sequence[str],
    target: Path,
    *,
    java: Java,
    work: Path,
    transitive: bool,
    mirror: str | None,
    environment: Mapping[str, str],
    on_jar: Callable[[], None],
) -> None:
    """Fetch ``coordinates``, and what they depend on, as flat files in ``target``.

    Args:
        coordinates: ``organisation:module:revision`` each.
        target: Directory for the jars.
        java: Runs Ivy.
        work: Empty directory for Ivy's own files, instead of its usual place in HOME.
        transitive: Whether dependencies are fetched too.
        mirror: URL of a Maven repository to use instead of Ivy's default.
        environment: For proxies and as the environment of the Java process.
        on_jar: Called once for each jar that has arrived.

    Raises:
        JarsDownloadError: If Ivy failed three times.
        MirrorError: If ``mirror`` is not a URL.
    """
    (work / "ivy.xml").write_text(_module_text(coordinates, transitive), encoding="utf-8")
    (work / "ivysettings.xml").write_text(_settings_text(mirror), encoding="utf-8")
    command = [
        str(java.executable),
        f"-Dsun.net.client.defaultConnectTimeout={CONNECT_TIMEOUT_MS}",
        f"-Dsun.net.client.defaultReadTimeout={READ_TIMEOUT_MS}",
        *_proxy_options(environment),
        "-cp",
        str(pyspark_jars("ivy-*.jar")[0]),
        "org.apache.ivy.Main",
        *("-settings", str(work / "ivysettings.xml")),
        *("-cache", str(work / "cache")),
        *("-ivy", str(work / "ivy.xml")),
        *("-retrieve", f"{target}/[artifact]-[revision].[ext]"),
        *("-types", "jar", "bundle"),
    ]
    lines: list[str] = []
    for _ in range(ATTEMPTS_MAX):
        # What arrived stays in Ivy's cache, so a second attempt continues where the first ended.
        lines = []
        if _run(command, java.environment(environment), lines, on_jar) == 0:
            return
    what = f"could not download {', '.join(coordinates)}"
    raise JarsDownloadError(
        what,
        evidence={
            "mirror": without_password(mirror) if mirror else "none set",
            "ivy": _ADDRESS_PASSWORD.sub("//", "\n".join(lines[-TAIL_LINES:])),
        },
        why=f"Ivy gave up {ATTEMPTS_MAX} times",
        fix="check the network, set jars.mirror to a Maven repository you can reach, "
        "or jars.directory to a directory that has the jars",
    )


def _run(
    command: list[str], environment: Mapping[str, str], lines: list[str], on_jar: Callable[[], None]
) -> int:
    with subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "a pipe was requested"
        for line in process.stdout:
            if _JAR_ARRIVED in line:
                on_jar()
            if line.strip(" .\t\n"):
                lines.append(line.strip())
    return process.returncode


def _module_text(coordinates: Sequence[str], transitive: bool) -> str:
    rows: list[str] = []
    for coordinate in coordinates:
        organisation, module, revision = coordinate.split(":")
        rows.append(
            f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} "
            f'rev={quoteattr(revision)} conf="default-&gt;default" '
            f'transitive="{str(transitive).lower()}"/>'
        )
    return (
        '<ivy-module version="2.0"><info organisation="mustela" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(rows)}</dependencies></ivy-module>"
    )


def _settings_text(mirror: str | None) -> str:
    root = ""
    if mirror is not None:
        parts = urlsplit(mirror)
        if parts.scheme not in _MIRROR_SCHEMES or not (parts.netloc or parts.path):
            what = f"jars.mirror is {without_password(mirror)!r}, which is not a URL"
            raise MirrorError(what, fix="use the URL of a Maven repository, with https://")
        root = f" root={quoteattr(mirror)}"
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )


def _proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Return Java options for the proxies that other programs read from the environment."""
    options: list[str] = []
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        value = environment.get(name) or environment.get(name.upper()) or ""
        parts = urlsplit(value if "//" in value else f"//{value}")
        if parts.hostname:
            options.append(f"-D{scheme}.proxyHost={parts.hostname}")
            if parts.port:
                options.append(f"-D{scheme}.proxyPort={parts.port}")
    unproxied = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    hosts = [host.strip() for host in unproxied.split(",") if host.strip()]
    if options and hosts:
        patterns = "|".join(f"*{host}" if host.startswith(".") else host for host in hosts)
        options.append(f"-Dhttp.nonProxyHosts={patterns}")
    return options
