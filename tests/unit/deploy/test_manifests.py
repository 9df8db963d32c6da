"""Kubernetes manifests: valid by Kubernetes' own schemas, and what an application needs there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mustela import App, StreamsBuilder
from mustela.cli.main import main
from mustela.deploy.errors import DeploymentError
from mustela.deploy.manifests import Deployment, manifests, text_of

PROGRAM = """
from mustela import App

app = App("shop")

@app.topology
def build(builder):
    orders = builder.stream("orders", key=str, value=str).group_by_key()
    orders.count(store="counts").to_stream().to("counts")
"""


def shop(**settings: Any) -> App:
    app = App("shop", {"bootstrap.servers": "kafka:9092", **settings})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream("orders", key=str, value=str).to("copies")

    return app


def made(app: App | None = None, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    deployment = Deployment(**{"target": "shop:app", "image": "shop:1.4", **options})
    service, stateful_set = manifests(app or shop(), deployment)
    return service, stateful_set


def container(stateful_set: dict[str, Any]) -> dict[str, Any]:
    return stateful_set["spec"]["template"]["spec"]["containers"][0]


def environment(stateful_set: dict[str, Any]) -> dict[str, Any]:
    rows = container(stateful_set)["env"]
    assert len({row["name"] for row in rows}) == len(rows), "a variable is there twice"
    return {row["name"]: row.get("value", row.get("valueFrom")) for row in rows}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"standby": True},
        {
            "name": "orders",
            "namespace": "shop",
            "cpu": "500m",
            "memory": "1500Mi",
            "storage_class": "fast",
            "admin_secret": "shop-admin",
        },
    ],
)
def test_manifests_are_what_kubernetes_takes(options: dict[str, Any]) -> None:
    """By the schemas of its API, strictly: no field that it does not know."""
    app = shop(**{"kafka.security.protocol": "sasl_ssl"})
    documents = list(yaml.safe_load_all(text_of(made(app, **options))))
    assert [document["kind"] for document in documents] == ["Service", "StatefulSet"]
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_seen() -> None:
    """The schemas are looked at."""
    _, stateful_set = made()
    container(stateful_set)["imagePolicy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(stateful_set, "1.31", strict=True)


def test_the_pod_waits_when_it_is_fenced_and_may_finish_its_epoch() -> None:
    """Kubernetes restarts whatever the exit code says, and kills after the grace time."""
    _, stateful_set = made(shop(**{"shutdown.grace": "1m", "commit_timeout": "2m"}))
    assert environment(stateful_set)["MUSTELA__STANDBY"] == "true"
    assert stateful_set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 210
    assert stateful_set["spec"]["replicas"] == 1


def test_only_the_probes_are_reached_from_outside_unless_a_secret_opens_more() -> None:
    """The admin server needs a certificate and tokens there."""
    service, stateful_set = made()
    assert [port["name"] for port in service["spec"]["ports"]] == ["probe"]
    assert environment(stateful_set)["MUSTELA__ADMIN__LISTEN"] == "127.0.0.1:8080"
    service, stateful_set = made(admin_secret="keys")
    assert [port["name"] for port in service["spec"]["ports"]] == ["probe", "admin"]
    found = environment(stateful_set)
    assert found["MUSTELA__ADMIN__LISTEN"] == "0.0.0.0:8443"
    assert found["MUSTELA__ADMIN__READ_TOKEN"] == {
        "secretKeyRef": {"name": "keys", "key": "read-token"}
    }


def test_lanes_follow_the_processors_unless_a_setting_says_them() -> None:
    """A container sees the processors of its host, not its own share."""
    assert environment(made(cpu="1500m")[1])["MUSTELA__LANES"] == "2"
    assert environment(made(cpu="0.5")[1])["MUSTELA__LANES"] == "1"
    assert "MUSTELA__LANES" not in environment(made(shop(lanes=3), cpu="8")[1])


def test_settings_of_here_go_along_and_secrets_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What mustela.yaml and the environment say; a secret is only named."""
    (tmp_path / "manifest_shop.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "mustela.yaml").write_text("epoch: {max_records: 1000}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTELA__BOOTSTRAP_SERVERS", "kafka:9092")
    monkeypatch.setenv("MUSTELA__KAFKA__SASL_PASSWORD", "hunter2")
    monkeypatch.setenv("MUSTELA__SCHEMA_REGISTRY__URL", "https://joe:hunter2@registry")
    command = ["k8s", "manifest_shop:app", "--image", "shop:1.4", "-n", "apps"]
    assert main([*command, "--json"]) == 0
    printed = capsys.readouterr()
    assert "hunter2" not in printed.out + printed.err
    items = json.loads(printed.out)["items"]
    found = environment(items[1])
    assert found["MUSTELA__EPOCH__MAX_RECORDS"] == "1000"
    assert found["MUSTELA__BOOTSTRAP_SERVERS"] == "kafka:9092"
    keys = ("MUSTELA__KAFKA__SASL_PASSWORD", "MUSTELA__SCHEMA_REGISTRY__URL")
    for key in keys:
        assert found[key] == {"secretKeyRef": {"name": "shop-secrets", "key": key}}
    literals = " ".join(f'--from-literal={key}="${key}"' for key in keys)
    assert f"create secret generic shop-secrets -n apps {literals}" in printed.err
    assert main(command) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == items


def test_what_is_set_reaches_the_pod_though_the_program_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program is stronger than the environment, so the pod's command says it; a secret never."""
    program = PROGRAM.replace('"shop"', '"shop", {"lanes": 2, "bootstrap.servers": "other:9092"}')
    (tmp_path / "set_shop.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTELA__LOG__LEVEL", "debug")
    said = ("lanes=3", "bootstrap.servers=kafka:9092", "epoch.max_records=1000")
    secret = ("kafka.sasl.password=hunter2", "schema_registry.url=https://joe:hunter2@registry")
    words = [word for one in (*said, *secret) for word in ("--set", one)]
    assert main(["k8s", "set_shop:app", "--image", "shop:1.4", *words, "--json"]) == 0
    printed = capsys.readouterr()
    assert "hunter2" not in printed.out + printed.err
    pod = json.loads(printed.out)["items"][1]
    assert container(pod)["command"] == ["mustela", "run", "set_shop:app", *words[:6]]
    for key in ("MUSTELA__KAFKA__SASL_PASSWORD", "MUSTELA__SCHEMA_REGISTRY__URL"):
        assert environment(pod)[key]["secretKeyRef"]["key"] == key
        assert f'--from-literal={key}="${key}"' in printed.err
    assert environment(pod)["MUSTELA__LOG__LEVEL"] == "debug"


def test_state_elsewhere_than_on_the_volume_is_refused() -> None:
    """It would be gone with the pod."""
    with pytest.raises(DeploymentError, match="volume would stay empty") as caught:
        made(shop(state_dir="/tmp/state"))
    assert "leave state_dir out" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("options", "what", "right"),
    [
        ({"name": "Shop_1"}, "no name for Kubernetes", {"name": "shop-1"}),
        ({"cpu": "two"}, "cpu cannot be 'two'", {"cpu": "2"}),
        ({"memory": "2GB"}, "memory cannot be '2GB'", {"memory": "2Gi"}),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_here(
    options: dict[str, Any], what: str, right: dict[str, Any]
) -> None:
    """With what to write, which helps."""
    with pytest.raises(DeploymentError, match=what):
        made(**options)
    made(**right)


def test_brokers_of_this_machine_are_refused() -> None:
    """A pod has a localhost of its own."""
    with pytest.raises(DeploymentError, match="on this machine") as caught:
        made(shop(**{"bootstrap.servers": "localhost:9092"}))
    assert "--set bootstrap.servers" in (caught.value.fix or "")


def test_an_application_id_becomes_a_name_of_kubernetes() -> None:
    """Lower case, and - for what it does not take."""
    app = App("Shop.Orders_eu", {"bootstrap.servers": "kafka:9092"})
    assert made(app)[0]["metadata"]["name"] == "shop-orders-eu"


def test_a_pair_has_two_volumes_and_prefers_two_nodes() -> None:
    """Both are ready while one of them waits, so that a rollout goes on; each has its own state."""
    _, one = made()
    _, pair = made(standby=True)
    assert (one["spec"]["replicas"], pair["spec"]["replicas"]) == (1, 2)
    assert pair["spec"]["podManagementPolicy"] == "Parallel"
    assert container(one)["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert container(pair)["readinessProbe"]["httpGet"]["path"] == "/health/live"
    pod = pair["spec"]["template"]["spec"]
    (wish,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["podAffinityTerm"]["labelSelector"] == pair["spec"]["selector"]
    assert "affinity" not in one["spec"]["template"]["spec"]
    assert environment(pair)["MUSTELA__STANDBY"] == "true"
