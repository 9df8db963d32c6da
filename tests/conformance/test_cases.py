"""Cases of Kafka Streams' own tests, in every way."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, compare, load_cases
from tests.conformance.conftest import RunTopology
from tests.conformance.topologies import TOPOLOGIES

CASES = load_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_of_kafka_streams(case: Case, run_topology: RunTopology) -> None:
    """The same records give the same records, epoch by epoch."""
    compare(case, run_topology(TOPOLOGIES[case.name](), case.inputs))


def test_every_topology_has_its_case() -> None:
    """None is left over."""
    assert {case.name for case in CASES} == set(TOPOLOGIES)
