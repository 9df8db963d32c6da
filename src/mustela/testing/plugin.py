"""The pytest plugin: fixtures for tests of topologies, there wherever Mustela is installed.

It is loaded by each run of pytest, so it imports Mustela only when a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mustela.testing.driver import TopologyTestDriver

__all__ = ["topology_test_driver"]


@pytest.fixture
def topology_test_driver() -> Iterator[Callable[..., TopologyTestDriver]]:
    """Make test drivers, which are closed when the test ends.

    It takes what `mustela.testing.TopologyTestDriver` takes::

        def test_totals(topology_test_driver):
            driver = topology_test_driver(shop.app)
            driver.create_input_topic("orders").pipe_input("ann", 3)
    """
    from mustela.testing.driver import TopologyTestDriver

    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(TopologyTestDriver(*given, **named))
