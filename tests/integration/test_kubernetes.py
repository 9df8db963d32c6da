"""Spark makes the pods of executors as the manifests tell it, and what is in them runs.

Kubernetes itself is not there: a stand-in answers Spark, and runs a pod's command on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from mustela import App, StreamsBuilder
from mustela.config.settings import Settings
from mustela.deploy.executors import Executors
from mustela.deploy.manifests import Deployment, manifests
from tests.kubernetes_api import Manifest, kubernetes_api
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.spark

NAMESPACE = "apps"
DRIVER = "shop-0"
JOB = """
import json, sys
from mustela.clock import SystemClock
from mustela.spark.executors import wait_for_executors
from mustela.spark.session import open_context

context = open_context("shop", json.load(sys.stdin))
wait_for_executors(context, clock=SystemClock(), say=print, stopped=lambda: False)
pairs = context.parallelize(range(100), 4).map(lambda number: (number % 7, number))
print(json.dumps(pairs.groupByKey(4).mapValues(sum).collectAsMap()))
context.stop()
"""


def made() -> dict[str, Manifest]:
    app = App("shop", {"bootstrap.servers": "kafka:9092"})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream("orders", key=str, value=str).to("copies")

    deployment = Deployment(
        target="shop:app",
        image="shop:1.4",
        namespace=NAMESPACE,
        storage_class="fast",
        secrets={"kafka-tls": "/etc/kafka"},
        executors=Executors(count=1, memory="1200Mi", state_size="5Gi"),
    )
    return {one["kind"]: one for one in manifests(app, deployment)}


def properties(found: dict[str, Manifest], url: str, directory: Path) -> dict[str, str]:
    """What the driver's pod tells Spark, but for addresses: all is on this machine here."""
    (container,) = found["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    environment = {row["name"]: row.get("value", DRIVER) for row in container["env"]}
    template = directory / "pod.yaml"
    template.write_text(found["ConfigMap"]["data"]["pod.yaml"], encoding="utf-8")
    return {
        **Settings.load({"application_id": "shop"}, environ=environment).spark,
        "spark.master": f"k8s://{url}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.blockManager.port": "0",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.enableApiWatcher": "false",
    }


def start(pod: Manifest, directory: Path) -> subprocess.Popen[bytes]:
    """Run the command of a pod as Kubernetes would: with its environment, and nothing else."""
    (container,) = pod["spec"]["containers"]
    fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    environment = {
        row["name"]: row["value"]
        if "value" in row
        else fields[row["valueFrom"]["fieldRef"]["fieldPath"]]
        for row in container["env"]
    }
    assert container["command"][0] == "python"
    return subprocess.Popen(
        [sys.executable, *container["command"][1:], *container["args"]],
        env={
            **environment,
            "PATH": os.environ["PATH"],
            "SPARK_LOCAL_DIRS": str(directory),
        },
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run_job(given: dict[str, str]) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sums: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return sums


def test_spark_makes_executors_as_the_manifests_say_and_they_run_a_job(tmp_path: Path) -> None:
    """Within what the role allows, as pods that Kubernetes takes and the policies know."""
    found = made()
    pods: list[Manifest] = []
    processes: list[subprocess.Popen[bytes]] = []

    def run(pod: Manifest) -> None:
        pods.append(pod)
        processes.append(start(pod, tmp_path))

    try:
        with kubernetes_api(run, driver=DRIVER, namespace=NAMESPACE) as api:
            sums = run_job(properties(found, api.url, tmp_path))
            assert sums == {str(rest): sum(range(rest, 100, 7)) for rest in range(7)}
            (pod,), (process,) = pods, processes
            assert process.wait(PATIENCE_S) == 0, "an executor ends with its driver"
    finally:
        for one in processes:
            one.kill()
            one.wait()
    (rule,) = found["Role"]["rules"]
    for asked in api.requests:
        assert (asked.resource in rule["resources"], asked.verb in rule["verbs"]) == (True, True)
        assert asked.namespace == NAMESPACE
    created = [one for one in api.requests if one.verb == "create"]
    assert {one.resource for one in created} == {"configmaps", "persistentvolumeclaims", "pods"}
    for one in created:
        kubernetes_validate.validate(one.body, "1.31", strict=True)
    check_pod(found, pod, created[[one.resource for one in created].index("pods")].body)


def check_pod(found: dict[str, Manifest], pod: Manifest, asked: Manifest) -> None:
    """See that a pod is as the manifests ask for: its size, its rights, its volumes."""
    labels: dict[str, Any] = pod["metadata"]["labels"]
    policies = found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]  # the executors' own
    assert policies.items() <= labels.items()
    assert not found["Service"]["spec"]["selector"].items() <= labels.items()
    assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
    spec = asked["spec"]
    of_driver = found["StatefulSet"]["spec"]["template"]["spec"]
    assert spec["securityContext"] == of_driver["securityContext"]
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert container["image"] == "shop:1.4"
    assert container["securityContext"] == of_driver["containers"][0]["securityContext"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "1200Mi"}
    assert container["resources"]["limits"] == {"memory": "1200Mi"}
    places = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert volumes[places["/etc/kafka"]]["secret"]["secretName"] == "kafka-tls"
    claim = volumes[places["/state"]]["persistentVolumeClaim"]["claimName"]
    assert claim.endswith("-exec-1-pvc-0")
    assert {"/tmp", "/dev/shm"} < set(places)
