"""Spark's executors as pods: what the driver must be allowed and told, and how they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from mustela.config.settings import Settings
from mustela.deploy.errors import DeploymentError
from mustela.deploy.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    SCRATCH,
    SCRATCH_MOUNTS,
    STATE_PATH,
    check_quantity,
    mebibytes,
    other_nodes,
    processors,
    secret_volumes,
)

__all__ = [
    "BLOCK_PORT",
    "DRIVER_PORT",
    "MASTER",
    "POD_NAME",
    "TEMPLATE_PATH",
    "Executors",
    "check_executors",
    "check_program",
    "executor_objects",
    "executors_name",
    "network_policies",
    "spark_properties",
]

MASTER = "k8s://https://kubernetes.default.svc"
DRIVER_PORT = 7078
BLOCK_PORT = 7079
TEMPLATE_PATH = "/etc/mustela/executor"
TEMPLATE_FILE = "pod.yaml"
POD_NAME = "spark.kubernetes.driver.pod.name"

MEMORY_MIN_MIB = 1024
HEAP_MIN_MIB = 512
"""Spark refuses to start an executor with less than 450 MiB."""
HEAP_MAX_MIB = 4096
HEAP_SHARE = 3 / 8
"""Of an executor's pod; the rest is for Python workers, Kafka's clients and mapped state."""

_RULE = {
    "apiGroups": [""],
    "resources": ["pods", "configmaps", "services", "persistentvolumeclaims"],
    "verbs": ["create", "get", "list", "watch", "patch", "delete", "deletecollection"],
}
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """Pods that run the lanes, while the application's own pod has the driver alone.

    Attributes:
        count: How many.
        image: Their image; None takes the application's.
        cpu: Processors of each, as Kubernetes writes them; also how many lanes it runs at once.
        memory: Of each whole pod: JVM and workers.
        state_size: Of the volume with its state; None keeps that on the disk of its node.
    """

    count: int
    image: str | None = None
    cpu: str = "2"
    memory: str = "2Gi"
    state_size: str | None = None


def check_executors(executors: Executors, *, storage_class: str | None, standby: bool) -> None:
    """See whether executors can be as they are described.

    Args:
        executors: How they are to be.
        storage_class: Of their volumes.
        standby: Whether a standby would have executors, too.

    Raises:
        DeploymentError: If they cannot.
    """
    if executors.count < 1:
        msg = f"an application cannot have {executors.count} executors"
        raise DeploymentError(msg, fix="leave out --executors to run its lanes in its own pod")
    for what in ("cpu", "memory", "state_size"):
        size = getattr(executors, what)
        if size is not None:
            check_quantity(f"executor_{what}", size)
    if mebibytes(executors.memory) < MEMORY_MIN_MIB:
        msg = f"executor_memory cannot be {executors.memory}"
        raise DeploymentError(
            msg,
            why="Spark's JVM takes half a gibibyte, and the Python workers are beside it",
            fix="--executor-memory 1Gi, or more",
        )
    if executors.state_size is not None and not storage_class:
        msg = "volumes of executors need the name of a storage class"
        raise DeploymentError(
            msg,
            why="Spark makes a volume only if it is told both its size and its class",
            fix="--storage-class NAME, one of those that kubectl get storageclass lists",
        )
    if standby:
        msg = "an application with executors cannot have a standby"
        raise DeploymentError(
            msg,
            why="the standby would hold as many executors again, and none of them would have state",
            fix="leave out --standby: Kubernetes starts the driver's pod anew, and executors keep "
            "second homes for state",
        )


def _labels(name: str) -> dict[str, str]:
    """Return what tells executors from all other pods, also from the driver's."""
    return {
        "app.kubernetes.io/part-of": name,
        "app.kubernetes.io/component": "executor",
    }


def executors_name(name: str) -> str:
    """Return the name of what belongs to executors; no application has a dot in its own."""
    return f"{name}.executor"


def spark_properties(
    namespace: str, image: str, executors: Executors, storage_class: str | None
) -> dict[str, str]:
    """Return Spark's properties, but for its master and what depends on the driver's pod.

    Args:
        namespace: Where it is made.
        image: The application's image.
        executors: How they are to be.
        storage_class: Of their volumes.
    """
    total = mebibytes(executors.memory)
    heap = min(HEAP_MAX_MIB, max(HEAP_MIN_MIB, int(total * HEAP_SHARE)))
    kind = "emptyDir" if executors.state_size is None else "persistentVolumeClaim"
    state = f"spark.kubernetes.executor.volumes.{kind}.state"
    properties = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": executors.image or image,
        "spark.kubernetes.executor.podTemplateFile": f"{TEMPLATE_PATH}/{TEMPLATE_FILE}",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": str(DRIVER_PORT),
        "spark.blockManager.port": str(BLOCK_PORT),
        # Another port than these would be reached by nobody.
        "spark.port.maxRetries": "0",
        "spark.executor.instances": str(executors.count),
        "spark.executor.cores": str(processors(executors.cpu)),
        "spark.kubernetes.executor.request.cores": executors.cpu,
        "spark.executor.memory": f"{heap}m",
        "spark.executor.memoryOverhead": f"{total - heap}m",
        f"{state}.mount.path": STATE_PATH,
    }
    if executors.state_size is not None:
        properties |= {
            f"{state}.mount.readOnly": "false",
            f"{state}.options.claimName": "OnDemand",
            f"{state}.options.sizeLimit": executors.state_size,
        }
        if storage_class:
            properties[f"{state}.options.storageClass"] = storage_class
    return properties


def check_program(settings: Settings, properties: dict[str, str]) -> None:
    """See whether the program itself leaves open what the pods are told.

    Raises:
        DeploymentError: If it sets one of the properties otherwise: a program is stronger.
    """
    for key, value in properties.items():
        said = settings.spark.get(key, value)
        if said != value and settings.source_of(key) == "code":
            msg = f"the program sets {key} to {said}, and its pods need {value}"
            raise DeploymentError(
                msg,
                why="what a program sets is stronger than what its pod is told",
                fix=f"take {key} out of the program, or say it in mustela.yaml, which gives way",
                fields={"property": key},
            )


def executor_objects(
    name: str, namespace: str, labels: dict[str, str], secrets: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what lets the driver make executors, what they are made from, and who reaches whom.

    Args:
        name: Of all that is made.
        namespace: Where it is made.
        labels: Of all that is made.
        secrets: Where Secrets are mounted.
    """

    def metadata(own: str) -> dict[str, Any]:
        return {"name": own, "namespace": namespace, "labels": labels}

    template = yaml.safe_dump(_template(name, secrets), sort_keys=False)
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata(name), "rules": [_RULE]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata(name),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(executors_name(name)),
            "data": {TEMPLATE_FILE: template},
        },
    ]


def network_policies(
    name: str, namespace: str, labels: dict[str, str], open_ports: list[int]
) -> list[dict[str, Any]]:
    """Return who reaches whom: Spark's ports are for the driver and its executors alone.

    Args:
        name: Of all that is made.
        namespace: Where it is made.
        labels: Of all that is made.
        open_ports: Ports of the driver's pod that everybody reaches.
    """
    driver, executors = {"app.kubernetes.io/name": name}, _labels(name)
    from_driver = {"podSelector": {"matchLabels": driver}}
    from_executors = {"podSelector": {"matchLabels": executors}}

    def policy(own: str, of: dict[str, str], ingress: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": own, "namespace": namespace, "labels": labels},
            "spec": {
                "podSelector": {"matchLabels": of},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        }

    return [
        policy(
            name,
            driver,
            [
                {"ports": _ports(*open_ports)},
                {"from": [from_executors], "ports": _ports(DRIVER_PORT, BLOCK_PORT)},
            ],
        ),
        policy(
            executors_name(name),
            executors,
            [{"from": [from_driver, from_executors], "ports": _ports(BLOCK_PORT)}],
        ),
    ]


def _ports(*numbers: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": number} for number in numbers]


def _template(name: str, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the pod that Spark begins an executor's with: it adds image, size, state and more."""
    volumes, mounts = secret_volumes(secrets)
    container = {
        "name": "executor",
        "command": ["python", "-P", "-m", "mustela.spark.executor_pod"],
        "workingDir": "/tmp",
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": [*map(dict, SCRATCH_MOUNTS), *mounts],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {**_labels(name), "app.kubernetes.io/managed-by": "mustela"}},
        "spec": {
            **other_nodes(_labels(name)),
            # The token lets the driver make pods; what runs in lanes needs none.
            "automountServiceAccountToken": False,
            "securityContext": dict(POD_SECURITY),
            "containers": [container],
            "volumes": [*map(dict, SCRATCH), *volumes],
        },
    }
