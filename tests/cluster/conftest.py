"""The cluster of hosts that tests share, where the machine lets them make one."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cluster.network import why_not
from tests.cluster.rig import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    """A cluster of a test's own: a master, a broker, and no worker yet."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Cluster(tmp_path) as made:
        yield made
