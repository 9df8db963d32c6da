"""Kubernetes manifests of an application: one pod that Kubernetes replaces, and its volume."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import yaml

from mustela.config.masking import is_secret_key
from mustela.config.settings import Settings
from mustela.config.units import show_duration
from mustela.deploy.errors import DeploymentError

__all__ = ["Deployment", "manifests", "secrets_of", "text_of"]

PROBE_PORT = 8081
ADMIN_PORT = 8443
LOOPBACK_PORT = 8080
STATE_PATH = "/state"
ADMIN_PATH = "/etc/mustela/admin"
USER = 10001
STOP_SPARE_S = 30
"""Seconds that a pod may take to end beyond what the settings allow for its last epoch."""

_PAIR: dict[str, Any] = {
    "replicas": 2,
    "podManagementPolicy": "Parallel",
    # A rollout goes on to the other pod when this one has had time to follow it.
    "minReadySeconds": 60,
}

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_LOCAL = re.compile(r"(localhost|127\.|\[?::1)")
_TOKENS = ("read", "query", "operate")


class _Application(Protocol):
    @property
    def settings(self) -> Settings: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How an application is to run on Kubernetes.

    Attributes:
        target: ``module:app``, as for ``mustela run``.
        image: The image that holds Python, Java, Mustela and the program.
        name: Of all that is made; by default the application id, in a form that Kubernetes takes.
        namespace: Where it is made; None leaves that to ``kubectl``.
        cpu: Processors, as Kubernetes writes them; also the number of lanes, if that is not set.
        memory: Of the whole pod: driver, JVM and workers.
        state_size: Of the volume with the state.
        storage_class: Of the volume; None takes the cluster's default.
        admin_secret: A Secret with ``tls.crt``, ``tls.key``, ``read-token``, ``query-token`` and
            ``operate-token``: the admin server is then reached from outside of the pod.
        standby: Run a second pod, with a volume of its own, that takes over.
    """

    target: str
    image: str
    name: str | None = None
    namespace: str | None = None
    cpu: str = "1"
    memory: str = "2Gi"
    state_size: str = "20Gi"
    storage_class: str | None = None
    admin_secret: str | None = None
    standby: bool = False


def manifests(app: _Application, deployment: Deployment) -> list[dict[str, Any]]:
    """Return the objects to be made: a headless Service, and a StatefulSet of one replica or two.

    The pod starts with the settings that the application has here, whatever they come from; what
    is secret among them is taken from the Secret ``NAME-secrets`` (`secrets_of`).

    Args:
        app: The application.
        deployment: How it is to run.

    Raises:
        DeploymentError: If a name or a size is none, or the brokers are on this machine.

    Example:
        >>> from mustela import App
        >>> app = App("shop", {"bootstrap.servers": "kafka:9092"})
        >>> found = manifests(app, Deployment(target="shop:app", image="shop:1.4"))
        >>> [(one["kind"], one["metadata"]["name"]) for one in found]
        [('Service', 'shop'), ('StatefulSet', 'shop')]
    """
    settings = app.settings
    _check(settings, deployment)
    name = _name(settings, deployment)
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "mustela"}
    ports = [{"name": "probe", "port": PROBE_PORT}]
    if deployment.admin_secret:
        ports.append({"name": "admin", "port": ADMIN_PORT})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, labels, deployment),
        "spec": {"clusterIP": "None", "selector": {"app.kubernetes.io/name": name}, "ports": ports},
    }
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": deployment.state_size}},
    }
    if deployment.storage_class:
        claim["storageClassName"] = deployment.storage_class
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(name, labels, deployment),
        "spec": {
            "serviceName": name,
            # An application is one instance: it scales by lanes. A second one only waits.
            **(_PAIR if deployment.standby else {"replicas": 1}),
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": {"labels": labels}, "spec": _pod(settings, deployment, name)},
            "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim}],
        },
    }
    return [service, stateful_set]


def secrets_of(settings: Settings) -> list[str]:
    """Return the secret settings that are not in the program, by their names in the environment.

    Example:
        >>> from mustela.config.settings import Settings
        >>> settings = Settings.load({"application_id": "a"}, environ={
        ...     "MUSTELA__KAFKA__SASL_PASSWORD": "x"})
        >>> secrets_of(settings)
        ['MUSTELA__KAFKA__SASL_PASSWORD']
    """
    return [_variable(key) for key, _ in _outside(settings) if is_secret_key(key)]


def text_of(found: Sequence[dict[str, Any]]) -> str:
    """Return manifests as YAML, a document each."""
    return "---\n".join(yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=100) for one in found)


class _Dumper(yaml.SafeDumper):
    """Writes each part where it belongs, also what is there twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: references would save a line and cost a look."""
        del data
        return True


def _check(settings: Settings, deployment: Deployment) -> None:
    if deployment.name is not None and not _NAME.fullmatch(deployment.name):
        msg = f"{deployment.name!r} is no name for Kubernetes"
        raise DeploymentError(msg, fix="use lower-case letters, digits and -, at most 63")
    for what in ("cpu", "memory", "state_size"):
        size = getattr(deployment, what)
        if not _QUANTITY.fullmatch(size):
            msg = f"{what} cannot be {size!r}"
            raise DeploymentError(msg, fix="write it as Kubernetes does: 500m, 2, 512Mi, 20Gi")
    if _LOCAL.match(settings.bootstrap_servers):
        msg = "the application's brokers are on this machine, where a pod does not reach them"
        raise DeploymentError(
            msg,
            evidence={"bootstrap.servers": settings.bootstrap_servers},
            fix="--set bootstrap.servers=HOST:PORT",
        )


def _name(settings: Settings, deployment: Deployment) -> str:
    made = re.sub(r"[^a-z0-9-]+", "-", settings.application_id.lower()).strip("-")[:63].strip("-")
    name = deployment.name or made
    if not name:
        msg = f"application id {settings.application_id!r} has no letter that Kubernetes takes"
        raise DeploymentError(msg, fix="name what is made: --name shop")
    return name


def _metadata(name: str, labels: dict[str, str], deployment: Deployment) -> dict[str, Any]:
    where = {"namespace": deployment.namespace} if deployment.namespace else {}
    return {"name": name, **where, "labels": labels}


def _pod(settings: Settings, deployment: Deployment, name: str) -> dict[str, Any]:
    size = {"cpu": deployment.cpu, "memory": deployment.memory}
    mounts: list[dict[str, Any]] = [
        {"name": "state", "mountPath": STATE_PATH},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "memory", "mountPath": "/dev/shm"},
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    ports: list[dict[str, Any]] = [{"name": "probe", "containerPort": PROBE_PORT}]
    if deployment.admin_secret:
        mounts.append({"name": "admin", "mountPath": ADMIN_PATH, "readOnly": True})
        secret = {"secretName": deployment.admin_secret, "defaultMode": 0o440}
        volumes.append({"name": "admin", "secret": secret})
        ports.append({"name": "admin", "containerPort": ADMIN_PORT})
    container = {
        "name": name,
        "image": deployment.image,
        "command": ["mustela", "run", deployment.target],
        "env": list(_environment(settings, deployment, name)),
        "ports": ports,
        "livenessProbe": _probe("live", every=10, times=6),
        # A pod that waits as a standby commits nothing, and is as it should be.
        "readinessProbe": _probe("live" if deployment.standby else "ready", every=5, times=2),
        # It may restore for long before it is ready; until it answers at all it is starting.
        "startupProbe": _probe("live", every=5, times=60),
        "resources": {"requests": size, "limits": {"memory": deployment.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    stop = settings.shutdown.grace + settings.commit_timeout + timedelta(seconds=STOP_SPARE_S)
    return {
        **(_apart(name) if deployment.standby else {}),
        "terminationGracePeriodSeconds": int(stop.total_seconds()),
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }


def _apart(name: str) -> dict[str, Any]:
    """Return that the two pods are better on two nodes."""
    other = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    wish = {"weight": 100, "podAffinityTerm": other}
    return {
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    }


def _probe(what: str, *, every: int, times: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": f"/health/{what}", "port": "probe"},
        "periodSeconds": every,
        "timeoutSeconds": 3,
        "failureThreshold": times,
    }


def _environment(settings: Settings, deployment: Deployment, name: str) -> Iterator[dict[str, Any]]:
    """Yield the pod's environment: what its place demands, then what the settings are here."""
    own = {
        "bootstrap_servers": settings.bootstrap_servers,
        # Kubernetes restarts whatever the exit code says: one that was fenced has to wait.
        "standby": "true",
        "state_dir": STATE_PATH,
        "log.format": "json",
        "admin.enabled": "true",
        "admin.listen": f"127.0.0.1:{LOOPBACK_PORT}",
        "admin.probe_listen": f"0.0.0.0:{PROBE_PORT}",
    }
    if settings.lanes is None:
        own["lanes"] = str(_processors(deployment.cpu))
    if deployment.admin_secret:
        own |= {
            "admin.listen": f"0.0.0.0:{ADMIN_PORT}",
            "admin.tls_certificate": f"{ADMIN_PATH}/tls.crt",
            "admin.tls_key": f"{ADMIN_PATH}/tls.key",
            "admin.allowed_hosts": "*",  # a pod is reached by many names; the token decides
        }
    for key, value in own.items():
        yield {"name": _variable(key), "value": value}
    for token in _TOKENS if deployment.admin_secret else ():
        variable = f"MUSTELA__ADMIN__{token.upper()}_TOKEN"
        yield _from_secret(variable, deployment.admin_secret, f"{token}-token")
    for key, value in _outside(settings):
        if key in own or key.startswith("admin."):
            continue
        variable = _variable(key)
        if is_secret_key(key):
            yield _from_secret(variable, f"{name}-secrets", variable)
        else:
            yield {"name": variable, "value": value}


def _from_secret(variable: str, secret: str | None, key: str) -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _outside(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings that are neither defaults nor said by the program."""
    for key, value in settings.masked().items():
        if settings.source_of(key) in (Settings.DEFAULT, "code") or value is None:
            continue
        if isinstance(value, timedelta):
            value = show_duration(value)
        yield key, str(value).lower() if isinstance(value, bool) else str(value)


def _variable(key: str) -> str:
    section, _, rest = key.partition(".")
    return f"MUSTELA__{section}__{rest}".upper().replace(".", "_").rstrip("_")


def _processors(cpu: str) -> int:
    """Return how many lanes some processors make: at least one, and one for each begun."""
    count = float(cpu.removesuffix("m")) / (1000 if cpu.endswith("m") else 1)
    return max(1, -int(-count // 1))
