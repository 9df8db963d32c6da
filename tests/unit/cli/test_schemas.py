"""mustela schemas: what a registry must hold before an application may not register anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela import TopologyTestDriver
from mustela.cli.loading import load_app
from mustela.cli.main import main
from mustela.errors import MustelaError
from tests.registry_server import RegistryServer

PROGRAM = """
from dataclasses import dataclass

from mustela import App
from mustela.schemas import AvroSerde, JsonSchemaSerde


@dataclass
class Order:
    customer: str
    amount: int


@dataclass
class Total:
    amount: int


app = App("shop")


@app.topology
def build(builder):
    orders = builder.stream("orders", key=AvroSerde(str), value=AvroSerde(Order))
    by_customer = orders.group_by(lambda _key, order: order.customer, key=AvroSerde(str), name="by")
    totals = by_customer.aggregate(
        lambda: Total(0),
        lambda _key, order, total: Total(total.amount + order.amount),
        store="totals",
        value=AvroSerde(Total),
    )
    totals.to_stream().to("totals", key=AvroSerde(str), value=JsonSchemaSerde(Total))
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    (tmp_path / "schemashop.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with RegistryServer() as running:
        monkeypatch.setenv("MUSTELA__SCHEMA_REGISTRY__URL", running.url)
        monkeypatch.setenv("MUSTELA__SCHEMA_REGISTRY__AUTO_REGISTER_SCHEMAS", "false")
        yield running


def drive() -> None:
    import schemashop  # pyright: ignore[reportMissingImports] - written by the fixture

    driver = TopologyTestDriver(load_app("schemashop:app"))
    with driver:
        orders = driver.create_input_topic("orders")
        orders.pipe_input("1", schemashop.Order("ann", 3))
        assert driver.create_output_topic("totals").read_values_to_list()[-1].amount == 3


def test_what_is_registered_is_all_that_the_application_needs(
    server: RegistryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changelogs and regrouped keys too. Before, the error names the command."""
    orders = {"orders-key", "orders-value"}
    import mustela.serdes.schemas.client as client

    with pytest.raises(MustelaError) as caught:
        drive()
    assert caught.value.code == "REGISTRY_SUBJECT_MISSING"
    assert main(["schemas", "list", "schemashop:app", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    listed = {row["subject"]: row for row in rows}
    assert {"totals-key", "totals-value", "shop-totals-changelog-value"} <= set(listed)
    assert not orders & set(listed), "they are only read"
    assert listed["totals-value"]["schemaType"] == "JSON"
    assert '"amount"' in listed["shop-totals-changelog-value"]["schema"]
    assert not server.registry.registered()
    assert main(["schemas", "register", "schemashop:app", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["registered"]) == set(listed)
    assert {subject for subject, _ in server.registry.registered()} == set(listed)
    client._client.cache_clear()
    _others_register_the_orders(server)
    drive()


def _others_register_the_orders(server: RegistryServer) -> None:
    """Who writes the topic that is read has its schemas there, and the driver sends as they do."""
    import schemashop  # pyright: ignore[reportMissingImports] - written by the fixture

    from mustela.schemas import AvroSerde, SerdePlace

    registry = {"url": server.url}
    AvroSerde(str).bound(SerdePlace("orders", "key"), registry).serialize("1")
    AvroSerde(schemashop.Order).bound(SerdePlace("orders"), registry).serialize(
        schemashop.Order("ann", 1)
    )
