"""The pytest plugin: fixtures for tests of topologies, available wherever Mustela is installed.

Every run of pytest loads it, so it imports Mustela only when a fixture is used.
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
    """Return a function that creates test drivers, which are closed when the test ends.

    It takes the arguments of `mustela.testing.TopologyTestDriver`::

        def test_totals(topology_test_driver):
            driver = topology_test_driver(shop.app)
            driver.create_input_topic("orders").pipe_input("ann", 3)
    """
    from mustela.testing.driver import TopologyTestDriver

    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(TopologyTestDriver(*given, **named))
