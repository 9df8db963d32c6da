"""Debian packages in images: chosen and fetched by apt, checked, unpacked, and made to work."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mustela.cli.main import main
from mustela.deploy.image import locks
from mustela.deploy.image.errors import ImageLockError, PackagesError
from mustela.deploy.image.locks import Apt, Package, PackageLock, fetch, make_lock
from mustela.deploy.image.system import system_tree
from mustela.deploy.image.trees import Tree
from tests.unit.deploy.image.world import (
    ARCHITECTURE,
    PYTHON,
    make_deb,
    make_environment,
    make_project,
    unpack,
)

JAVA = "openjdk-17-jre-headless"
BLOCK = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
CERTIFICATES = {"Zeta_Root": b"der of zeta", "Alpha_Root": b"der of alpha"}


class Archive(Apt):
    """Debian's packages in a directory, and an apt that knows them.

    Args:
        directory: Where they are made.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory, self.files, self.fetched = directory, dict[str, Path](), list[str]()
        home = "usr/lib/jvm/java-17-openjdk-amd64"
        certificates = {
            f"usr/share/ca-certificates/mozilla/{name}.crt": BLOCK.format(
                base64.b64encode(der).decode()
            ).encode()
            for name, der in CERTIFICATES.items()
        }
        self.add(
            "base-files",
            {"bin": "usr/bin", "etc/os-release": b"NAME=Debian\n", "usr/share/man/x": b"man"},
        )
        self.add("bash", {"bin/bash": b"bash", "bin/su": b"su"})
        self.add("ca-certificates", certificates)
        self.add("coreutils", {"bin/ls": b"ls", "usr/share/doc/coreutils/copyright": b"GPL"})
        self.add("dash", {"bin/sh": "dash", "bin/dash": b"dash"})
        self.add("libc6", {"lib/x86_64-linux-gnu/libc.so.6": b"libc"})
        self.add("mawk", {"usr/bin/mawk": b"mawk"})
        self.add(JAVA, {f"{home}/bin/java": b"java", f"{home}/lib/modules": b"modules"})
        self.add("python3", {"usr/bin/python3": PYTHON})
        self.add(PYTHON, {f"usr/bin/{PYTHON}": b"python", f"usr/lib/{PYTHON}/abc.py": b"x = 1\n"})
        self.add("tzdata", {"usr/share/zoneinfo/Etc/UTC": b"TZif"})

    def add(self, name: str, files: Mapping[str, bytes | str], version: str = "1.0") -> None:
        control = f"Package: {name}\nVersion: {version}\nArchitecture: {ARCHITECTURE}\n"
        self.files[name] = make_deb(self.directory / f"{name}_{version}.deb", control, files)

    def __call__(self, *command: str, timeout_s: float = 0) -> str:
        program, *rest = command
        if "indextargets" in rest:
            return "steady-security\nsteady\n" if "$(CODENAME)" in rest else "one:/\ntwo:/\n"
        if program == "apt-cache" and rest[0] == "search":
            return JAVA if JAVA in rest[-1].replace("\\", "") else ""
        if rest[:1] == ["-s"]:
            asked = {*rest[4:], "libc6", "mawk", PYTHON}
            return "".join(f"Inst {name} ({self.version(name)} Debian:1 [x])\n" for name in asked)
        if rest[0] == "show":
            return "\n".join(self.shown(one.partition("=")[0]) for one in rest[1:])
        assert rest[0] == "download-file"
        for address, place, total in zip(rest[1::3], rest[2::3], rest[3::3], strict=True):
            self.fetched.append(address)
            name = address.rpartition("/")[2].partition("_")[0]
            if address.startswith("two:/") and name in self.files:
                Path(place).write_bytes(self.files[name].read_bytes())
                assert total.startswith("SHA256:")
        if rest[1].startswith("one:/"):
            msg = "404"
            raise PackagesError(msg)
        return ""

    def version(self, name: str) -> str:
        return self.files[name].stem.rpartition("_")[2]

    def shown(self, name: str) -> str:
        content = self.files[name].read_bytes()
        total = hashlib.sha256(content).hexdigest()
        more = f"Filename: pool/{name[0]}/{self.files[name].name}\nSize: {len(content)}\n"
        head = f"Package: {name}\nVersion: {self.version(name)}\nArchitecture: {ARCHITECTURE}\n"
        # What is installed on this machine is shown too, without a place in an archive.
        return f"{head}Description: {name}\n and more\n{more}SHA256: {total}\n\n{head}"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Debian's packages, small."""
    return Archive(tmp_path / "archive")


@pytest.fixture
def commands(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """Runs commands where apt knows the archive, from the directory of a project."""
    make_environment(tmp_path / "venv")
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module in ("mustela.deploy.image.locks", "mustela.deploy.image.build"):
        monkeypatch.setattr(f"{module}.Apt", lambda *_: archive)

    def run(*arguments: str) -> int:
        return main(["image", *arguments])

    return run


def test_a_lock_names_versions_and_sums_and_no_mirror(archive: Archive) -> None:
    """Each package on a line of its own; the same packages give the same text."""
    lock = make_lock(archive, extra=("mawk",))
    assert [one.name for one in lock.packages] == sorted(archive.files)
    assert (lock.suite, lock.architecture) == ("steady", ARCHITECTURE)
    assert {JAVA, "mawk", "python3", "ca-certificates"} <= set(lock.requested)
    bash = next(one for one in lock.packages if one.name == "bash")
    digest = hashlib.sha256(archive.files["bash"].read_bytes()).hexdigest()
    assert (bash.path, bash.sha256) == ("pool/b/bash_1.0.deb", digest)
    assert lock.text() == make_lock(archive, extra=("mawk",)).text()
    assert "one:" not in lock.text()
    assert [
        json.loads(row.rstrip(","))["name"] for row in lock.text().splitlines() if "sha256" in row
    ]


def test_packages_are_fetched_once_and_each_has_its_sum(archive: Archive, tmp_path: Path) -> None:
    """From whichever archive has it; what was damaged meanwhile is fetched again."""
    lock, kept = make_lock(archive), tmp_path / "kept"
    places = fetch(lock, archive, kept)
    assert [place.read_bytes() for place in places.values()] == [
        archive.files[name].read_bytes() for name in places
    ]
    asked = len(archive.fetched)
    assert fetch(lock, archive, kept) == places
    assert len(archive.fetched) == asked
    places["bash"].write_bytes(b"other")
    fetch(lock, archive, kept)
    assert {one.rpartition("/")[2] for one in archive.fetched[asked:]} == {"bash_1.0.deb"}
    assert places["bash"].read_bytes() == archive.files["bash"].read_bytes()


def test_of_the_packages_that_are_kept_the_oldest_are_forgotten(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the lock that was used last stay."""
    monkeypatch.setattr(locks, "_KEPT_MAX", len(archive.files))
    kept = tmp_path / "kept"
    before = fetch(make_lock(archive), archive, kept)
    archive.add("bash", {"bin/bash": b"bash, mended"}, "1.1")
    for place in before.values():
        os.utime(place, (1, 1))
    after = fetch(make_lock(archive), archive, kept)
    assert sorted(kept.iterdir()) == sorted(after.values())


def test_a_package_that_is_gone_is_named_and_the_lock_renewed(
    archive: Archive,
    commands: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Mirrors keep only the newest versions."""
    options = ("-o", "../shop", "--environment", "../venv")
    assert commands("lock") == 0
    archive.add("bash", {"bin/bash": b"bash, mended"}, "1.1")
    assert commands(*options) == 3
    text = capsys.readouterr().err
    assert "1 of the locked packages cannot be had here any more: bash 1.0" in text
    assert f"code:  {PackagesError.code}" in text
    assert "fix:   mustela image lock" in text
    assert commands("lock", "--json") == 0
    assert json.loads(capsys.readouterr().out)["changed"] is True
    assert commands(*options) == 0
    assert commands("lock") == 0
    assert "as it was" in capsys.readouterr().out


def test_an_image_of_packages_is_whole_and_always_the_same(
    archive: Archive,
    commands: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of the machine's own system goes in, and nothing of when it was made."""
    options = ("--environment", "../venv", "--json")
    assert commands("lock") == commands("-o", "../shop", *options) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert commands("-o", "../again", *options) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == first["digest"]
    assert first["layers"][0]["name"] == "system"
    root = tmp_path / "root"
    settings = unpack(tmp_path / "shop", root)["config"]
    assert "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt" in settings["Env"]
    assert "JAVA_HOME=/usr/lib/jvm/default-java" in settings["Env"]
    assert (root / "usr/lib/jvm/default-java/bin/java").read_bytes() == b"java"
    assert (root / "usr/bin/java").read_bytes() == b"java"
    assert (root / "bin/sh").resolve() == root / "usr/bin/dash"
    assert (root / "lib/x86_64-linux-gnu/libc.so.6").read_bytes() == b"libc"
    assert not (root / "usr/share/man").exists()
    assert (root / "usr/share/doc/coreutils/copyright").exists()
    users = (root / "etc/passwd").read_text(encoding="utf-8")
    assert "mustela:x:10001:10001::/app:/usr/sbin/nologin\n" in users
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n")
    assert len(status) == len(archive.files)
    assert all("\nStatus: install ok installed\n" in one for one in status)
    cached = (
        f"usr/lib/{PYTHON}/__pycache__/abc.cpython-{sys.version_info[0]}{sys.version_info[1]}.pyc"
    )
    assert (root / cached).is_file()


def test_java_and_openssl_trust_the_same_certificates(archive: Archive) -> None:
    """One bundle for OpenSSL, and a store in the form that Java reads."""
    tree = tree_of(archive)
    bundle = read(tree, "etc/ssl/certs/ca-certificates.crt").decode()
    assert bundle.count("-----BEGIN CERTIFICATE-----") == len(CERTIFICATES)
    store = read(tree, "etc/ssl/certs/java/cacerts")
    body, total = store[:-20], store[-20:]
    salted = "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body
    assert hashlib.sha1(salted).digest() == total
    assert struct.unpack(">III", body[:12]) == (0xFEEDFEED, 2, len(CERTIFICATES))
    for name, der in CERTIFICATES.items():
        assert f"debian:{name.lower()}.pem".encode() in body
        assert struct.pack(">I", len(der)) + der in body


def test_no_program_of_an_image_makes_its_user_another_one(archive: Archive) -> None:
    """Rights to become root are taken away as packages are unpacked."""
    modes = {entry.path: entry.mode for entry in tree_of(archive)}
    assert modes["usr/bin/su"] == 0o755
    assert modes["tmp"] == 0o1777


def test_a_file_that_is_no_package_is_refused(archive: Archive, tmp_path: Path) -> None:
    """It says which, and that it can be deleted."""
    broken = tmp_path / "broken.deb"
    for content in (b"", b"!<arch>\n", archive.files["bash"].read_bytes()[:200]):
        broken.write_bytes(content)
        with pytest.raises(PackagesError, match=r"broken\.deb cannot be read") as caught:
            system_tree([broken])
        assert str(broken) in (caught.value.fix or "")


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 9}', '{"format": 1, "packages": [{"name": "x"}]}']
)
def test_a_lock_that_cannot_be_read_is_made_anew(
    text: str, archive: Archive, commands: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that makes it is named, for where it is."""
    Path("old.lock").write_text(text, encoding="utf-8")
    options = ("--packages", "old.lock", "-o", "../shop", "--environment", "../venv")
    assert commands(*options) == 2
    said = capsys.readouterr().err
    assert ImageLockError.code in said
    assert "mustela image lock --output old.lock" in said
    assert commands("lock", "--output", "old.lock") == 0
    assert commands(*options) == 0


def test_a_lock_of_another_processor_or_without_python_is_refused(
    archive: Archive, commands: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is installed here would not run on it."""
    one = Package(name="x", version="1", architecture="a", path="p", size=1, sha256="0")
    for architecture, part in (("s390x", "is for s390x"), (ARCHITECTURE, "has no Python")):
        lock = PackageLock(suite="steady", architecture=architecture, requested=(), packages=(one,))
        Path("image.lock").write_text(lock.text(), encoding="utf-8")
        assert commands("-o", "../shop", "--environment", "../venv") == 2
        assert part in capsys.readouterr().err


def test_without_apt_another_image_can_be_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's packages are resolved and fetched by Debian's own tool."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackagesError, match="there is no apt") as caught:
        Apt(tmp_path / "apt")
    assert "--base LAYOUT" in (caught.value.fix or "")


def test_what_apt_says_when_it_fails_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its errors, and no other line."""
    said = subprocess.CompletedProcess([], 100, "", "W: old\nE: Unable to locate package x\n")
    monkeypatch.setattr(locks.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(locks, "_APT_HELPER", tmp_path)
    monkeypatch.setattr(locks.subprocess, "run", lambda *_, **__: said)
    with pytest.raises(PackagesError) as caught:
        make_lock(Apt(tmp_path / "apt"))
    assert caught.value.evidence["apt"] == "E: Unable to locate package x"


def tree_of(archive: Archive) -> Tree:
    return system_tree(archive.files[name] for name in sorted(archive.files))


def read(tree: Tree, path: str) -> bytes:
    entry = tree.get(path)
    assert entry is not None
    return entry.read()
