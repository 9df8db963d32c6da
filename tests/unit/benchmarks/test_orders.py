"""From the command line to the runs that it asks for."""

from __future__ import annotations

from typing import Any

import pytest

import benchmarks.__main__ as command_line
from benchmarks import runner
from benchmarks.results import Results
from benchmarks.runner import Order
from mustela.compiled import Form


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    """What would have been run."""
    asked: list[Order] = []

    def run(order: Order) -> Results:
        asked.append(order)
        return Results(machine={}, workload={})

    monkeypatch.setattr(command_line, "run", run)
    monkeypatch.setattr(runner, "form", lambda: Form(False, "for these tests"))
    return asked


def told(orders: list[Order]) -> list[tuple[Any, ...]]:
    return [(order.name, order.runs, order.latency_runs, order.load.rate) for order in orders]


def test_a_plain_run_has_the_workloads_own_name(orders: list[Order]) -> None:
    """Its results file is the one that everybody compares with."""
    command_line.main(["run", "count"])
    assert told(orders) == [("count", 5, 5, 1_000)]


def test_intervals_and_partitions_are_combined_and_named(orders: list[Order]) -> None:
    """No result takes the file of another one."""
    command_line.main(["run", "count", "--partitions", "2,6", "--commit-ms", "100,1000"])
    assert [order.name for order in orders] == [
        "count_p2",
        "count_p2_c1000",
        "count",
        "count_c1000",
    ]


def test_what_runs_compiled_is_named_so(
    orders: list[Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain Python is what the tables show else."""
    monkeypatch.setattr(runner, "form", lambda: Form(True, "for this test"))
    command_line.main(["run", "count", "--commit-ms", "1000"])
    assert [order.name for order in orders] == ["count_c1000_compiled"]


def test_further_rates_are_runs_at_a_fixed_load_alone(orders: list[Order]) -> None:
    """Full speed has no rate."""
    command_line.main(["run", "count", "--rates", "1000,50000", "--runs", "3"])
    assert told(orders) == [("count", 3, 3, 1_000), ("count_r50000", 0, 3, 50_000)]


def test_a_sweep_runs_all_that_the_tables_show(orders: list[Order]) -> None:
    """Rates at the usual number of partitions, full speed at each."""
    command_line.main(["run", "count", "--sweep"])
    names = [order.name for order in orders]
    assert len(names) == len(set(names)) == 2 * 3 + 2 * 3
    assert {"count", "count_c1000_r50000", "count_p24_c1000", "count_p1"} <= set(names)
    assert not any(order.latency_runs for order in orders if "_p" in order.name)
