"""How the whole suite is dealt to processes that run side by side (pytest-xdist): ``./dev test``.

Tests with Spark and a broker wait for three quarters of their time, so four lanes keep two cores
half busy; each more would take the memory of a broker and of a JVM. A file stays in one lane, which
has one broker and one Spark context for all its files. What each file took is in ``lanes.toml``,
which ``./dev test --note-costs`` writes: see `NOTED`.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

LANES = 4
NOTED = "tests/lanes.toml"
"""Seconds by file, as measured; for files that are not in it the markers tell."""
_NOTED_MIN_S = 2
_HEAD = "# Seconds that files of tests take, written by: ./dev test --note-costs\n[seconds]\n"
# About how many seconds a test with this marker takes; the others take next to none.
_COSTS = {"crash": 15, "slow": 4, "spark": 2, "broker": 1}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch that notes what each file took."""
    parser.addoption("--note-costs", action="store_true", help=f"write {NOTED} anew")


def pytest_configure(config: pytest.Config) -> None:
    """Measure, in the process that hears of all tests."""
    if config.getoption("--note-costs") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Measured(config.rootpath / NOTED))


class _Measured:
    """Notes the seconds of each file.

    Args:
        target: Where they are written.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a part of a test took."""
        self._seconds[_file(report)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write them, those that take longest first."""
        longest_first = sorted(self._seconds.items(), key=lambda each: -each[1])
        lines = "".join(f'"{file}" = {s:.0f}\n' for file, s in longest_first if s >= _NOTED_MIN_S)
        self._target.write_text(_HEAD + lines, encoding="utf-8")


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
    expected = {**costs, **_noted(config.rootpath / NOTED)}
    items.sort(key=lambda item: -expected[_file(item)])


def _noted(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    found: dict[str, int] = tomllib.loads(file.read_text(encoding="utf-8"))["seconds"]
    return found


def _file(item: pytest.Item | pytest.TestReport) -> str:
    return item.nodeid.partition("::")[0]


def _cost(item: pytest.Item) -> int:
    """Return the cost of the most expensive marker of a test."""
    return max((cost for name, cost in _COSTS.items() if item.get_closest_marker(name)), default=0)
