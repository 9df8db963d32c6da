"""Tasks that stay, with children of the test as workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mustela.spark.residents import Residents
from tests.unit.plan.test_epoch import program
from tests.unit.spark.children import LIMITS, SHIPMENT, Clock, Spark


@pytest.fixture
def spark() -> Iterator[Spark]:
    made = Spark()
    yield made
    for child in made.children:
        if child.code is None:
            child.cancel()
            os.waitpid(child.pid, 0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def residents(spark: Spark, clock: Clock, tmp_path: Path) -> Iterator[Residents]:
    made = Residents(
        spark, replace(program(), spool_dir=str(tmp_path)), SHIPMENT, limits=LIMITS, now=clock
    )
    yield made
    made.leave()
