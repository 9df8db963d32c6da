"""Small things that images are made of: environments, packages, projects, images to build on."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"


MLLIB = "pyspark/jars/spark-mllib_2.13-4.2.1.jar"


def write_distribution(
    site: Path,
    name: str,
    version: str = "1.0",
    *,
    files: Mapping[str, str] | None = None,
    requires: tuple[str, ...] = (),
    scripts: Mapping[str, str] | None = None,
) -> None:
    """Install a distribution as pip does: files, metadata, and a list with the sum of each."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    contents = {f"{name}/__init__.py": f"version = '{version}'\n"} if files is None else {**files}
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more\n{needs}"
    )
    contents[f"{info}/INSTALLER"] = "pip\n"
    if scripts:
        lines = "".join(f"{key} = {value}\n" for key, value in scripts.items())
        contents[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
        for key in scripts:
            contents[f"../../../bin/{key}"] = f"#!{site}/python\n"
    rows = ""
    for path, text in contents.items():
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        rows += f"{path},sha256={digest.decode().rstrip('=')},{len(text)}\n"
    (site / info / "RECORD").write_text(f"{rows}{info}/RECORD,,\n", encoding="utf-8")


def make_environment(directory: Path, python: str = PYTHON) -> Path:
    """An environment with Mustela, PySpark and what they need, all of them small."""
    site = directory / "lib" / python / "site-packages"
    site.mkdir(parents=True)
    scripts = {"mustela": "mustela.cli.main:main"}
    files = {"mustela/__init__.py": "", "mustela/cli/main.py": "def main(): ...\n"}
    write_distribution(
        site, "mustela", "0.1.0", files=files, requires=("pyspark>=1",), scripts=scripts
    )
    write_distribution(
        site,
        "pyspark",
        files={"pyspark/__init__.py": "x = 1\n", "pyspark/jars/spark.jar": "jar", MLLIB: "ml"},
        requires=("py4j==1.0", "pandas; extra == 'more'", "tomli; python_version < '3'"),
    )
    write_distribution(site, "py4j")
    write_distribution(site, "Rate-Limits", "2.5", requires=("mustela",))
    return directory


def make_project(directory: Path) -> Path:
    """A project as `mustela new` writes it, with files that are nobody's business beside it."""
    files = {
        "pyproject.toml": '[project]\nname = "corner-shop"\nversion = "1.4"\n'
        'dependencies = ["mustela>=0.1"]\n',
        "mustela.yaml": "commit_interval: 100ms\n",
        "corner_shop/__init__.py": "",
        "corner_shop/app.py": "app = None\n",
        "corner_shop/prices.json": "{}",
        "corner_shop/server.pem": "private",
        "corner_shop/.env": "PASSWORD=1",
        "corner_shop/__pycache__/app.cpython-311.pyc": "old",
        "tests/__init__.py": "",
        "tests/test_app.py": "",
        "conftest.py": "",
        "schemas/order.avsc": "{}",
        ".env": "PASSWORD=1",
        "notes.txt": "mine",
    }
    for path, text in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return directory


def make_deb(file: Path, control: str, files: Mapping[str, bytes | str]) -> Path:
    """A Debian package; what is a text is the target of a link."""

    def packed(contents: Mapping[str, bytes | str]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:xz") as tar:
            for path, content in contents.items():
                info = tarfile.TarInfo(f"./{path}")
                info.mtime = 1_700_000_000
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    info.mode = 0o4755 if path.endswith("/su") else 0o644
                    tar.addfile(info, io.BytesIO(content))
        return buffer.getvalue()

    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": packed({"control": control.encode()}),
        "data.tar.xz": packed(files),
    }
    content = b"!<arch>\n"
    for name, data in members.items():
        content += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        content += data + b"\n" * (len(data) % 2)
    file.write_bytes(content)
    return file


def make_base(
    directory: Path,
    layers: tuple[Mapping[str, bytes | str], ...],
    *,
    environment: tuple[str, ...] = (),
    architecture: str = ARCHITECTURE,
) -> Path:
    """An image to build on, written without the library's own writer."""
    blobs = directory / "blobs" / "sha256"
    shutil.rmtree(directory, ignore_errors=True)
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    kind = "application/vnd.oci.image"
    described, diff_ids = [], []
    for layer in layers:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path, content in layer.items():
                info = tarfile.TarInfo(path)
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        plain = buffer.getvalue()
        diff_ids.append(f"sha256:{hashlib.sha256(plain).hexdigest()}")
        described.append(
            {"mediaType": f"{kind}.layer.v1.tar+gzip", **put(gzip.compress(plain, mtime=0))}
        )
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": list(environment)},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    settings = {"mediaType": f"{kind}.config.v1+json", **put(json.dumps(config).encode())}
    manifest = {"schemaVersion": 2, "config": settings, "layers": described}
    named = {"mediaType": f"{kind}.manifest.v1+json", **put(json.dumps(manifest).encode())}
    index = {"schemaVersion": 2, "manifests": [named]}
    (directory / "index.json").write_text(json.dumps(index), encoding="utf-8")
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    return directory


BASE = (
    {
        "bin": "usr/bin",
        "usr/bin/python3": "python3.99",
        "usr/bin/python3.99": b"older",
        "usr/lib/jvm/temurin/bin/java": b"java",
        "etc/passwd": b"root:x:0:0::/root:/bin/sh",
    },
    {
        "usr/bin/.wh.python3": b"",
        f"usr/local/bin/{PYTHON}": b"python",
        "usr/local/bin/python3": PYTHON,
    },
)


def unpack(layout: Path, root: Path, *, owners: bool = False) -> dict[str, Any]:
    """Lay the layers of an image over each other, as a runtime does; return its configuration."""

    def blob(digest: str) -> Path:
        file = layout / "blobs" / digest.replace(":", "/")
        with file.open("rb") as stream:
            assert f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}" == digest
        return file

    [described] = json.loads((layout / "index.json").read_bytes())["manifests"]
    manifest = json.loads(blob(described["digest"]).read_bytes())
    config = json.loads(blob(manifest["config"]["digest"]).read_bytes())
    assert len(config["rootfs"]["diff_ids"]) == len(manifest["layers"])
    root.mkdir()
    for layer in manifest["layers"]:
        file = blob(layer["digest"])
        assert file.stat().st_size == layer["size"]
        with tarfile.open(file) as tar:
            members = tar.getmembers()
            for hidden in [one for one in members if Path(one.name).name.startswith(".wh.")]:
                members.remove(hidden)
                _hide(root, Path(hidden.name))
            tar.extractall(root, members=members, numeric_owner=owners, filter="fully_trusted")
    return config


def _hide(root: Path, marker: Path) -> None:
    names = [marker.name.removeprefix(".wh.")]
    directory = root / marker.parent
    if marker.name == ".wh..wh..opq":
        names = os.listdir(directory)
    for name in names:
        place = directory / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
