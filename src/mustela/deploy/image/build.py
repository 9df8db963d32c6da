"""Build an image: layers from what seldom changes to what often does, then its configuration."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mustela.deploy.image.applications import (
    Project,
    application_tree,
    settings_keys,
)
from mustela.deploy.image.bases import Base, read_base
from mustela.deploy.image.bytecode import compiled
from mustela.deploy.image.distributions import (
    PREFIX,
    Environment,
    Installed,
    distribution_tree,
    environment_tree,
)
from mustela.deploy.image.errors import DistributionError, ImageError, ImageLockError
from mustela.deploy.image.layouts import (
    Layer,
    LayerCache,
    Manifest,
    alone,
    manifest_of,
    write_layout,
    write_tar,
)
from mustela.deploy.image.locks import Apt, PackageLock, fetch
from mustela.deploy.image.system import HOME, system_tree, user_lines
from mustela.deploy.image.trees import Entry, Tree
from mustela.deploy.manifests import PROBE_PORT
from mustela.deploy.pods import STATE_PATH, USER

__all__ = ["Contents", "Image", "ImagePlan", "build_image", "contents_of"]

_SPARK = {"py4j", "pyspark"}
_OWN = {"mustela"}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_SYSTEM_FORMAT = 2
"""Counts what changes the system's layer for the same packages."""

_VARIABLES = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
_SETTINGS = {
    "admin.enabled": "true",
    "admin.listen": "127.0.0.1:8080",
    "admin.probe_listen": f"0.0.0.0:{PROBE_PORT}",
    "log.format": "json",
    "state_dir": STATE_PATH,
}
"""What the place demands, unless the project's own file of settings says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """What an image is to be made of.

    Attributes:
        project: The program.
        environment: Where its distributions are installed.
        packages: The lock of Debian packages; None with a base.
        base: The layout of an image to build on; None with packages.
        sources: Where apt is to fetch from, a ``sources.list``; None for the machine's.
        extra: Requirements besides those of the project.
        all_jars: Whether those of Spark's jars go in that no application loads.
        labels: Labels besides those that every image has.
        epoch: Seconds since 1970, the time of all that has none of its own.
        cache: Where packages and layers are kept from one build to the next.
    """

    project: Project
    environment: Environment
    packages: Path | None
    base: Path | None
    cache: Path
    sources: Path | None = None
    extra: tuple[str, ...] = ()
    all_jars: bool = False
    labels: Mapping[str, str]
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that was made.

    Attributes:
        manifest: What it consists of.
        architecture: What processor it is for.
        entrypoint: What it runs.
        contents: What is in it besides the system.
    """

    manifest: Manifest
    architecture: str
    entrypoint: Sequence[str]
    contents: Contents

    def write(self, output: Path, *, epoch: int) -> None:
        """Write it: as a tar if the name ends so, otherwise as a directory.

        Raises:
            ImageError: If there is something else, or nothing can be written there.
        """
        try:
            output.absolute().parent.mkdir(parents=True, exist_ok=True)
            if output.suffix == ".tar":
                write_tar(self.manifest, output, epoch=epoch)
            else:
                write_layout(self.manifest, output)
        except OSError as error:
            msg = f"{output} cannot be written: {error.strerror}"
            raise ImageError(msg, fix="name another place: --output shop.tar") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bottom:
    """What lies under Mustela: layers, a Python, a Java, variables."""

    layers: tuple[Layer, ...]
    python: str
    version: tuple[int, int]
    java: str
    environment: Mapping[str, str]
    users: Tree
    labels: Mapping[str, str]
    history: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What goes into an image besides the system.

    Attributes:
        installed: What the application needs.
        application: The application.
        left_out: Files of the project that stay out because of their names.
    """

    installed: Sequence[Installed]
    application: Tree
    left_out: Sequence[str]

    @property
    def distributions(self) -> list[str]:
        """What is installed, as ``name==version``."""
        return [f"{one.name}=={one.version}" for one in self.installed]

    @property
    def files(self) -> list[str]:
        """The files of the application, from the root of the image."""
        return [f"/{entry.path}" for entry in self.application.files()]


def contents_of(plan: ImagePlan) -> Contents:
    """Return what goes into an image besides the system.

    Raises:
        DistributionError: If something is not installed.
        ImageSecretError: If a file of the project holds a secret.
    """
    needed = [*plan.project.requirements, "mustela", *plan.extra]
    installed = plan.environment.closure(needed, without=plan.project.name)
    application, left_out = application_tree(plan.project)
    return Contents(installed=installed, application=application, left_out=left_out)


def build_image(plan: ImagePlan, tell: Callable[[str], None]) -> Image:
    """Make an image; the same plan gives the same digest, wherever and whenever it is made.

    Args:
        plan: What it is to be made of.
        tell: Told what is being made.

    Raises:
        BaseError: If the image to build on cannot be used.
        DistributionError: If what is installed cannot be used.
        ImageError: If the project cannot be used.
        PackagesError: If Debian's packages cannot be had.
    """
    contents = contents_of(plan)
    with alone(plan.cache):
        return _build(plan, contents, tell)


def _build(plan: ImagePlan, contents: Contents, tell: Callable[[str], None]) -> Image:
    installed = contents.installed
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    cache = LayerCache(plan.cache / "layers", epoch=plan.epoch)
    bottom = (
        _on_base(plan.base, architecture)
        if plan.base is not None
        else _on_packages(plan, architecture, cache, tell)
    )
    _check_python(plan.environment, bottom.version)
    maker = _Maker(cache, bottom.version, tell, all_jars=plan.all_jars)
    layers = [*bottom.layers]
    spark = [one for one in installed if one.name in _SPARK]
    own = [one for one in installed if one.name in _OWN]
    others = [one for one in installed if one.name not in _SPARK | _OWN]
    first = environment_tree(bottom.python, bottom.version)
    layers.append(maker.layer("spark", [first, *maker.trees(spark)]))
    layers.append(maker.layer("libraries", maker.trees(others)))
    layers.append(maker.layer("mustela", maker.trees(own)))
    settled = Tree([*bottom.users, Entry(path=STATE_PATH.strip("/"), mode=0o755, owner=USER)])
    layers.append(maker.layer("application", [settled, contents.application], checked=True))
    entrypoint = [f"/{PREFIX}/bin/mustela", "run", plan.project.target]
    labels = _labels(plan, bottom)
    tag = f"{plan.project.name}:{plan.project.version}"
    config = _config(plan, bottom, architecture, entrypoint, labels)
    own_layers = layers[len(bottom.layers) :]
    config["history"] = [*bottom.history, *_history(own_layers, plan.epoch)]
    return Image(
        manifest=manifest_of(tag, layers, config, labels),
        architecture=architecture,
        entrypoint=entrypoint,
        contents=contents,
    )


def _on_base(layout: Path, architecture: str) -> _Bottom:
    base = read_base(layout, architecture)
    python, version = base.python()
    return _Bottom(
        layers=base.layers,
        python=python,
        version=version,
        java=base.java(),
        environment=base.environment,
        users=_users(base),
        labels={"org.opencontainers.image.base.digest": base.digest},
        history=base.config.get("history") or _history(base.layers, 0),
    )


def _users(base: Base) -> Tree:
    """Return the base's lists of users with ours: Java asks what the user is called."""
    tree = Tree()
    for path, line in user_lines().items():
        text = base.texts.get(path, "")
        if f":{USER}:" not in text:
            tree.file(path, text + ("" if text.endswith("\n") or not text else "\n") + line)
    return tree


def _on_packages(
    plan: ImagePlan, architecture: str, cache: LayerCache, tell: Callable[[str], None]
) -> _Bottom:
    assert plan.packages is not None
    lock = PackageLock.load(plan.packages)
    if lock.architecture != architecture:
        msg = f"{plan.packages} is for {lock.architecture}, and this machine is {architecture}"
        raise ImageLockError(msg, fix=f"mustela image lock --output {plan.packages}")
    sums = hashlib.sha256(repr([(p.name, p.sha256) for p in lock.packages]).encode()).hexdigest()
    match = [
        p.name for p in lock.packages if p.name.startswith("python3.") and p.name[8:].isdigit()
    ]
    if not match:
        msg = f"{plan.packages} has no Python"
        raise ImageLockError(msg, fix=f"mustela image lock --output {plan.packages}")
    version = (3, int(match[0][8:]))
    _check_python(plan.environment, version)
    made_from = f"{_SYSTEM_FORMAT} {sums} {_can_compile(plan.environment)}"
    layer = cache.find("system", made_from)
    if layer is None:
        tell(f"making layer system of {len(lock.packages)} Debian packages")
        apt = Apt(plan.cache / "apt", plan.sources)
        tree = system_tree(fetch(lock, apt, plan.cache / "packages").values())
        for entry in list(compiled(tree, version, checked=False)):
            tree.add(entry)
        layer = cache.make("system", tree, made_from)
    return _Bottom(
        layers=(layer,),
        history=_history((layer,), plan.epoch),
        python=f"/usr/bin/python3.{version[1]}",
        version=version,
        java="/usr/lib/jvm/default-java",
        environment={"PATH": "/usr/local/bin:/usr/bin"},
        users=Tree(),
        labels={},
    )


def _check_python(environment: Environment, version: tuple[int, int]) -> None:
    if environment.python != version:
        has, needs = (f"{one[0]}.{one[1]}" for one in (environment.python, version))
        msg = f"the image has Python {needs}, and {environment.site} is of Python {has}"
        raise DistributionError(
            msg,
            why="extension modules are built for one version",
            fix=f"python{needs} -m venv DIR, install the application there, and name it: "
            "--environment DIR; or build on an image with the other Python: --base LAYOUT",
        )


def _can_compile(environment: Environment) -> bool:
    return environment.python == tuple(map(int, platform.python_version_tuple()[:2]))


class _Maker:
    """Makes layers of trees, unless they are there.

    Args:
        cache: Where they may be.
        python: The version of the image's Python.
        tell: Told what is being made.
        all_jars: Whether Spark's jars go in that no application loads.
    """

    def __init__(
        self,
        cache: LayerCache,
        python: tuple[int, int],
        tell: Callable[[str], None],
        *,
        all_jars: bool,
    ) -> None:
        self._cache, self._python, self._tell, self._all_jars = cache, python, tell, all_jars

    def trees(self, installed: Iterable[Installed]) -> list[Tree]:
        return [distribution_tree(o, self._python, all_jars=self._all_jars) for o in installed]

    def layer(self, name: str, trees: Sequence[Tree], *, checked: bool = False) -> Layer:
        tree = Tree(entry for one in trees for entry in one)
        made_from = f"{_sum_of(tree)} {self._python} {platform.python_version_tuple()[:2]}"
        layer = self._cache.find(name, made_from)
        if layer is None:
            self._tell(f"making layer {name}")
            for entry in list(compiled(tree, self._python, checked=checked)):
                tree.add(entry)
            layer = self._cache.make(name, tree, made_from)
        return layer


def _sum_of(tree: Tree) -> str:
    total = hashlib.sha256()
    for entry in tree:
        content = None if entry.content is None else hashlib.sha256(entry.read()).digest()
        described = (entry.path, content, entry.target, entry.mode, entry.owner, entry.mtime)
        total.update(repr(described).encode())
    return total.hexdigest()


def _history(layers: Iterable[Layer], epoch: int) -> list[dict[str, str]]:
    return [{"created": _time(epoch), "created_by": f"mustela image: {o.name}"} for o in layers]


def _labels(plan: ImagePlan, bottom: _Bottom) -> dict[str, str]:
    return {
        "org.opencontainers.image.title": plan.project.name,
        "org.opencontainers.image.version": plan.project.version,
        "org.opencontainers.image.created": _time(plan.epoch),
        **bottom.labels,
        **plan.labels,
    }


def _time(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _config(
    plan: ImagePlan,
    bottom: _Bottom,
    architecture: str,
    entrypoint: Sequence[str],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    variables = {**bottom.environment, **_VARIABLES, "JAVA_HOME": bottom.java}
    said = settings_keys(plan.project)
    for key, value in _SETTINGS.items():
        if key not in said:
            variables[f"MUSTELA__{key.replace('.', '__').upper()}"] = value
    variables["PATH"] = f"/{PREFIX}/bin:{bottom.environment.get('PATH', '/usr/bin')}"
    if plan.base is None:
        variables["SSL_CERT_FILE"] = "/etc/ssl/certs/ca-certificates.crt"
    return {
        "architecture": architecture,
        "os": "linux",
        "created": _time(plan.epoch),
        "config": {
            "User": f"{USER}:{USER}",
            "WorkingDir": HOME,
            "Entrypoint": list(entrypoint),
            "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
            "ExposedPorts": {f"{PROBE_PORT}/tcp": {}},
            "Volumes": {STATE_PATH: {}},
            "StopSignal": "SIGTERM",
            "Labels": dict(labels),
        },
    }
