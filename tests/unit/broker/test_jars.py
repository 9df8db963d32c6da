"""Jar sets: sums, the cache, the offline directory, and downloads by a stand-in for Java."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mustela.java import Java
from mustela_dev.broker.ivy import JarsDownloadError, MirrorError, without_password
from mustela_dev.broker.jars import (
    JarRequest,
    JarsCacheError,
    JarSet,
    JarSettings,
    JarsMissingError,
    JarsSumMismatchError,
    UnknownJarSetError,
    jar_set,
    jar_set_names,
    jars_are_ready,
    jars_cache,
    resolve_jars,
)

FILES = {"one-1.0.jar": b"the first", "two-2.0.jar": b"the second"}


def the_set() -> JarSet:
    """A set of two small jars."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    return JarSet(name="small", coordinates=("org.test:one:1.0",), sums=sums, megabytes=1)


def fill(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (directory / name).write_bytes(data)
    return directory


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What the stand-in for a repository serves."""
    return fill(tmp_path / "repository")


@pytest.fixture
def request_with(tmp_path: Path, source: Path) -> Callable[..., JarRequest]:
    """Make requests whose Java copies jars as Ivy would, and notes how it was called."""
    program = tmp_path / "java"
    program.write_text(
        "#!/bin/sh\n"
        f"echo \"$@\" >> '{tmp_path}/calls'\n"
        'while [ $# -gt 0 ]; do case "$1" in\n'
        '  -retrieve) target=$(dirname "$2");;\n'
        f"  -settings) cp \"$2\" '{tmp_path}/settings';;\n"
        "esac; shift; done\n"
        f"if [ -e '{tmp_path}/fail' ]; then cat '{tmp_path}/fail'; exit 1; fi\n"
        f"for jar in '{source}'/*.jar; do\n"
        '  cp "$jar" "$target" && echo "[SUCCESSFUL ] $jar"\n'
        "done\n"
    )
    program.chmod(0o755)
    java = Java(home=tmp_path, version="17.0.1", executable=program)
    environment = {"HOME": str(tmp_path / "my home"), "PATH": os.environ["PATH"]}

    def make(
        settings: JarSettings | None = None, say: Callable[[str], None] = lambda _: None
    ) -> JarRequest:
        return JarRequest(settings=settings, environment=environment, java=java, say=say)

    return make


def calls(tmp_path: Path) -> list[str]:
    file = tmp_path / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_the_first_request_downloads_and_says_so(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """The message comes before the download: what, how much, where to. HOME may hold a blank."""
    said: list[str] = []
    assert not jars_are_ready(the_set(), request_with())
    jars = resolve_jars(the_set(), request_with(say=said.append))
    assert [jar.name for jar in jars] == sorted(FILES)
    assert [jar.read_bytes() for jar in jars] == [FILES[name] for name in sorted(FILES)]
    assert jars[0].is_relative_to(tmp_path / "my home" / ".cache" / "mustela" / "jars")
    assert said[0].startswith("downloading org.test:one:1.0: 2 jars, 1 MB")
    assert jars_are_ready(the_set(), request_with())


def test_the_second_request_downloads_nothing(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """Java is not even started."""
    first = resolve_jars(the_set(), request_with())
    said: list[str] = []
    assert resolve_jars(the_set(), request_with(say=said.append)) == first
    assert len(calls(tmp_path)) == 1
    assert said == []


def test_a_download_with_another_content_is_refused_and_leaves_nothing(
    tmp_path: Path, source: Path, request_with: Callable[..., JarRequest]
) -> None:
    """What a repository serves is believed only when its sum agrees."""
    (source / "two-2.0.jar").write_bytes(b"something else")
    with pytest.raises(JarsSumMismatchError) as caught:
        resolve_jars(the_set(), request_with())
    assert caught.value.code == "JARS_SUM_MISMATCH"
    assert caught.value.fields["differing"] == ["two-2.0.jar"]
    kept = list(jars_cache(request_with().environment).rglob("*.jar"))
    assert kept == []


def test_a_cached_jar_that_was_changed_is_refused(
    request_with: Callable[..., JarRequest],
) -> None:
    """Sums are read at every request, not only after the download; the fix names the directory."""
    jars = resolve_jars(the_set(), request_with())
    jars[0].write_bytes(b"changed")
    with pytest.raises(JarsSumMismatchError) as caught:
        resolve_jars(the_set(), request_with())
    assert str(jars[0].parent) in (caught.value.fix or "")


def test_a_cached_jar_that_went_away_is_downloaded_again(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """Cleaners of caches delete single files."""
    jars = resolve_jars(the_set(), request_with())
    jars[0].unlink()
    assert resolve_jars(the_set(), request_with()) == jars
    assert len(calls(tmp_path)) == 2


def test_a_repository_that_lacks_a_jar_is_an_error(
    source: Path, request_with: Callable[..., JarRequest]
) -> None:
    """A partial set never reaches the cache."""
    (source / "one-1.0.jar").unlink()
    with pytest.raises(JarsMissingError) as caught:
        resolve_jars(the_set(), request_with())
    assert caught.value.fields["absent"] == ["one-1.0.jar"]
    assert not jars_are_ready(the_set(), request_with())


def test_a_failed_download_is_tried_again_and_then_told(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """The error carries Ivy's own words and both ways out; a later request may succeed."""
    (tmp_path / "fail").write_text("no such module")
    with pytest.raises(JarsDownloadError) as caught:
        resolve_jars(the_set(), request_with())
    assert caught.value.retryable
    assert "no such module" in caught.value.evidence["ivy"]
    assert "jars.mirror" in (caught.value.fix or "")
    assert len(calls(tmp_path)) == 3
    (tmp_path / "fail").unlink()
    assert len(resolve_jars(the_set(), request_with())) == 2


def test_a_mirror_reaches_ivy_and_its_password_no_message(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """A mirror's address may carry a user and a password."""
    said: list[str] = []
    address = "https://me:secret@mirror.example/maven?a=1&b=2"
    settings = JarSettings(mirror=address)
    resolve_jars(the_set(), request_with(settings=settings, say=said.append))
    written = (tmp_path / "settings").read_text()
    assert 'root="https://me:secret@mirror.example/maven?a=1&amp;b=2"' in written
    assert "mirror.example" in said[0]
    assert "secret" not in "".join(said)
    (tmp_path / "fail").write_text("cannot reach https://me:secret@mirror.example/maven/one.pom")
    jars_cache(request_with().environment).rename(tmp_path / "aside")
    with pytest.raises(JarsDownloadError) as caught:
        resolve_jars(the_set(), request_with(settings=settings))
    assert "https://mirror.example/maven/one.pom" in caught.value.evidence["ivy"]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["mirror.example", "ftp://mirror.example", "https://"])
def test_a_mirror_that_is_no_address_is_refused(
    address: str, request_with: Callable[..., JarRequest]
) -> None:
    """Before anything is downloaded."""
    with pytest.raises(MirrorError):
        resolve_jars(the_set(), request_with(settings=JarSettings(mirror=address)))


def test_a_request_shows_no_secrets() -> None:
    """The environment and the mirror's address may hold some."""
    settings = JarSettings(mirror="https://me:secret@mirror.example/")
    assert "secret" not in repr(JarRequest(settings=settings, environment={"TOKEN": "secret"}))


def test_an_address_is_shown_without_its_password() -> None:
    """The rest of it stays as it is."""
    assert without_password("https://u:p@h.example:8443/x") == "https://h.example:8443/x"
    assert without_password("https://h.example/x") == "https://h.example/x"


@pytest.mark.parametrize("folder", ["", "small"])
def test_an_offline_directory_is_used_as_it_is(
    tmp_path: Path, folder: str, request_with: Callable[..., JarRequest]
) -> None:
    """Nothing is copied or downloaded; sets may share the directory or have one each."""
    place = fill(tmp_path / "offline" / folder)
    settings = JarSettings(directory=tmp_path / "offline")
    jars = resolve_jars(the_set(), request_with(settings=settings))
    assert jars == tuple(place / name for name in sorted(FILES))
    assert calls(tmp_path) == []
    assert not (tmp_path / "my home").exists()


def test_the_environment_says_where_jars_are(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """A broker that a test starts finds them as the commands do; what a program says wins."""
    place = fill(tmp_path / "offline")
    asked = request_with()
    told = replace(asked, environment={**asked.environment, "MUSTELA__JARS__DIRECTORY": str(place)})
    assert resolve_jars(the_set(), told) == tuple(place / name for name in sorted(FILES))
    assert calls(tmp_path) == []
    assert not jars_are_ready(the_set(), replace(told, settings=JarSettings()))
    mirror = {**asked.environment, "MUSTELA__JARS__MIRROR": "https://mirror.example/maven"}
    said: list[str] = []
    resolve_jars(the_set(), replace(asked, environment=mirror, say=said.append))
    assert said[0].endswith("from https://mirror.example/maven")


def test_an_offline_directory_is_checked_too(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """Absent jars and changed jars are different errors; neither is mended by a download."""
    offline = fill(tmp_path / "offline")
    asked = request_with(settings=JarSettings(directory=offline))
    (offline / "one-1.0.jar").write_bytes(b"changed")
    with pytest.raises(JarsSumMismatchError):
        resolve_jars(the_set(), asked)
    (offline / "one-1.0.jar").unlink()
    assert not jars_are_ready(the_set(), asked)
    with pytest.raises(JarsMissingError) as caught:
        resolve_jars(the_set(), asked)
    assert caught.value.fields["absent"] == ["one-1.0.jar"]
    assert calls(tmp_path) == []


def test_a_process_that_waited_finds_the_jars_of_the_other(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """One downloads, the other waits and takes the same files."""
    cache = jars_cache(request_with().environment)
    cache.mkdir(parents=True)
    name = f"small-{the_set().fingerprint}"
    other = (cache / f"{name}.lock").open("ab")
    fcntl.flock(other, fcntl.LOCK_EX)
    said: list[str] = []

    def the_other_is_done(message: str) -> None:
        said.append(message)
        fill(cache / name)
        other.close()

    jars = resolve_jars(the_set(), request_with(say=the_other_is_done))
    assert said == ["another process is downloading the same jars: waiting for it"]
    assert [jar.parent.name for jar in jars] == [name, name]
    assert calls(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_an_error(
    tmp_path: Path, request_with: Callable[..., JarRequest]
) -> None:
    """It names the directory and the settings that help."""
    (tmp_path / "my home").write_text("a file, not a directory")
    with pytest.raises(JarsCacheError) as caught:
        resolve_jars(the_set(), request_with())
    assert "XDG_CACHE_HOME" in (caught.value.fix or "")


def test_a_set_without_sums_is_refused() -> None:
    """Nothing runs that was not tested: neither an unknown name nor a set without sums."""
    with pytest.raises(UnknownJarSetError) as caught:
        jar_set("no-such-set")
    assert "kafka" in caught.value.evidence["known"]
    with pytest.raises(UnknownJarSetError):
        JarSet(name="bare", coordinates=("a:b:1",), sums={})


def test_the_package_carries_the_sums_of_its_sets() -> None:
    """Each set reads, has a sum of the right form per jar, and names exact versions."""
    assert jar_set_names() == ["kafka", "kafka-streams", "kafka-tools", "spark-kafka"]
    for name in jar_set_names():
        chosen = jar_set(name)
        assert all(len(sum_) == 64 and int(sum_, 16) for sum_ in chosen.sums.values())
        assert all(file.endswith(".jar") and "/" not in file for file in chosen.sums)
        assert all(coordinate.count(":") == 2 for coordinate in chosen.coordinates)
    assert len(jar_set("kafka").sums) == 45


def test_no_set_holds_a_kafka_with_a_known_hole() -> None:
    """Clients before 3.9.2 and from 4.0.0 to 4.1.1 can write into the wrong topic."""
    for name in jar_set_names():
        for file in jar_set(name).sums:
            if file.startswith("kafka-clients-"):
                assert file in {"kafka-clients-4.1.2.jar", "kafka-clients-3.9.2.jar"}


def test_the_cache_lies_where_the_user_says() -> None:
    """XDG_CACHE_HOME when it is absolute, else .cache under HOME."""
    assert jars_cache({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/mustela/jars")
    assert jars_cache({"XDG_CACHE_HOME": "c", "HOME": "/h"}) == Path("/h/.cache/mustela/jars")
    assert jars_cache({"HOME": "/h"}) == Path("/h/.cache/mustela/jars")
