"""Calls to the outside from several hosts: made once, and again only when their host is gone."""

from __future__ import annotations

import os

import pytest

from tests.cluster.program import Program
from tests.cluster.rig import BROKER_ADDRESS, Cluster
from tests.integration.http_service import HttpService
from tests.patience import looks

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.skipif("MUSTELA_CLUSTER_TEST" not in os.environ, reason="./dev cluster runs it"),
]

FILES = {
    "enquiries.py": """
import os
import urllib.request
from datetime import timedelta

from mustela import App, StreamsBuilder
from mustela.calls import AsyncOptions
from service import URL

app = App(application_id="enquiries")

def ask(path, call):
    headers = {"Idempotency-Key": call.idempotency_key}
    request = urllib.request.Request(f"{URL}/{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return answer.read().decode()

@app.topology
def build(builder: StreamsBuilder) -> None:
    options = AsyncOptions(capacity=64, timeout=timedelta(seconds=600))
    paths = builder.stream("paths", key=str, value=str)
    paths.map_values_async(ask, options, value=str, name="ask").to("answers", key=str, value=str)
""",
}
CALLS, MORE = 24, 6


def test_each_call_is_made_once_until_its_host_is_gone(cluster: Cluster) -> None:
    """Lanes go from host to host while the service does not answer; then a host is killed.

    What its processes had begun is begun again on the other one, and each record has one answer.
    """
    a, b = cluster.add_workers("a", "b")
    with HttpService(address=BROKER_ADDRESS) as service:
        files = FILES | {"service.py": f"URL = {service.url!r}\n"}
        program = Program(cluster, cluster.add("driver"), files, {"paths": 4, "answers": 2})
        with program.running("enquiries:app", "--master", cluster.master):
            program.until_running()
            program.send("paths", [(f"k{n}", f"p{n}?held=1") for n in range(CALLS)])
            for number in range(CALLS, CALLS + MORE):
                program.send("paths", [(f"k{number}", f"p{number}?held=1")])
                program.until_epochs(1)
            assert any(looks(lambda: len(service.asked) == CALLS + MORE)), program.log()
            assert set(service.asked.values()) == {1}
            first = {key: hosts[0] for key, hosts in service.asked_from.items()}
            assert set(first.values()) == {a.address, b.address}
            a.kill()
            lost = {key for key, address in first.items() if address == a.address}
            again = looks(lambda: lost <= {k for k, n in service.asked.items() if n > 1})
            assert any(again), program.log()
            service.let_go()
            there = looks(lambda: len(program.rows("answers")) >= CALLS + MORE)
            assert any(there), program.log()
        assert sorted(program.rows("answers")) == sorted(
            (f"k{n}", f"P{n}") for n in range(CALLS + MORE)
        )
        for key, hosts in service.asked_from.items():
            # Spark also ends workers of the other host whose tasks ran when the job failed.
            assert set(hosts) == ({a.address, b.address} if key in lost else {b.address})
            assert hosts.count(a.address) == (key in lost)
