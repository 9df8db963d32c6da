"""Jar sets: named groups of jars, fetched once per user and checked against known checksums."""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mustela.errors import EnvironmentFault, UsageError
from mustela.java import Java, find_java, user_cache
from mustela_dev.broker import ivy
from mustela_dev.broker.locks import locked

__all__ = [
    "JarRequest",
    "JarSet",
    "JarSettings",
    "JarsCacheError",
    "JarsMissingError",
    "JarsSumMismatchError",
    "UnknownJarSetError",
    "jar_set",
    "jar_set_names",
    "jars_are_ready",
    "jars_cache",
    "resolve_jars",
]

SHOWN_MAX = 5
_PROGRESS_STEP = 10
_WAITING = "another process is downloading the same jars: waiting for it"


class UnknownJarSetError(UsageError):
    """No checksums are known for a jar set, so none of it may run."""

    code = "JARS_UNKNOWN_SET"


class JarsSumMismatchError(EnvironmentFault):
    """A jar is not the file that was tested."""

    code = "JARS_SUM_MISMATCH"


class JarsMissingError(EnvironmentFault):
    """The offline jar directory, or the repository, lacks a jar."""

    code = "JARS_MISSING"


class JarsCacheError(EnvironmentFault):
    """The jar cache cannot be written."""

    code = "JARS_CACHE"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """A named group of jars.

    Attributes:
        name: Its name, also that of its directory in the cache.
        coordinates: ``organisation:module:revision`` of the requested artifacts.
        sums: SHA-256 of every jar in it, in hexadecimal, by file name.
        transitive: Whether the dependencies of the coordinates are included.
        megabytes: Approximate size of a download.
    """

    name: str
    coordinates: tuple[str, ...]
    sums: Mapping[str, str]
    transitive: bool = True
    megabytes: int = 0

    def __post_init__(self) -> None:
        """Refuse a set without checksums: its jars could be anything.

        Raises:
            UnknownJarSetError: If there are no checksums.
        """
        if not self.sums:
            what = f"the jar set {self.name!r} has no checksums"
            raise UnknownJarSetError(what, why="only jars that were tested are run")

    @property
    def fingerprint(self) -> str:
        """Identifies this version of the set's contents."""
        rows = "\n".join(f"{self.sums[name]} {name}" for name in sorted(self.sums))
        return hashlib.sha256(rows.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSettings:
    """Where jars come from.

    Attributes:
        mirror: URL of a Maven repository to use instead of the default.
        directory: A directory that has the jars; nothing is downloaded then. The jars of a set are
            in it, or in its subdirectory with the set's name.
    """

    mirror: str | None = field(default=None, repr=False)
    directory: Path | None = None


def _silent(_message: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarRequest:
    """How to get jars: from where, with which Java, and who is notified of a download.

    Attributes:
        settings: Where the jars come from; default: the environment variables
            `MUSTELA__JARS__MIRROR` and `MUSTELA__JARS__DIRECTORY`.
        environment: For HOME, XDG_CACHE_HOME, JAVA_HOME and proxies.
        java: Runs Ivy; default: chosen when needed.
        say: Called with lines for the user if something is downloaded.
    """

    settings: JarSettings | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    java: Java | None = None
    say: Callable[[str], None] = _silent

    @property
    def source(self) -> JarSettings:
        """Where the jars come from, including the environment."""
        if self.settings is not None:
            return self.settings
        directory = self.environment.get("MUSTELA__JARS__DIRECTORY")
        return JarSettings(
            mirror=self.environment.get("MUSTELA__JARS__MIRROR") or None,
            directory=Path(directory) if directory else None,
        )


def jar_set_names() -> list[str]:
    """Return the names of the sets whose checksums are in the package."""
    files = importlib.resources.files("mustela_dev.broker").joinpath("sets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def jar_set(name: str) -> JarSet:
    """Return the set ``name``.

    Raises:
        UnknownJarSetError: If the package has no checksums for it.
    """
    known = jar_set_names()
    if name not in known:
        what = f"no jar set {name!r}"
        raise UnknownJarSetError(
            what,
            evidence={"known": ", ".join(known)},
            why="only jars with known checksums are run",
            fix="pass a JarSet with its checksums",
        )
    file = importlib.resources.files("mustela_dev.broker").joinpath("sets", f"{name}.toml")
    table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return JarSet(
        name=name,
        coordinates=tuple(table["coordinates"]),
        sums=dict(table["sha256"]),
        transitive=bool(table.get("transitive", True)),
        megabytes=int(table.get("megabytes", 0)),
    )


def jars_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory of this user's jars."""
    return user_cache(environment) / "jars"


def jars_are_ready(which: str | JarSet, request: JarRequest | None = None) -> bool:
    """Return whether all jars are there, without checking them and without downloading."""
    chosen = jar_set(which) if isinstance(which, str) else which
    asked = request or JarRequest()
    if asked.source.directory is not None:
        return not _absent(chosen, _offline_place(chosen, asked.source.directory))
    return not _absent(chosen, _cached_place(chosen, asked))


def resolve_jars(which: str | JarSet, request: JarRequest | None = None) -> tuple[Path, ...]:
    """Return the files of a jar set, checked against their checksums, downloading them if needed.

    Several processes may call this at once: one downloads, the others wait for it. A download
    appears in the cache completely or not at all.

    Args:
        which: The set, or the name of one whose checksums are in the package.
        request: Settings, environment, Java and where messages go.

    Raises:
        UnknownJarSetError: If no checksums are known for the set.
        JarsSumMismatchError: If a file differs from the one that was tested.
        JarsMissingError: If the offline directory or the repository lacks a file.
        JarsDownloadError: If the download failed.
        JarsCacheError: If the cache cannot be written.
        LockTimeoutError: If another process does not release the cache.
    """
    chosen = jar_set(which) if isinstance(which, str) else which
    asked = request or JarRequest()
    if asked.source.directory is not None:
        place = _offline_place(chosen, asked.source.directory)
        return _checked(chosen, place, "replace the files with those of the named versions")
    place = _cached_place(chosen, asked)
    if _absent(chosen, place):
        _download_once(chosen, place, asked)
    return _checked(chosen, place, f"rm -r '{place}', and they are downloaded again")


def _cached_place(chosen: JarSet, asked: JarRequest) -> Path:
    # The fingerprint lets two versions of Mustela share one cache.
    return jars_cache(asked.environment) / f"{chosen.name}-{chosen.fingerprint}"


def _offline_place(chosen: JarSet, directory: Path) -> Path:
    own = directory / chosen.name
    return own if own.is_dir() else directory


def _absent(chosen: JarSet, place: Path) -> list[str]:
    return [name for name in sorted(chosen.sums) if not (place / name).is_file()]


def _checked(chosen: JarSet, place: Path, fix: str) -> tuple[Path, ...]:
    absent = _absent(chosen, place)
    if absent:
        what = f"{len(absent)} of the {len(chosen.sums)} jars of {chosen.name!r} are not there"
        raise JarsMissingError(
            what,
            evidence={"directory": place, "absent": _shortened(absent)},
            fix=f"put the jars of {', '.join(chosen.coordinates)} and their dependencies there",
            fields={"absent": absent},
        )
    differing = [name for name, sum_ in chosen.sums.items() if _sha256(place / name) != sum_]
    if differing:
        what = f"{len(differing)} jars of {chosen.name!r} are not the files that were tested"
        raise JarsSumMismatchError(
            what,
            evidence={"directory": place, "differing": _shortened(differing)},
            why="their SHA-256 checksums differ from those in Mustela",
            fix=fix,
            fields={"differing": differing},
        )
    return tuple(place / name for name in sorted(chosen.sums))


def _shortened(names: list[str]) -> str:
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download_once(chosen: JarSet, place: Path, asked: JarRequest) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(place.with_name(f"{place.name}.lock"), lambda: asked.say(_WAITING)):
            if _absent(chosen, place):
                _download(chosen, place, asked)
    except OSError as problem:
        what = f"cannot write the jar cache {place.parent}: {problem.strerror}"
        raise JarsCacheError(
            what, fix="set XDG_CACHE_HOME to a writable directory, or jars.directory"
        ) from problem


def _download(chosen: JarSet, place: Path, asked: JarRequest) -> None:
    count = len(chosen.sums)
    source = asked.source.mirror
    asked.say(
        f"downloading {', '.join(chosen.coordinates)}: {count} jars, {chosen.megabytes} MB, "
        f"once, to {place}" + (f", from {ivy.without_password(source)}" if source else "")
    )
    arrived = 0

    def count_one() -> None:
        nonlocal arrived
        arrived += 1
        if arrived % _PROGRESS_STEP == 0:
            asked.say(f"{arrived} of {count} jars")

    with tempfile.TemporaryDirectory(prefix=f"{place.name}.", dir=place.parent) as scratch:
        work, jars = Path(scratch) / "ivy", Path(scratch) / "jars"
        work.mkdir()
        jars.mkdir()
        ivy.fetch(
            chosen.coordinates,
            jars,
            java=asked.java or find_java(asked.environment),
            work=work,
            transitive=chosen.transitive,
            mirror=source,
            environment=asked.environment,
            on_jar=count_one,
        )
        _checked(chosen, jars, "check jars.mirror: it serves files other than the tested ones")
        if place.exists():
            # Files of it are missing, or it would not be downloaded again.
            shutil.rmtree(place)
        jars.rename(place)
