"""Kubernetes manifests of an application: one pod that Kubernetes replaces, and its volume.

Its lanes run in that pod, or in pods of Spark's executors (executors.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import yaml

from mustela.config.masking import MASK, mask_value
from mustela.config.settings import Settings
from mustela.config.sparknames import spark_property
from mustela.config.units import show_duration
from mustela.deploy.errors import DeploymentError
from mustela.deploy.executors import (
    BLOCK_PORT,
    DRIVER_PORT,
    MASTER,
    POD_NAME,
    TEMPLATE_PATH,
    Executors,
    check_executors,
    check_program,
    executor_objects,
    executors_name,
    network_policies,
    spark_properties,
)
from mustela.deploy.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    SCRATCH,
    SCRATCH_MOUNTS,
    STATE_PATH,
    check_quantity,
    is_name,
    other_nodes,
    processors,
    secret_volumes,
)

__all__ = ["Deployment", "files_of", "manifests", "secrets_of", "text_of"]

PROBE_PORT = 8081
ADMIN_PORT = 8443
LOOPBACK_PORT = 8080
ADMIN_PATH = "/etc/mustela/admin"
STOP_SPARE_S = 30
"""Seconds that a pod may take to end beyond what the settings allow for its last epoch."""

_PAIR: dict[str, Any] = {
    "replicas": 2,
    "podManagementPolicy": "Parallel",
    # A rollout goes on to the other pod when this one has had time to follow it.
    "minReadySeconds": 60,
}

_NAME_MAX = 52
"""Of a StatefulSet: its pods have a label with its name, eleven characters more, and 63 at most."""
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[-._A-Za-z0-9]+")
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
        executors: Pods that run the lanes; None runs them in the application's own pod.
        secrets: Where Secrets with files are mounted, in all pods.
        given: Settings said for this deployment. They are stronger than the program's own, so the
            pod's command has them; secret ones come from the environment as others do.
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
    executors: Executors | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    given: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def where(self) -> str:
        """The namespace, where it has to be known: as kubectl has it for who never said one."""
        return self.namespace or "default"


def manifests(app: _Application, deployment: Deployment) -> list[dict[str, Any]]:
    """Return the objects to be made: a headless Service, and a StatefulSet of one replica or two.

    With executors there is before them what lets its pod make others, and who reaches whom.

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
    made: list[dict[str, Any]] = []
    if deployment.executors is not None:
        open_ports = [PROBE_PORT, *([ADMIN_PORT] if deployment.admin_secret else [])]
        made = [
            *executor_objects(name, deployment.where, labels, deployment.secrets),
            *network_policies(name, deployment.where, labels, open_ports),
        ]
    return [*made, _service(name, labels, deployment), _stateful_set(settings, deployment, labels)]


def _service(name: str, labels: dict[str, str], deployment: Deployment) -> dict[str, Any]:
    ports = [{"name": "probe", "port": PROBE_PORT}]
    if deployment.admin_secret:
        ports.append({"name": "admin", "port": ADMIN_PORT})
    spec: dict[str, Any] = {
        "clusterIP": "None",
        "selector": {"app.kubernetes.io/name": name},
        "ports": ports,
    }
    if deployment.executors is not None:
        ports.append({"name": "spark-driver", "port": DRIVER_PORT})
        ports.append({"name": "spark-blocks", "port": BLOCK_PORT})
        # Executors look for the driver by its name, which is ready only when it has executors.
        spec["publishNotReadyAddresses"] = True
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name, labels, deployment),
        "spec": spec,
    }


def _stateful_set(
    settings: Settings, deployment: Deployment, labels: dict[str, str]
) -> dict[str, Any]:
    name = labels["app.kubernetes.io/name"]
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": deployment.state_size}},
    }
    if deployment.storage_class:
        claim["storageClassName"] = deployment.storage_class
    return {
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


def secrets_of(settings: Settings, given: Collection[str] = ()) -> list[str]:
    """Return the secret settings that are not in the program, by their names in the environment.

    Args:
        settings: The settings.
        given: Names of those that were said for this deployment.

    Example:
        >>> from mustela.config.settings import Settings
        >>> settings = Settings.load({"application_id": "a"}, environ={
        ...     "MUSTELA__KAFKA__SASL_PASSWORD": "x"})
        >>> secrets_of(settings)
        ['MUSTELA__KAFKA__SASL_PASSWORD']
    """
    return [_variable(key) for key, value in _outside(settings, given) if _is_secret(key, value)]


def files_of(settings: Settings, secrets: Mapping[str, str]) -> list[str]:
    """Return the settings that name files which no mounted Secret has: images must have them.

    Example:
        >>> from mustela.config.settings import Settings
        >>> settings = Settings.load({"application_id": "a", "kafka": {
        ...     "ssl.ca.location": "/etc/ssl/company.pem",
        ...     "ssl.key.location": "/etc/kafka/client.key"}}, environ={})
        >>> files_of(settings, {"kafka-tls": "/etc/kafka"})
        ['kafka.ssl.ca.location']
    """
    return [
        f"{section}.{key}"
        for section, said in (
            ("kafka", settings.kafka),
            ("schema_registry", settings.schema_registry),
        )
        for key, value in said.items()
        if key.endswith(".location")
        and not any(str(value).startswith(f"{path}/") for path in secrets.values())
    ]


def text_of(found: Sequence[dict[str, Any]]) -> str:
    """Return manifests as YAML, a document each."""
    return "---\n".join(yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=100) for one in found)


class _Dumper(yaml.SafeDumper):
    """Writes each part where it belongs, also what is there twice, and files line by line."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: references would save a line and cost a look."""
        del data
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return a text as it is read: one of several lines as such."""
        style = "|" if "\n" in data else None
        return yaml.ScalarNode("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


def _check(settings: Settings, deployment: Deployment) -> None:
    if deployment.name is not None:
        _check_name(deployment.name)
    if deployment.namespace is not None and not is_name(deployment.namespace):
        msg = f"{deployment.namespace!r} is no namespace of Kubernetes"
        raise DeploymentError(msg, fix="use lower-case letters, digits and -, at most 63")
    for what in ("cpu", "memory", "state_size"):
        check_quantity(what, getattr(deployment, what))
    if deployment.executors is not None:
        check_executors(
            deployment.executors,
            storage_class=deployment.storage_class,
            standby=deployment.standby,
        )
    if settings.source_of("state_dir") == "code" and str(settings.state_dir) != STATE_PATH:
        msg = "the program or --set says where state is kept, and so its volume would stay empty"
        raise DeploymentError(
            msg,
            evidence={"state_dir": str(settings.state_dir), "volume": STATE_PATH},
            fix="leave state_dir out: here it is taken from the environment of the pod",
        )
    if _LOCAL.match(settings.bootstrap_servers):
        msg = "the application's brokers are on this machine, where a pod does not reach them"
        raise DeploymentError(
            msg,
            evidence={"bootstrap.servers": settings.bootstrap_servers},
            fix="--set bootstrap.servers=HOST:PORT",
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        msg = f"{name!r} is no name for Kubernetes"
        raise DeploymentError(
            msg,
            why="a Service begins with a letter, and the pods of a StatefulSet have a label with "
            "its name and eleven characters more",
            fix=f"use lower-case letters, digits and -, at most {_NAME_MAX}, a letter first",
        )


def _name(settings: Settings, deployment: Deployment) -> str:
    if deployment.name is not None:
        return deployment.name
    name = re.sub(r"[^a-z0-9-]+", "-", settings.application_id.lower()).strip("-")
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        msg = f"application id {settings.application_id!r} makes no name that Kubernetes takes"
        raise DeploymentError(
            msg,
            why=f"it has no letter first, or more than {_NAME_MAX} characters",
            fix="name what is made: --name shop",
        )
    return name


def _metadata(name: str, labels: dict[str, str], deployment: Deployment) -> dict[str, Any]:
    known = deployment.executors is not None or deployment.namespace
    where = {"namespace": deployment.where} if known else {}
    return {"name": name, **where, "labels": labels}


def _pod(settings: Settings, deployment: Deployment, name: str) -> dict[str, Any]:
    size = {"cpu": deployment.cpu, "memory": deployment.memory}
    volumes, mounts = _volumes(deployment, name)
    ports: list[dict[str, Any]] = [{"name": "probe", "containerPort": PROBE_PORT}]
    if deployment.admin_secret:
        ports.append({"name": "admin", "containerPort": ADMIN_PORT})
    command = ["mustela", "run", deployment.target]
    for key, value in deployment.given.items():
        if not _is_secret(key, value):
            command += ["--set", f"{key}={value}"]
    if deployment.executors is not None:
        command += ["--master", MASTER]
        ports.append({"name": "spark-driver", "containerPort": DRIVER_PORT})
        ports.append({"name": "spark-blocks", "containerPort": BLOCK_PORT})
    container = {
        "name": name,
        "image": deployment.image,
        "command": command,
        "env": list(_environment(settings, deployment, name)),
        "ports": ports,
        "livenessProbe": _probe("live", every=10, times=6),
        # A pod that waits as a standby commits nothing, and is as it should be.
        "readinessProbe": _probe("live" if deployment.standby else "ready", every=5, times=2),
        # It may restore for long before it is ready; until it answers at all it is starting.
        "startupProbe": _probe("live", every=5, times=60),
        "resources": {"requests": size, "limits": {"memory": deployment.memory}},
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": mounts,
    }
    stop = settings.shutdown.grace + settings.commit_timeout + timedelta(seconds=STOP_SPARE_S)
    account = {} if deployment.executors is None else {"serviceAccountName": name}
    return {
        **(other_nodes({"app.kubernetes.io/name": name}) if deployment.standby else {}),
        "terminationGracePeriodSeconds": int(stop.total_seconds()),
        **account,
        "automountServiceAccountToken": deployment.executors is not None,
        "securityContext": dict(POD_SECURITY),
        "containers": [container],
        "volumes": volumes,
    }


def _volumes(
    deployment: Deployment, name: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the pod's volumes but for that of the state, and where its container has all."""
    mounts: list[dict[str, Any]] = [
        {"name": "state", "mountPath": STATE_PATH},
        *map(dict, SCRATCH_MOUNTS),
    ]
    volumes: list[dict[str, Any]] = [*map(dict, SCRATCH)]
    if deployment.admin_secret:
        mounts.append({"name": "admin", "mountPath": ADMIN_PATH, "readOnly": True})
        secret = {"secretName": deployment.admin_secret, "defaultMode": 0o440}
        volumes.append({"name": "admin", "secret": secret})
    if deployment.executors is not None:
        mounts.append({"name": "executor", "mountPath": TEMPLATE_PATH, "readOnly": True})
        volumes.append({"name": "executor", "configMap": {"name": executors_name(name)}})
    more, places = secret_volumes(deployment.secrets)
    return [*volumes, *more], [*mounts, *places]


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
    if settings.lanes is None and deployment.executors is None:
        own["lanes"] = str(processors(deployment.cpu))
    if deployment.admin_secret:
        own |= {
            "admin.listen": f"0.0.0.0:{ADMIN_PORT}",
            "admin.tls_certificate": f"{ADMIN_PATH}/tls.crt",
            "admin.tls_key": f"{ADMIN_PATH}/tls.key",
            "admin.allowed_hosts": "*",  # a pod is reached by many names; the token decides
        }
    for key, value in own.items():
        yield {"name": _variable(key), "value": value}
    if deployment.executors is not None:
        told = _spark(settings, deployment, deployment.executors, name)
        pod = {"fieldRef": {"fieldPath": "metadata.name"}}
        yield {"name": _variable(POD_NAME), "valueFrom": pod}
        yield from ({"name": _variable(key), "value": value} for key, value in told.items())
        own |= {**told, POD_NAME: "", "spark.master": MASTER}
    for token in _TOKENS if deployment.admin_secret else ():
        variable = f"MUSTELA__ADMIN__{token.upper()}_TOKEN"
        yield _from_secret(variable, deployment.admin_secret, f"{token}-token")
    for key, value in _outside(settings, deployment.given):
        if key in own or key.startswith("admin."):
            continue
        variable = _variable(key)
        if _is_secret(key, value):
            yield _from_secret(variable, f"{name}-secrets", variable)
        else:
            yield {"name": variable, "value": value}


def _spark(
    settings: Settings, deployment: Deployment, executors: Executors, name: str
) -> dict[str, str]:
    """Return what Spark is told in the environment, once the pod's own name is there."""
    told = spark_properties(deployment.where, deployment.image, executors, deployment.storage_class)
    host = f"$({_variable(POD_NAME)}).{name}.{deployment.where}.svc"
    told = {"spark.driver.host": host, **told}
    check_program(settings, {POD_NAME: f"{name}-0", **told})
    return told


def _from_secret(variable: str, secret: str | None, key: str) -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _is_secret(key: str, value: object) -> bool:
    """Whether a setting is secret, masked or not: by its name, or as an address with a login."""
    return MASK in str(mask_value(key, value))


def _outside(settings: Settings, given: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that are neither defaults nor said by the program or the pod's command."""
    for key, value in settings.masked().items():
        secret_given = key in given and _is_secret(key, value)
        said = settings.source_of(key) in (Settings.DEFAULT, "code") and not secret_given
        if said or value is None:
            continue
        if isinstance(value, timedelta):
            value = show_duration(value)
        yield key, str(value).lower() if isinstance(value, bool) else str(value)


def _variable(key: str) -> str:
    """Return the variable that says a setting; capitals only where they are understood."""
    section, _, rest = key.partition(".")
    if section == "spark":
        if not _VARIABLE.fullmatch(rest) or "_" in rest:
            msg = f"no variable of a pod can say the Spark property {key}"
            raise DeploymentError(msg, fix="set it in the program")
        upper = spark_property(rest.lower()) == rest
        return f"MUSTELA__SPARK__{(rest.upper() if upper else rest).replace('.', '_')}"
    return f"MUSTELA__{section}__{rest}".upper().replace(".", "_").rstrip("_")
