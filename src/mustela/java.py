"""Choose the Java that Spark, the development broker and Kafka's tools run on.

Spark 4.2 runs on Java 17 and 21 and needs the module ``jdk.incubator.vector``. A machine often has
several Javas, and ``JAVA_HOME`` may name one of another version: the first suitable one is used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mustela.errors import EnvironmentFault

__all__ = [
    "SUPPORTED_VERSIONS",
    "Java",
    "JavaCandidate",
    "JavaNotFoundError",
    "apt_line",
    "find_java",
    "java_candidates",
    "user_cache",
]

SUPPORTED_VERSIONS = (17, 21)
NEEDED_MODULE = "jdk.incubator.vector"
JVM_ROOTS = (Path("/usr/lib/jvm"),)
ASK_TIMEOUT_S = 30
DEBIAN_WITH_JAVA_21 = 13

_VERSION_LINE = re.compile(r'^JAVA_VERSION="?([^"\n]+)"?', re.MULTILINE)
_MODULES_LINE = re.compile(r'^MODULES="?([^"\n]+)"?', re.MULTILINE)
_VERSION_SHOWN = re.compile(r'version "([^"]+)"')


class JavaNotFoundError(EnvironmentFault):
    """No installed Java can run Spark and Kafka."""

    code = "JAVA_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """An installed Java that Spark and Kafka can run on.

    Attributes:
        home: What ``JAVA_HOME`` must be for this Java.
        version: The whole version, such as ``17.0.15``.
        executable: The ``java`` program.
    """

    home: Path
    version: str
    executable: Path

    @property
    def feature(self) -> int:
        """The number by which people call the version, such as 17."""
        return feature_of(self.version)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return ``base`` changed so that a child process uses this Java.

        The locale becomes UTF-8: under ``LANG=C`` Java could not open paths with other letters.
        """
        path = os.pathsep.join([str(self.home / "bin"), base.get("PATH", os.defpath)])
        return {**base, "JAVA_HOME": str(self.home), "PATH": path, "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaCandidate:
    """A Java that was looked at.

    Attributes:
        home: Its directory.
        version: Its version, empty if it could not be found out.
        refusal: Why it is not suitable; empty if it is.
    """

    home: Path
    version: str
    refusal: str


def find_java(
    environment: Mapping[str, str] | None = None, *, roots: Sequence[Path] = JVM_ROOTS
) -> Java:
    """Return the first suitable Java: ``JAVA_HOME``, ``PATH``, then the newest that is installed.

    Nothing is started when the Java's own ``release`` file says enough.

    Args:
        environment: Where ``JAVA_HOME`` and ``PATH`` are read; this process's own by default.
        roots: Directories that hold installed Javas.

    Raises:
        JavaNotFoundError: If none has a supported version and all modules that Spark needs.
    """
    refused: list[JavaCandidate] = []
    for candidate in java_candidates(environment, roots=roots):
        if not candidate.refusal:
            executable = candidate.home / "bin" / "java"
            return Java(home=candidate.home, version=candidate.version, executable=executable)
        refused.append(candidate)
    versions = " or ".join(str(version) for version in SUPPORTED_VERSIONS)
    what = f"no Java {versions} found"
    raise JavaNotFoundError(
        what,
        evidence={str(candidate.home): candidate.refusal for candidate in refused},
        why=f"Spark and Kafka run on Java {versions} with the module {NEEDED_MODULE}",
        fix=apt_line(),
        fields={"refused": refused},
    )


def java_candidates(
    environment: Mapping[str, str] | None = None, *, roots: Sequence[Path] = JVM_ROOTS
) -> Iterator[JavaCandidate]:
    """Look at each installed Java once, in the order of preference.

    Args:
        environment: Where ``JAVA_HOME`` and ``PATH`` are read; this process's own by default.
        roots: Directories that hold installed Javas.

    Yields:
        Each Java with the reason why it is not suitable, if there is one.
    """
    variables = os.environ if environment is None else environment
    seen: set[Path] = set()
    for home in _homes(variables, roots):
        real = _resolved(home)
        if real not in seen:
            seen.add(real)
            yield _examine(real)


def apt_line(os_release: Path = Path("/etc/os-release"), *, user_id: int | None = None) -> str:
    """Return the line that installs a suitable Java on Debian and its relatives.

    Args:
        os_release: The file that names the distribution and its version.
        user_id: The user who will run it; this process's own by default.
    """
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    number = named.get("VERSION_ID", "").strip('"').split(".")[0]
    # Debian 13 and the Ubuntus of these years have Java 21; Debian 12 stops at 17.
    newer = number.isdigit() and int(number) >= DEBIAN_WITH_JAVA_21
    sudo = "" if (os.getuid() if user_id is None else user_id) == 0 else "sudo "
    return f"{sudo}apt-get install --yes openjdk-{21 if newer else 17}-jre-headless"


def feature_of(version: str) -> int:
    """Return the feature number of a version text: 17 for ``17.0.15``, 8 for ``1.8.0_402``.

    Returns 0 if the text is not a version.
    """
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return 0
    old_style = numbers[0] == "1" and len(numbers) > 1
    return int(numbers[1] if old_style else numbers[0])


def _homes(environment: Mapping[str, str], roots: Sequence[Path]) -> Iterator[Path]:
    named = environment.get("JAVA_HOME", "")
    if named:
        yield Path(named)
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield _resolved(Path(on_path)).parent.parent
    installed: list[tuple[int, Path]] = []
    for root in roots:
        if root.is_dir():
            # Skip links to a Java that is looked at anyway, and folders with only sources.
            found = [home for home in sorted(root.iterdir()) if (home / "bin" / "java").is_file()]
            installed += [(feature_of(_release(home)[0]), home) for home in found]
    for _, home in sorted(installed, key=lambda pair: pair[0], reverse=True):
        yield home


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _examine(home: Path) -> JavaCandidate:
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return JavaCandidate(home=home, version="", refusal="no program bin/java")
    version, modules = _release(home)
    if not version:
        version = _ask_version(executable)
    if not version:
        return JavaCandidate(home=home, version="", refusal="java -version says no version")
    if feature_of(version) not in SUPPORTED_VERSIONS:
        return JavaCandidate(home=home, version=version, refusal=f"it is Java {version}")
    if not modules:
        modules = _ask_modules(executable)
    refusal = "" if NEEDED_MODULE in modules else f"Java {version} without {NEEDED_MODULE}"
    return JavaCandidate(home=home, version=version, refusal=refusal)


def _release(home: Path) -> tuple[str, frozenset[str]]:
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", frozenset()
    version = _VERSION_LINE.search(text)
    modules = _MODULES_LINE.search(text)
    return (
        version.group(1) if version else "",
        frozenset(modules.group(1).split()) if modules else frozenset(),
    )


def _ask_version(executable: Path) -> str:
    found = _VERSION_SHOWN.search(_ask(executable, "-version"))
    return found.group(1) if found else ""


def _ask_modules(executable: Path) -> frozenset[str]:
    lines = _ask(executable, "--list-modules").splitlines()
    return frozenset(line.split("@")[0].strip() for line in lines)


def _ask(executable: Path, option: str) -> str:
    try:
        answer = subprocess.run(
            [str(executable), option],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout + answer.stderr


def user_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's directory for what Java loads: jars, classes."""
    variables = os.environ if environment is None else environment
    named = Path(variables.get("XDG_CACHE_HOME", ""))
    # The XDG rules say that a relative path is to be ignored.
    if not named.is_absolute():
        home = variables.get("HOME")
        named = (Path(home) if home else Path.home()) / ".cache"
    return named / "mustela"
