"""Which Debian packages go into an image: resolved, pinned by their sums, and fetched, all by apt.

apt resolves against what Debian has signed, and knows the mirrors, proxies and passwords of this
machine; the lock names none of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mustela.deploy.image.errors import ImageLockError, PackagesError
from mustela.deploy.image.layouts import digest_of

__all__ = ["DEFAULT_PACKAGES", "LOCK_NAME", "Apt", "Package", "PackageLock", "fetch", "make_lock"]

LOCK_NAME = "image.lock"
DEFAULT_PACKAGES = (
    "base-files",
    "bash",
    "ca-certificates",
    "coreutils",
    "dash",
    "python3",
    "tzdata",
)
"""What an image has besides a Java; with all that they need."""

_JAVAS = ("openjdk-21-jre-headless", "openjdk-17-jre-headless")
_FORMAT = 1
_APT_HELPER = Path("/usr/lib/apt/apt-helper")
_KEPT_MAX = 500
"""Packages of some locks."""

_FETCH_TIMEOUT_S = 1800
_ASK_TIMEOUT_S = 120
_INSTALL = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Debian package.

    Attributes:
        name: Its name.
        version: Its version.
        architecture: Of its programs; ``all`` if it has none.
        path: Where it is in an archive.
        size: Its bytes.
        sha256: Their sum.
    """

    name: str
    version: str
    architecture: str
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageLock:
    """The Debian packages of an image.

    Attributes:
        suite: The codename of the release, such as ``bookworm``.
        architecture: What processor they are for, as Debian calls it.
        requested: The packages that were asked for; the others are needed by them.
        packages: All of them, by name.
    """

    suite: str
    architecture: str
    requested: tuple[str, ...]
    packages: tuple[Package, ...]

    @classmethod
    def load(cls, file: Path) -> PackageLock:
        """Read a lock.

        Raises:
            ImageLockError: If there is none, or it is another version's.
        """
        make = f"mustela image lock --output {file}"
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if found["format"] != _FORMAT:
                msg = f"{file} has format {found['format']}; this release reads {_FORMAT}"
                raise ImageLockError(msg, fix=make)
            packages = tuple(Package(**one) for one in found["packages"])
            return cls(
                suite=found["suite"],
                architecture=found["architecture"],
                requested=tuple(found["requested"]),
                packages=packages,
            )
        except FileNotFoundError:
            msg = f"there is no lock of Debian packages at {file}"
            raise ImageLockError(msg, fix=f"{make}, or name an image to build on: --base") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = f"{file} cannot be read as a lock of Debian packages"
            raise ImageLockError(msg, evidence={"error": error}, fix=make) from error

    def text(self) -> str:
        """Return what its file holds: a line for each package, for whoever reads a change of it."""
        head = {
            "format": _FORMAT,
            "suite": self.suite,
            "architecture": self.architecture,
            "requested": list(self.requested),
        }
        lines = ",\n  ".join(json.dumps(asdict(one)) for one in self.packages)
        fields = "".join(
            f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items()
        )
        return f'{{\n{fields} "packages": [\n  {lines}\n ]\n}}\n'


class Apt:
    """This machine's apt, with no package installed as far as it knows.

    Args:
        work: A directory for what it writes.
        sources: A file in the form of ``sources.list`` to use in place of this machine's own.
    """

    def __init__(self, work: Path, sources: Path | None = None) -> None:
        if shutil.which("apt-get") is None or not _APT_HELPER.exists():
            msg = "there is no apt on this machine, which resolves and fetches Debian's packages"
            fix = "build on Debian or Ubuntu, or name an image to build on: --base LAYOUT"
            raise PackagesError(msg, fix=fix)
        work.mkdir(parents=True, exist_ok=True)
        (work / "status").write_bytes(b"")
        self._options = [
            f"Dir::State::status={work / 'status'}",
            f"Dir::Cache::pkgcache={work / 'pkgcache.bin'}",
            f"Dir::Cache::srcpkgcache={work / 'srcpkgcache.bin'}",
            "APT::Sandbox::User=root",
            "Debug::NoLocking=true",
        ]
        if sources is not None:
            (work / "lists" / "partial").mkdir(parents=True, exist_ok=True)
            (work / "parts").mkdir(exist_ok=True)
            self._options += [
                f"Dir::Etc::sourcelist={sources.absolute()}",
                f"Dir::Etc::sourceparts={work / 'parts'}",
                f"Dir::State::lists={work / 'lists'}",
            ]
            self("apt-get", "-q", "update")

    def __call__(self, *command: str, timeout_s: float = _ASK_TIMEOUT_S) -> str:
        """Run one of its programs and return what it prints.

        Raises:
            PackagesError: If it fails.
        """
        program, *rest = command
        options = [word for option in self._options for word in ("-o", option)]
        ran = subprocess.run(
            [program, *options, *rest],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        if ran.returncode:
            said = [line for line in ran.stderr.splitlines() if line.startswith("E:")][:5]
            msg = f"{Path(program).name} {rest[0]} failed"
            evidence = {"apt": " ".join(said) or f"exit code {ran.returncode}"}
            raise PackagesError(msg, evidence=evidence, fix="apt-get update, then try again")
        return ran.stdout

    def knows(self, package: str) -> bool:
        """Whether there is a package of this name."""
        return bool(self("apt-cache", "search", "--names-only", f"^{re.escape(package)}$").strip())

    def archives(self) -> list[str]:
        """Return the addresses that packages are fetched from."""
        rows = self("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
        return list(dict.fromkeys(rows.split()))

    def suite(self) -> str:
        """Return the codename of the release that packages are fetched from."""
        names = self("apt-get", "indextargets", "--format", "$(CODENAME)", "Created-By: Packages")
        return min(names.split(), key=lambda name: ("-" in name, name), default="unknown")


def make_lock(apt: Apt, *, extra: Sequence[str] = ()) -> PackageLock:
    """Resolve what an image needs to the packages that Debian has now.

    Args:
        apt: Who knows them.
        extra: Packages besides those that every image needs.

    Raises:
        PackagesError: If apt fails, or has no Java.
    """
    java = next((name for name in _JAVAS if apt.knows(name)), None)
    if java is None:
        msg = "apt knows no Java that Spark runs on"
        raise PackagesError(
            msg, evidence={"looked for": ", ".join(_JAVAS)}, fix="apt-get update, then try again"
        )
    requested = sorted({*DEFAULT_PACKAGES, java, *extra})
    told = apt("apt-get", "-s", "-q", "install", "--no-install-recommends", *requested)
    chosen = [f"{name}={version}" for name, version in _INSTALL.findall(told)]
    packages = [_package(fields) for fields in _paragraphs(apt("apt-cache", "show", *chosen))]
    wanted = {tuple(one.split("=", 1)) for one in chosen}
    # apt shows what is installed here too, which has no place in an archive.
    found = {(one.name, one.version): one for one in packages if one and one.path}
    if missing := wanted - found.keys():
        msg = f"apt does not say where {', '.join(sorted(name for name, _ in missing))} can be had"
        raise PackagesError(msg, fix="apt-get update, then try again")
    architectures = {one.architecture for one in found.values()} - {"all"}
    return PackageLock(
        suite=apt.suite(),
        architecture=min(architectures, default="all"),
        requested=tuple(requested),
        packages=tuple(found[key] for key in sorted(wanted)),  # type: ignore[index]
    )


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line[0].isspace()]
        if lines:
            yield {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _package(fields: dict[str, str]) -> Package | None:
    if not {"Filename", "SHA256", "Size"} <= fields.keys():
        return None
    return Package(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        path=fields["Filename"],
        size=int(fields["Size"]),
        sha256=fields["SHA256"],
    )


def fetch(lock: PackageLock, apt: Apt, directory: Path) -> dict[str, Path]:
    """Return a file of each package: kept from before, or fetched; each has the locked sum.

    Args:
        lock: The packages.
        apt: Who fetches them.
        directory: Where they are kept.

    Raises:
        PackagesError: If one cannot be had any more.
    """
    directory.mkdir(parents=True, exist_ok=True)
    places = {one.name: directory / f"{one.name}_{one.sha256[:16]}.deb" for one in lock.packages}
    missing = [one for one in lock.packages if not _is_whole(one, places[one.name])]
    for archive in apt.archives() if missing else ():
        _fetch_from(archive, missing, apt, places)
        missing = [one for one in missing if not _is_whole(one, places[one.name])]
        if not missing:
            break
    if missing:
        names = ", ".join(f"{one.name} {one.version}" for one in missing[:5])
        msg = f"{len(missing)} of the locked packages cannot be had here any more: {names}"
        raise PackagesError(
            msg,
            why="a mirror keeps only the newest versions",
            fix="mustela image lock, or name a mirror that keeps all of them: --sources FILE",
        )
    _forget(directory, places.values())
    return places


def _forget(directory: Path, used: Iterable[Path]) -> None:
    for place in used:
        place.touch()
    kept = sorted(directory.glob("*.deb"), key=lambda place: -place.stat().st_mtime)
    for place in kept[_KEPT_MAX:]:
        place.unlink(missing_ok=True)


def _fetch_from(archive: str, missing: list[Package], apt: Apt, places: dict[str, Path]) -> None:
    wanted: list[str] = []
    for one in missing:
        places[one.name].unlink(missing_ok=True)
        wanted += [archive + one.path, str(places[one.name]), f"SHA256:{one.sha256}"]
    try:
        apt(str(_APT_HELPER), "download-file", *wanted, timeout_s=_FETCH_TIMEOUT_S)
    except PackagesError:
        return  # this archive lacks some: the next may have them; what came is checked


def _is_whole(package: Package, file: Path) -> bool:
    return file.is_file() and digest_of(file) == f"sha256:{package.sha256}"
