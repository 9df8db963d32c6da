"""Executors as pods: what allows and tells the driver, and how Spark is to make them."""

from __future__ import annotations

import re
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mustela import App, StreamsBuilder
from mustela.cli.main import main
from mustela.config.settings import Settings
from mustela.deploy.errors import DeploymentError
from mustela.deploy.executors import Executors
from mustela.deploy.manifests import Deployment, manifests, text_of
from mustela.deploy.pods import STATE_PATH, mebibytes, read_mounts
from mustela.spark.properties import properties_for

Manifest = dict[str, Any]
POD = "shop-0"
_OF_SETTINGS = re.compile(
    r"(k8s/Config\$?|KubernetesVolumeUtils\$?|internal/config/package\$?|util/Utils\$?)\.class$"
)
_REFERENCE = re.compile(r"\$\((\w+)\)")
_VOLUME = re.compile(r"(spark\.kubernetes\.executor\.volumes\.)\w+\.\w+\.(.+)")


def shop(**settings: Any) -> App:
    app = App("shop", {"bootstrap.servers": "kafka:9092", **settings})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream("orders", key=str, value=str).to("copies")

    return app


def made(
    app: App | None = None, executors: Executors | None = None, **options: Any
) -> dict[str, Manifest]:
    """What is made, by kind; the policy of the executors apart from that of the driver."""
    wanted = executors or Executors(count=4)
    given = {"target": "shop:app", "image": "shop:1.4", "namespace": "apps", **options}
    found: dict[str, Manifest] = {}
    for one in manifests(app or shop(), Deployment(executors=wanted, **given)):
        of_executors = one["kind"] == "NetworkPolicy" and "." in one["metadata"]["name"]
        found["ExecutorPolicy" if of_executors else one["kind"]] = one
    return found


def driver(found: dict[str, Manifest]) -> Manifest:
    return found["StatefulSet"]["spec"]["template"]


def template(found: dict[str, Manifest]) -> Manifest:
    (text,) = found["ConfigMap"]["data"].values()
    pod: Manifest = yaml.safe_load(text)
    return pod


def told(found: dict[str, Manifest]) -> Settings:
    """The settings that the driver reads, with what Kubernetes puts into its environment."""
    (container,) = driver(found)["spec"]["containers"]
    environment: dict[str, str] = {}
    for row in container["env"]:
        if "valueFrom" in row:
            of_pod = row["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
            environment[row["name"]] = POD if of_pod else "a secret of enough characters"
        else:  # only variables before it are replaced, as Kubernetes does it
            value = _REFERENCE.sub(lambda one: environment.get(one[1], one[0]), row["value"])
            environment[row["name"]] = value
    assert container["command"][:3] == ["mustela", "run", "shop:app"]
    option, master = container["command"][3:]
    assert option == "--master"
    settings = Settings.load({"application_id": "shop"}, environ=environment)
    return settings.with_values({"spark.master": master})


def selects(selector: Manifest, labels: Manifest) -> bool:
    return selector["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(
    ("executors", "options"),
    [
        (Executors(count=4), {}),
        (
            Executors(
                count=2, image="shop-executor:1", cpu="500m", memory="8Gi", state_size="50Gi"
            ),
            {
                "name": "orders",
                "storage_class": "fast",
                "admin_secret": "keys",
                "secrets": {"kafka-tls": "/etc/kafka"},
            },
        ),
    ],
)
def test_all_that_is_made_is_what_kubernetes_takes(
    executors: Executors, options: dict[str, Any]
) -> None:
    """By the schemas of its API, strictly: also the pod that executors begin as."""
    found = made(None, executors, **options)
    documents = list(yaml.safe_load_all(text_of(list(found.values()))))
    assert {document["kind"] for document in documents} == {
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ConfigMap",
        "NetworkPolicy",
        "Service",
        "StatefulSet",
    }
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)
        assert document["metadata"]["namespace"] == "apps"
    pod = template(found)
    pod["spec"]["containers"][0]["image"] = "shop:1.4"  # Spark adds it
    kubernetes_validate.validate(pod, "1.31", strict=True)


def test_what_spark_is_told_names_what_is_made() -> None:
    """Read as the driver reads it; Mustela takes each property, and nothing is left to be said."""
    found = made()
    settings = told(found)
    spark = settings.spark
    assert properties_for(spark)["spark.authenticate"] == "true"
    assert spark["spark.master"] == "k8s://https://kubernetes.default.svc"
    assert spark["spark.kubernetes.namespace"] == found["Role"]["metadata"]["namespace"]
    assert spark["spark.kubernetes.driver.pod.name"] == POD
    service = found["Service"]
    assert found["StatefulSet"]["spec"]["serviceName"] == service["metadata"]["name"] == "shop"
    assert spark["spark.driver.host"] == f"{POD}.shop.apps.svc"
    assert service["spec"]["publishNotReadyAddresses"] is True
    ports = {port["port"] for port in service["spec"]["ports"]}
    assert {int(spark["spark.driver.port"]), int(spark["spark.blockManager.port"])} < ports
    file = Path(spark["spark.kubernetes.executor.podTemplateFile"])
    assert file.name in found["ConfigMap"]["data"]
    pod = driver(found)["spec"]
    places = {one["mountPath"]: one["name"] for one in pod["containers"][0]["volumeMounts"]}
    (volume,) = (one for one in pod["volumes"] if one["name"] == places[str(file.parent)])
    assert volume["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    state = "spark.kubernetes.executor.volumes.emptyDir.state.mount.path"
    assert spark[state] == str(settings.state_dir) == STATE_PATH
    assert settings.lanes is None, "as many as the executors' cores"


def test_each_property_is_one_of_sparks() -> None:
    """Its own jars hold their names."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    known: set[str] = set()
    for name in ("spark-kubernetes", "spark-core"):
        (jar,) = (Path(spec.origin).parent / "jars").glob(f"{name}_*.jar")
        with zipfile.ZipFile(jar) as archive:
            for one in archive.namelist():
                if _OF_SETTINGS.search(one):
                    found = re.findall(rb"spark\.[\w.]+|(?:mount|options)\.\w+", archive.read(one))
                    known |= {text.decode() for text in found}
    volumes = made(None, Executors(count=1, state_size="1Gi"), storage_class="fast")
    for properties in (told(made()).spark, told(volumes).spark):
        for key in properties:
            volume = _VOLUME.fullmatch(key)
            names = {key} if volume is None else {volume[1], volume[2]}
            assert names <= known, key
    assert "spark.kubernetes.executor.podTemplate" not in known


def test_the_driver_may_make_pods_and_executors_may_not() -> None:
    """Its account is bound to the role; what runs in lanes has no token."""
    found = made()
    account = found["ServiceAccount"]["metadata"]
    assert driver(found)["spec"]["serviceAccountName"] == account["name"]
    assert driver(found)["spec"]["automountServiceAccountToken"] is True
    binding = found["RoleBinding"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert binding["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    pod = template(found)["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod


def test_only_executors_of_the_application_reach_sparks_ports() -> None:
    """The driver's are for them alone; theirs for each other and the driver."""
    found = made(admin_secret="keys")
    own, executor = driver(found)["metadata"]["labels"], template(found)["metadata"]["labels"]
    policy, policy_of_executors = found["NetworkPolicy"]["spec"], found["ExecutorPolicy"]["spec"]
    assert selects(policy["podSelector"], own)
    assert not selects(policy["podSelector"], executor)
    assert selects(policy_of_executors["podSelector"], executor)
    assert not selects(policy_of_executors["podSelector"], own)
    everybody, executors = policy["ingress"]
    assert "from" not in everybody
    assert {one["port"] for one in everybody["ports"]} == {8081, 8443}
    (who,) = executors["from"]
    assert selects(who["podSelector"], executor)
    spark = told(found).spark
    driver_port, block_port = (
        int(spark[f"spark.{one}.port"]) for one in ("driver", "blockManager")
    )
    assert {one["port"] for one in executors["ports"]} == {driver_port, block_port}
    (rule,) = policy_of_executors["ingress"]
    assert [selects(one["podSelector"], own) for one in rule["from"]] == [True, False]
    assert [selects(one["podSelector"], executor) for one in rule["from"]] == [False, True]
    assert [one["port"] for one in rule["ports"]] == [block_port]
    assert not selects({"matchLabels": found["Service"]["spec"]["selector"]}, executor)
    other = manifests(
        shop(),
        Deployment(target="a:b", image="c", name="other", executors=Executors(count=1)),
    )
    (text,) = other[3]["data"].values()
    stranger = yaml.safe_load(text)["metadata"]["labels"]
    assert not selects(who["podSelector"], stranger)


def test_executors_run_as_the_driver_does() -> None:
    """Nobody is root, and no root file system can be written to."""
    found = made()
    pod, executor = driver(found)["spec"], template(found)["spec"]
    assert executor["securityContext"] == pod["securityContext"]
    assert executor["securityContext"]["runAsNonRoot"] is True
    own, other = pod["containers"][0], executor["containers"][0]
    assert other["securityContext"] == own["securityContext"]
    assert other["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {one["mountPath"] for one in other["volumeMounts"]}
    assert other["workingDir"] in writable


@pytest.mark.parametrize(
    ("cpu", "memory", "cores", "heap"),
    [
        ("2", "2Gi", "2", 768),
        ("500m", "1Gi", "1", 512),
        ("3500m", "1500M", "4", 536),
        ("16", "64Gi", "16", 4096),
    ],
)
def test_an_executors_pod_is_as_large_as_it_was_asked_for(
    cpu: str, memory: str, cores: str, heap: int
) -> None:
    """The heap is the smaller part: Python workers and mapped state are outside of it."""
    spark = told(made(None, Executors(count=1, cpu=cpu, memory=memory))).spark
    sizes = [spark["spark.executor.memory"], spark["spark.executor.memoryOverhead"]]
    assert sizes[0] == f"{heap}m"
    assert sum(int(size.removesuffix("m")) for size in sizes) == mebibytes(memory)
    assert heap >= 450, "Spark starts no executor with less"
    assert spark["spark.executor.cores"] == cores
    assert spark["spark.kubernetes.executor.request.cores"] == cpu


def test_state_may_have_a_volume_of_its_own() -> None:
    """Which Spark makes with the pod."""
    executors = Executors(count=1, image="lanes:2", state_size="50Gi")
    spark = told(made(None, executors, storage_class="fast")).spark
    prefix = "spark.kubernetes.executor.volumes."
    assert {key.removeprefix(prefix): spark[key] for key in spark if key.startswith(prefix)} == {
        "persistentVolumeClaim.state.mount.path": STATE_PATH,
        "persistentVolumeClaim.state.mount.readOnly": "false",
        "persistentVolumeClaim.state.options.claimName": "OnDemand",
        "persistentVolumeClaim.state.options.sizeLimit": "50Gi",
        "persistentVolumeClaim.state.options.storageClass": "fast",
    }
    assert spark["spark.kubernetes.container.image"] == "lanes:2"


def test_files_of_secrets_are_in_all_pods() -> None:
    """Executors read from Kafka, too, and need what ssl.ca.location names."""
    found = made(secrets=read_mounts(["kafka-tls=/etc/kafka", "registry=/etc/registry"]))
    for pod in (driver(found)["spec"], template(found)["spec"]):
        volumes = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
        places = {
            volumes[one["name"]]["secretName"]: one["mountPath"]
            for one in pod["containers"][0]["volumeMounts"]
            if one["name"] in volumes
        }
        assert places == {"kafka-tls": "/etc/kafka", "registry": "/etc/registry"}


def test_settings_of_here_give_way_and_those_of_the_program_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod is told in its environment, and a program is stronger than that."""
    (tmp_path / "mustela.yaml").write_text(
        "spark: {spark.master: 'local[4]', spark.executor.memory: 9g, spark.my.ownThing: x}\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    spark = told(made(shop(**{"spark.locality.wait": "2s"}))).spark
    assert spark["spark.master"].startswith("k8s://")
    assert spark["spark.executor.memory"] == "768m"
    assert spark["spark.my.ownThing"] == "x"
    assert "spark.locality.wait" not in spark, "the program says it by itself"
    with pytest.raises(DeploymentError, match=r"sets spark\.executor\.memory to 4g") as caught:
        made(shop(**{"spark.executor.memory": "4g"}))
    assert "take spark.executor.memory out of the program" in (caught.value.fix or "")
    made(shop())


def test_the_namespace_is_kubernetes_default_unless_it_is_said() -> None:
    """A binding names that of the account, so that it has to be known."""
    found = made(namespace=None)
    assert {one["metadata"]["namespace"] for one in found.values()} == {"default"}
    assert found["RoleBinding"]["subjects"][0]["namespace"] == "default"
    assert told(found).spark["spark.driver.host"] == f"{POD}.shop.default.svc"


@pytest.mark.parametrize(
    ("executors", "options", "what", "right"),
    [
        ({"count": 0}, {}, "cannot have 0 executors", {"count": 1}),
        ({"cpu": "2Gi"}, {}, "executor_cpu cannot be '2Gi'", {"cpu": "2"}),
        ({"memory": "2GB"}, {}, "executor_memory cannot be '2GB'", {"memory": "2Gi"}),
        ({"memory": "512Mi"}, {}, "executor_memory cannot be 512Mi", {"memory": "1Gi"}),
        ({"state_size": "1Gi"}, {}, "need the name of a storage class", {}),
        ({}, {"standby": True}, "cannot have a standby", {}),
        ({}, {"namespace": "My_Apps"}, "no namespace of Kubernetes", {}),
        ({}, {"name": "1shop"}, "no name for Kubernetes", {}),
        ({}, {"name": "s" * 53}, "no name for Kubernetes", {}),
    ],
)
def test_what_cannot_be_is_refused_with_what_helps(
    executors: dict[str, Any], options: dict[str, Any], what: str, right: dict[str, Any]
) -> None:
    """Before Kubernetes or Spark would refuse it, or wait for ever."""
    with pytest.raises(DeploymentError, match=what) as caught:
        made(None, Executors(**{"count": 1, **executors}), **options)
    assert caught.value.fix
    made(None, Executors(**{"count": 1, **right}))


@pytest.mark.parametrize(
    "given", ["kafka-tls", "Kafka=/etc/kafka", "tls=etc", "tls=/state/tls", "tls=/etc/../state"]
)
def test_a_secret_that_cannot_be_mounted_is_refused(given: str) -> None:
    """Its name and its directory are looked at."""
    with pytest.raises(DeploymentError, match="no Secret can be mounted") as caught:
        read_mounts([given])
    assert caught.value.fix == "--mount-secret kafka-tls=/etc/kafka"
    assert read_mounts(["kafka-tls=/etc/kafka"]) == {"kafka-tls": "/etc/kafka"}


def test_the_command_prints_all_of_it_and_names_files_that_nobody_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the secret that has to be made is made in the namespace of the pods."""
    program = """
from mustela import App

app = App("shop", {"bootstrap.servers": "kafka:9092"})

@app.topology
def build(builder):
    builder.stream("orders", key=str, value=str).to("copies")
"""
    (tmp_path / "executor_shop.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTELA__KAFKA__SSL_CA_LOCATION", "/etc/kafka/ca.pem")
    monkeypatch.setenv("MUSTELA__KAFKA__SSL_CERTIFICATE_LOCATION", "/etc/client/tls.crt")
    monkeypatch.setenv("MUSTELA__KAFKA__SASL_PASSWORD", "hunter2")
    command = ["k8s", "executor_shop:app", "--image", "shop:1.4", "--executors", "3"]
    more = ["--executor-image", "lanes:1", "--executor-cpu", "4", "--executor-memory", "6Gi"]
    assert main([*command, *more, "--mount-secret", "kafka-tls=/etc/kafka"]) == 0
    printed = capsys.readouterr()
    assert "hunter2" not in printed.out + printed.err
    kinds = [one["kind"] for one in yaml.safe_load_all(printed.out)]
    assert kinds[-2:] == ["Service", "StatefulSet"]
    assert "create secret generic shop-secrets -n default" in printed.err
    assert "kafka.ssl.certificate.location is a file" in printed.err
    assert "kafka.ssl.ca.location is a file" not in printed.err
    assert "    spec:\n" in printed.out, "the template is printed line by line"
