"""What all pods of an application have: who runs in them, how large they are, and secret files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mustela.deploy.errors import DeploymentError

__all__ = [
    "CONTAINER_SECURITY",
    "POD_SECURITY",
    "SCRATCH",
    "SCRATCH_MOUNTS",
    "STATE_PATH",
    "USER",
    "check_quantity",
    "is_name",
    "mebibytes",
    "other_nodes",
    "processors",
    "read_mounts",
    "secret_volumes",
]

STATE_PATH = "/state"
USER = 10001

POD_SECURITY: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SCRATCH: Sequence[Mapping[str, Any]] = (
    {"name": "tmp", "emptyDir": {}},
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
)
"""Volumes for what does not last, as the root file system is read-only."""
SCRATCH_MOUNTS: Sequence[Mapping[str, Any]] = (
    {"name": "tmp", "mountPath": "/tmp"},
    {"name": "memory", "mountPath": "/dev/shm"},
)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SECRET = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PROCESSORS = re.compile(r"\d+(?:\.\d+)?m?")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_UNITS = {
    "": 1.0,
    "m": 0.001,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_TAKEN = (STATE_PATH, "/tmp", "/dev/shm", "/etc/mustela")


def is_name(name: str) -> bool:
    """Whether Kubernetes takes a name for a namespace or a label.

    Example:
        >>> is_name("shop-eu"), is_name("Shop_1")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None


def check_quantity(what: str, size: str) -> None:
    """See whether Kubernetes takes a size.

    Raises:
        DeploymentError: If it does not.
    """
    kind = _PROCESSORS if what.endswith("cpu") else _QUANTITY
    if not kind.fullmatch(size):
        msg = f"{what} cannot be {size!r}"
        raise DeploymentError(msg, fix="write it as Kubernetes does: 500m, 2, 512Mi, 20Gi")


def processors(cpu: str) -> int:
    """Return how many tasks some processors run at once: one for each that is begun.

    Example:
        >>> processors("500m"), processors("2"), processors("2500m")
        (1, 2, 3)
    """
    count = float(cpu.removesuffix("m")) / (1000 if cpu.endswith("m") else 1)
    return max(1, -int(-count // 1))


def mebibytes(size: str) -> int:
    """Return a size in whole MiB.

    Example:
        >>> mebibytes("2Gi"), mebibytes("1500M")
        (2048, 1430)
    """
    found = _QUANTITY.fullmatch(size)
    assert found is not None
    return int(float(found[1]) * _UNITS[found[2] or ""] / 2**20)


def other_nodes(labels: Mapping[str, str]) -> dict[str, Any]:
    """Return that pods are better on a node without another one that has these labels."""
    other = {
        "labelSelector": {"matchLabels": dict(labels)},
        "topologyKey": "kubernetes.io/hostname",
    }
    wish = {"weight": 100, "podAffinityTerm": other}
    return {
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    }


def read_mounts(given: Sequence[str]) -> dict[str, str]:
    """Return where Secrets are mounted: ``NAME=PATH`` each.

    Raises:
        DeploymentError: If one is something else, or the directory is taken.

    Example:
        >>> read_mounts(["kafka-tls=/etc/kafka"])
        {'kafka-tls': '/etc/kafka'}
    """
    mounts: dict[str, str] = {}
    for text in given:
        name, _, path = text.partition("=")
        why = ""
        if not _SECRET.fullmatch(name) or not _PATH.fullmatch(path) or ".." in path.split("/"):
            why = "it is the name of a Secret and a directory of the pods"
        elif any(f"{path}/".startswith(f"{taken}/") for taken in _TAKEN):
            why = "the pods have something else there"
        elif name in mounts or path in mounts.values():
            why = "a Secret has one directory, and a directory one Secret"
        if why:
            msg = f"no Secret can be mounted as {text!r}"
            raise DeploymentError(msg, why=why, fix="--mount-secret kafka-tls=/etc/kafka")
        mounts[name] = path
    return mounts


def secret_volumes(
    mounts: Mapping[str, str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volumes of mounted Secrets, and where a container has them."""
    volumes: list[dict[str, Any]] = []
    places: list[dict[str, Any]] = []
    for number, (name, path) in enumerate(mounts.items()):
        volume = f"secret-{number}"
        volumes.append({"name": volume, "secret": {"secretName": name, "defaultMode": 0o440}})
        places.append({"name": volume, "mountPath": path, "readOnly": True})
    return volumes, places
