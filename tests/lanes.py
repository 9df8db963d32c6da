"""How the whole suite is dealt to processes that run side by side (pytest-xdist): ``./dev test``.

Tests with Spark and a broker wait for more than half of their time, so three lanes keep two cores
busy. A file stays in one lane, which has one broker and one Spark context for all its files.
"""

from __future__ import annotations

from collections import Counter

import pytest

LANES = 3
# About how many seconds a test with this marker takes; the others take next to none.
_COSTS = {"crash": 15, "slow": 4, "spark": 2, "broker": 1}


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Deal the whole suite; what is named on the command line runs in one process."""
    return LANES if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that the lanes end together."""
    moving = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if moving:
        msg = f"give these parameters an id, so that a test has the same name in each run: {moving}"
        raise pytest.UsageError(msg)
    if not hasattr(config, "workerinput"):
        return
    costs = Counter[str]()
    for item in items:
        costs[_file(item)] += _cost(item)
    items.sort(key=lambda item: -costs[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _cost(item: pytest.Item) -> int:
    """Return the cost of the most expensive marker of a test."""
    return max((cost for name, cost in _COSTS.items() if item.get_closest_marker(name)), default=0)
