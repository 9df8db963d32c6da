"""One Spark context for all tests of a session: ``App(session=spark_context)`` starts no JVM.

Starting a JVM takes seconds, and a process has one context at a time, so tests share it. A test
that must start Spark itself runs its program in a process of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

CORES = 2


@pytest.fixture(scope="session")
def spark_context(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """A Spark context with two cores, made as an application makes its own."""
    from mustela.spark.session import open_context

    scratch: Path = tmp_path_factory.mktemp("spark")
    context = open_context(
        "tests",
        {
            "spark.master": f"local[{CORES}]",
            "spark.local.dir": str(scratch),
            "spark.driver.memory": "512m",
        },
    )
    try:
        yield context
    finally:
        context.stop()
