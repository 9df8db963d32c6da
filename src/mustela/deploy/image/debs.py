"""Read Debian packages: an ``ar`` of two tars, what dpkg is told and what it unpacks."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from mustela.deploy.image.errors import PackagesError
from mustela.deploy.image.trees import Entry

__all__ = ["read_control", "read_files"]

_MAGIC = b"!<arch>\n"
_HEADER = 60
_MODE = 0o777


def read_control(package: Path) -> str:
    """Return what a package says of itself: the fields of its ``control``.

    Raises:
        PackagesError: If it is no Debian package.
    """
    with _tar(package, "control.tar") as tar:
        for member in tar:
            if member.name.removeprefix("./") == "control" and (file := tar.extractfile(member)):
                return file.read().decode("utf-8").rstrip("\n") + "\n"
    raise _unreadable(package, "it has no control file")


def read_files(package: Path) -> Iterator[Entry]:
    """Yield what a package installs, with the times that it has in the package.

    Programs lose the right to become another user: nothing in an image of an application needs it.

    Raises:
        PackagesError: If it is no Debian package.
    """
    with _tar(package, "data.tar") as tar:
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            if path in ("", "."):
                continue
            if member.issym():
                yield Entry(path=path, target=member.linkname, mode=_MODE, mtime=int(member.mtime))
            elif member.isdir():
                yield Entry(path=path, mode=member.mode & _MODE)
            elif member.isfile() or member.islnk():
                file = tar.extractfile(member)  # of another name of a file: that file
                content = file.read() if file is not None else b""
                mode = member.mode & _MODE
                yield Entry(path=path, content=content, mode=mode, mtime=int(member.mtime))
            else:
                raise _unreadable(package, f"{path} is neither file, link nor directory")


def _tar(package: Path, name: str) -> tarfile.TarFile:
    try:
        for member, content in _members(package):
            if member == f"{name}.zst":
                return tarfile.open(fileobj=io.BytesIO(_by_dpkg(package, name)))
            if member.startswith(name):
                return tarfile.open(fileobj=io.BytesIO(content), mode="r:*")
    except (OSError, ValueError, tarfile.TarError) as error:
        raise _unreadable(package, str(error)) from error
    raise _unreadable(package, f"it has no {name}")


def _by_dpkg(package: Path, name: str) -> bytes:
    """Let dpkg unpack what Python 3.13 and older cannot: Ubuntu's packages are of this kind."""
    option = "--ctrl-tarfile" if name == "control.tar" else "--fsys-tarfile"
    ran = subprocess.run(["dpkg-deb", option, package], capture_output=True, check=False)
    if ran.returncode:
        raise ValueError(ran.stderr.decode(errors="replace").strip())
    return ran.stdout


def _members(package: Path) -> Iterator[tuple[str, bytes]]:
    with package.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as one")  # noqa: EM101 - becomes part of a text
        while len(header := file.read(_HEADER)) == _HEADER:
            size = int(header[48:58])
            yield header[:16].decode("ascii").strip().rstrip("/"), file.read(size)
            file.seek(size % 2, io.SEEK_CUR)


def _unreadable(package: Path, why: str) -> PackagesError:
    msg = f"{package.name} cannot be read as a Debian package: {why}"
    return PackagesError(msg, fix=f"delete {package}; it is fetched again")
