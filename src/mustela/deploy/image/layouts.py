"""OCI image layouts: blobs under their digests, written and read."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from mustela.deploy.image.errors import ImageError
from mustela.deploy.image.trees import Entry, Tree

__all__ = [
    "Layer",
    "LayerCache",
    "alone",
    "manifest_of",
    "write_layer",
    "write_layout",
    "write_tar",
]

OCI_LAYOUT = {"imageLayoutVersion": "1.0.0"}
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
REF_NAME = "org.opencontainers.image.ref.name"

_COMPRESSION = 6
_BLOCK = 1 << 20
_CACHED_MAX = 12
_FORMAT = 1
"""Counts what changes the bytes of a layer of the same entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer, compressed.

    Attributes:
        name: What it holds, for people.
        digest: Of its compressed bytes: ``sha256:…``.
        diff_id: Of its tar.
        size: Compressed bytes.
        unpacked: Bytes of its tar.
        blob: Where its compressed bytes are.
        media_type: How they are compressed.
        reused: Whether it was there already.
    """

    name: str
    digest: str
    diff_id: str
    size: int
    unpacked: int
    blob: Path
    media_type: str = LAYER_TYPE
    reused: bool = False

    @property
    def descriptor(self) -> dict[str, Any]:
        """How a manifest names it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


class _Summed(io.RawIOBase):
    """A file to write to that sums and counts what passes."""

    def __init__(self, below: IO[bytes]) -> None:
        self._below, self._sum, self.count = below, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._sum.update(data)
        self.count += len(data)
        self._below.write(data)
        return len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._sum.hexdigest()}"


def write_layer(name: str, tree: Tree, blob: Path, *, epoch: int) -> Layer:
    """Write a layer; the same entries give the same bytes.

    Args:
        name: What it holds.
        tree: What it holds.
        blob: The file that is written.
        epoch: Seconds since 1970, the time of all entries that have none of their own.
    """
    with blob.open("wb") as file:
        packed = _Summed(file)
        with gzip.GzipFile("", "wb", _COMPRESSION, cast("IO[bytes]", packed), mtime=0) as zipped:
            plain = _Summed(cast("IO[bytes]", zipped))
            with tarfile.open(
                fileobj=cast("IO[bytes]", plain), mode="w|", format=tarfile.PAX_FORMAT
            ) as tar:
                for entry in tree:
                    _append(tar, entry, epoch)
    return Layer(
        name=name,
        digest=packed.digest,
        diff_id=plain.digest,
        size=packed.count,
        unpacked=plain.count,
        blob=blob,
    )


def _append(tar: tarfile.TarFile, entry: Entry, epoch: int) -> None:
    info = tarfile.TarInfo(entry.path)
    info.mode, info.uid, info.gid = entry.mode, entry.owner, entry.owner
    info.mtime = epoch if entry.mtime is None else entry.mtime
    if entry.target is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(info)
    elif entry.content is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif isinstance(entry.content, Path):
        info.size = entry.content.stat().st_size
        with entry.content.open("rb") as file:
            tar.addfile(info, file)
    else:
        info.size = len(entry.content)
        tar.addfile(info, io.BytesIO(entry.content))


@contextmanager
def alone(directory: Path) -> Generator[None]:
    """Keep other builds out of what is kept, until this one is done."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class LayerCache:
    """Layers that were made before, by what they were made from.

    Args:
        directory: Where they are kept; made if it is missing.
        epoch: The time of the image's entries.
    """

    def __init__(self, directory: Path, *, epoch: int) -> None:
        self._directory, self._epoch = directory, epoch

    def find(self, name: str, made_from: str) -> Layer | None:
        """Return the layer that was made from the same, if it is still as it was written."""
        note = self._note(name, made_from)
        try:
            known = json.loads(note.read_text(encoding="utf-8"))
            blob = self._directory / known["digest"].removeprefix("sha256:")
            if digest_of(blob) != known["digest"]:
                return None
        except (OSError, ValueError, KeyError):
            return None
        note.touch()
        return Layer(name=name, blob=blob, reused=True, **known)

    def make(self, name: str, tree: Tree, made_from: str) -> Layer:
        """Write a layer, and keep it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        note = self._note(name, made_from)
        part = note.with_suffix(".part")
        layer = write_layer(name, tree, part, epoch=self._epoch)
        blob = part.replace(self._directory / layer.digest.removeprefix("sha256:"))
        known = {key: getattr(layer, key) for key in ("digest", "diff_id", "size", "unpacked")}
        note.write_text(json.dumps(known), encoding="utf-8")
        self._forget()
        return Layer(name=name, blob=blob, **known)

    def _note(self, name: str, made_from: str) -> Path:
        made = (_FORMAT, zlib.ZLIB_RUNTIME_VERSION, self._epoch, name, made_from)
        return self._directory / f"{hashlib.sha256(repr(made).encode()).hexdigest()}.json"

    def _forget(self) -> None:
        notes = sorted(self._directory.glob("*.json"), key=lambda note: -note.stat().st_mtime)
        for note in notes[_CACHED_MAX:]:
            note.unlink(missing_ok=True)
        kept = {
            json.loads(note.read_text(encoding="utf-8"))["digest"] for note in notes[:_CACHED_MAX]
        }
        for blob in self._directory.iterdir():
            if not blob.suffix and f"sha256:{blob.name}" not in kept:
                blob.unlink(missing_ok=True)


def digest_of(file: Path) -> str:
    """Return the digest of a file's bytes."""
    with file.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An image: its configuration and layers, and what they are called.

    Attributes:
        tag: ``name:version``, under which tools list it.
        layers: From the lowest.
        config: The bytes of the configuration.
        manifest: The bytes of the manifest.
    """

    tag: str
    layers: Sequence[Layer]
    config: bytes
    manifest: bytes

    @property
    def digest(self) -> str:
        """The digest of the image: of its manifest."""
        return _digest(self.manifest)


def manifest_of(
    tag: str,
    layers: Sequence[Layer],
    config: Mapping[str, Any],
    annotations: Mapping[str, str],
) -> Manifest:
    """Return an image of some layers.

    Args:
        tag: ``name:version``.
        layers: From the lowest.
        config: The configuration, without what describes the layers.
        annotations: Labels of the manifest.
    """
    root = {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]}
    configuration = _json({**config, "rootfs": root})
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _descriptor(CONFIG_TYPE, configuration),
        "layers": [layer.descriptor for layer in layers],
        "annotations": dict(annotations),
    }
    return Manifest(tag=tag, layers=layers, config=configuration, manifest=_json(manifest))


def write_layout(image: Manifest, directory: Path) -> None:
    """Write an image as a directory; one that was there is replaced.

    Raises:
        ImageError: If the directory holds something else.
    """
    if directory.exists() and not is_replaceable(directory):
        msg = f"{directory} holds something that is no OCI layout"
        raise ImageError(msg, fix="name a new directory: --output DIRECTORY")
    if directory.exists():
        shutil.rmtree(directory)
    for path, content in _files(image):
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, place)
        else:
            place.write_bytes(content)


def is_replaceable(directory: Path) -> bool:
    """Whether a directory is an OCI layout, or empty."""
    if not directory.is_dir():
        return False
    return (directory / "oci-layout").is_file() or not any(directory.iterdir())


def write_tar(image: Manifest, file: Path, *, epoch: int) -> None:
    """Write an image as a tar that ``docker load``, ``podman load`` and ``skopeo`` read."""
    part = file.with_name(f"{file.name}.part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as tar:
        tree = Tree(Entry(path=path, content=content) for path, content in _files(image))
        # What Docker before 25 reads; it names the same blobs.
        blobs = ["blobs/" + layer.digest.replace(":", "/") for layer in image.layers]
        config = "blobs/" + _digest(image.config).replace(":", "/")
        listed = [{"Config": config, "RepoTags": [image.tag], "Layers": blobs}]
        tree.add(Entry(path="manifest.json", content=_json(listed)))
        for entry in tree:
            _append(tar, entry, epoch)
    part.replace(file)


def _files(image: Manifest) -> Iterable[tuple[str, bytes | Path]]:
    described = _descriptor(MANIFEST_TYPE, image.manifest)
    described["annotations"] = {
        REF_NAME: image.tag.rpartition(":")[2],
        "io.containerd.image.name": image.tag,
    }
    yield "oci-layout", _json(OCI_LAYOUT)
    yield (
        "index.json",
        _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [described]}),
    )
    for blob in (image.manifest, image.config):
        yield "blobs/" + _digest(blob).replace(":", "/"), blob
    for layer in image.layers:
        yield "blobs/" + layer.digest.replace(":", "/"), layer.blob


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
