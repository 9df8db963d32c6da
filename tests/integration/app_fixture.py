"""Fixtures ``world`` and ``inside``: a broker, a Spark context, and topics of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela_dev import DevelopmentBroker
from tests.faults.inside import Inside
from tests.integration.app_world import World


@pytest.fixture
def world(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[World]:
    """Topics, applications and rows of one test."""
    made = World(broker, spark_context, tmp_path, request.node.originalname)
    yield made
    made.close()


@pytest.fixture
def inside(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Inside]:
    """Topics and runs of one application inside the test's process."""
    name = request.node.originalname
    made = Inside(broker.bootstrap_servers, spark_context, tmp_path, name)
    yield made
    made.close()
