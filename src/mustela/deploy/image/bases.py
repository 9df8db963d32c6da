"""Images to build on: an OCI layout on disk, its layers, and what is in their files."""

from __future__ import annotations

import gzip
import hashlib
import json
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from mustela.deploy.image.errors import BaseError
from mustela.deploy.image.layouts import INDEX_TYPE, Layer, digest_of

__all__ = ["Base", "read_base"]

_PLAIN, _ZIPPED = "tar", "tar+gzip"
_LIST_TYPES = (INDEX_TYPE, "application/vnd.docker.distribution.manifest.list.v2+json")
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_LINKS_MAX = 16
_READ = ("etc/passwd", "etc/group")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON = re.compile(r"python3\.(\d+)")
_JAVA_HOME = re.compile(r"(usr/lib/jvm/[^/]+|opt/[^/]+)/bin/java")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An image that others are built on.

    Attributes:
        digest: Of its manifest.
        config: Its configuration.
        layers: From the lowest.
        files: What its root directory holds: by path, the target of a link or None.
        texts: The content of the files that list users.
    """

    digest: str
    config: dict[str, Any]
    layers: tuple[Layer, ...]
    files: Mapping[str, str | None]
    texts: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        pairs = (one.partition("=") for one in self.config.get("config", {}).get("Env") or ())
        return {name: value for name, _, value in pairs}

    def python(self) -> tuple[str, tuple[int, int]]:
        """Return the path and the version of its Python.

        Raises:
            BaseError: If it has none.
        """
        for directory in self._path():
            found = self.resolve(f"{directory}/python3")
            match = _PYTHON.fullmatch(posixpath.basename(found)) if found else None
            if found and match:
                return f"/{found}", (3, int(match[1]))
        msg = "the image to build on has no python3 on its PATH"
        raise BaseError(msg, fix="name one with Python and Java, or leave out --base")

    def java(self) -> str:
        """Return where its Java is: what ``JAVA_HOME`` is to be.

        Raises:
            BaseError: If it has none.
        """
        home = self.environment.get("JAVA_HOME")
        if home and self.resolve(f"{home}/bin/java"):
            return home
        for directory in self._path():
            if found := self.resolve(f"{directory}/java"):
                return "/" + found.removesuffix("/bin/java")
        for path in sorted(self.files):
            if match := _JAVA_HOME.fullmatch(path):
                return f"/{match[1]}"
        msg = "the image to build on has no Java on its PATH, in JAVA_HOME or in /usr/lib/jvm"
        raise BaseError(msg, fix="name one with Python and Java, or leave out --base")

    def _path(self) -> list[str]:
        return self.environment.get("PATH", _PATH).split(":")

    def resolve(self, path: str) -> str | None:
        """Return where a path leads when links are followed; None if nowhere."""
        waiting = [part for part in path.split("/") if part not in ("", ".")]
        at: list[str] = []
        for _ in range(_LINKS_MAX * len(path)):
            if not waiting:
                return "/".join(at)
            part = waiting.pop(0)
            if part == "..":
                at = at[:-1]
                continue
            here = "/".join([*at, part])
            if here not in self.files:
                return None
            target = self.files[here]
            if target is None:
                at.append(part)
                continue
            at = [] if target.startswith("/") else at
            waiting = [one for one in target.split("/") if one not in ("", ".")] + waiting
        return None


def read_base(layout: Path, architecture: str) -> Base:
    """Read an image to build on; its blobs are held against their digests.

    Args:
        layout: The directory of an OCI layout.
        architecture: The processor that it is to be for, as OCI calls it.

    Raises:
        BaseError: If it is none, is damaged, or is for another processor.
    """
    if not (layout / "oci-layout").is_file():
        msg = f"{layout} is no OCI layout"
        fix = "name the directory with oci-layout in it, as skopeo copy … oci:DIRECTORY writes it"
        raise BaseError(msg, fix=fix)
    try:
        descriptor, manifest = _manifest(layout, architecture)
        config = json.loads(_blob(layout, manifest["config"]["digest"]).read_bytes())
        _check_processor(config.get("architecture"), architecture)
        layers = tuple(_layers(layout, manifest, config))
        files, texts = _contents(layers)
    except (OSError, ValueError, KeyError, IndexError, tarfile.TarError) as error:
        msg = f"{layout} cannot be read as an OCI layout: {type(error).__name__}: {error}"
        raise BaseError(msg, fix="write it again") from error
    return Base(digest=descriptor["digest"], config=config, layers=layers, files=files, texts=texts)


def _check_processor(found: object, wanted: str) -> None:
    if found != wanted:
        msg = f"the image to build on is for {found}, and what is installed here for {wanted}"
        raise BaseError(msg, fix=f"name one for {wanted}")


def _manifest(layout: Path, architecture: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = json.loads((layout / "index.json").read_bytes())["manifests"]
    while True:
        fits = [
            one
            for one in found
            if one.get("platform", {}).get("architecture", architecture) == architecture
        ]
        descriptor = fits[0]
        content = json.loads(_blob(layout, descriptor["digest"]).read_bytes())
        if descriptor.get("mediaType") not in _LIST_TYPES:
            return descriptor, content
        found = content["manifests"]


def _blob(layout: Path, digest: str) -> Path:
    file = layout / "blobs" / digest.replace(":", "/")
    if digest_of(file) != digest:
        msg = f"blob {digest} of {layout} is damaged"
        raise BaseError(msg, fix="write it again")
    return file


def _layers(
    layout: Path, manifest: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[Layer]:
    diff_ids: list[str] = config["rootfs"]["diff_ids"]
    for number, (one, diff_id) in enumerate(zip(manifest["layers"], diff_ids, strict=True)):
        kind = one["mediaType"].removeprefix("application/vnd.oci.image.layer.v1.")
        kind = kind.removeprefix("application/vnd.docker.image.rootfs.diff.")
        if kind not in (_PLAIN, _ZIPPED, "tar.gzip"):
            msg = f"a layer of {layout} is compressed as {one['mediaType']}, which is not read here"
            raise BaseError(msg, fix="write it with gzip: skopeo copy --dest-compress-format gzip")
        blob = _blob(layout, one["digest"])
        with _opened(blob) as stream:
            unpacked = 0
            summed = hashlib.sha256()
            while data := stream.read(1 << 20):
                unpacked += len(data)
                summed.update(data)
        if f"sha256:{summed.hexdigest()}" != diff_id:
            msg = f"layer {one['digest']} of {layout} is not the one of its configuration"
            raise BaseError(msg, fix="write it again")
        oci = f"application/vnd.oci.image.layer.v1.{'tar' if kind == _PLAIN else _ZIPPED}"
        yield Layer(
            name=f"base {number + 1}",
            digest=one["digest"],
            diff_id=diff_id,
            size=one["size"],
            unpacked=unpacked,
            blob=blob,
            media_type=oci,
            reused=True,
        )


def _opened(blob: Path) -> IO[bytes]:
    with blob.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(blob, "rb")) if zipped else blob.open("rb")


def _contents(layers: tuple[Layer, ...]) -> tuple[dict[str, str | None], dict[str, str]]:
    files: dict[str, str | None] = {}
    texts: dict[str, str] = {}
    for layer in layers:
        with _opened(layer.blob) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            added: dict[str, str | None] = {}
            for member in tar:
                path = posixpath.normpath(member.name.lstrip("/")).removeprefix("./")
                directory, name = posixpath.split(path)
                if name == _OPAQUE:
                    _hide(files, directory + "/")
                elif name.startswith(_WHITEOUT):
                    hidden = posixpath.join(directory, name.removeprefix(_WHITEOUT))
                    files.pop(hidden, None)
                    _hide(files, hidden + "/")
                else:
                    added[path] = member.linkname if member.issym() else None
                    if path in _READ and (file := tar.extractfile(member)):
                        texts[path] = file.read().decode("utf-8")
            files.update(added)
            for path in added:
                for above in _above(path):
                    files.setdefault(above, None)
    return files, {path: text for path, text in texts.items() if path in files}


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _hide(files: dict[str, str | None], prefix: str) -> None:
    for path in [path for path in files if path.startswith(prefix)]:
        del files[path]
