"""The fixture that runs a topology in every way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mustela.topology.graph import TopologyGraph
from mustela_dev import DevelopmentBroker
from tests.conformance.bundles import Bundles
from tests.conformance.cases import load_cases
from tests.conformance.script import Produced, Sent
from tests.conformance.spark_ways import SPARK_WAYS, SparkWay
from tests.conformance.ways import WAYS, WayFactory
from tests.epochs import cut

RunTopology = Callable[..., Produced]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test in every way; hundreds of random examples only where no broker is needed."""
    if "run_topology" in metafunc.fixturenames:
        random = hasattr(metafunc.function, "hypothesis")
        ways = WAYS if random else [*WAYS, *SPARK_WAYS]
        metafunc.parametrize("run_topology", ways, indirect=True)


@pytest.fixture(scope="session")
def spark_bundles(
    broker: DevelopmentBroker, spark_context: Any, tmp_path_factory: pytest.TempPathFactory
) -> Bundles:
    """The cases on Spark, each area run once in each way."""
    scratch = tmp_path_factory.mktemp("bundles")
    way = SparkWay(restarts=False).on(broker.bootstrap_servers, spark_context, scratch)
    return Bundles(load_cases(), way)


@pytest.fixture
def run_topology(request: pytest.FixtureRequest) -> RunTopology:
    """Run a topology over records: ``run_topology(topology, [at(0).send("in", "k", "v")])``.

    Each record is an epoch of its own, unless ``epochs`` says how many records each epoch has.
    Further keywords are options of the engine, such as ``settings={"emit": "every"}``.
    """
    way: WayFactory = request.param
    if isinstance(way, SparkWay):
        broker = request.getfixturevalue("broker")
        context = request.getfixturevalue("spark_context")
        way = way.on(broker.bootstrap_servers, context, request.getfixturevalue("tmp_path"))

    def run(
        topology: TopologyGraph,
        records: Sequence[Sent],
        *,
        epochs: Sequence[int] | None = None,
        **options: Any,
    ) -> Produced:
        return way(**options)(topology, cut(records, epochs))

    return run
