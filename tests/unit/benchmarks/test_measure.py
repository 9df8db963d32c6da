"""Windows, percentiles and spreads: which part of a run counts."""

from __future__ import annotations

from benchmarks.measure import Progress, Sample, Sampler, percentiles, spread, steady_window


def looks(*pairs: tuple[float, int]) -> list[Progress]:
    return [Progress(time=time, committed=committed) for time, committed in pairs]


def test_the_first_fifth_and_the_last_twentieth_do_not_count() -> None:
    """Start-up and the end are left out; both edges are looks that were taken."""
    progress = looks((0, 0), *((10 + step, step * 10) for step in range(11)))
    window = steady_window(progress, 100, running=0)
    assert (window.begin, window.end, window.records) == (12, 20, 80)
    assert window.records_per_s == 10
    assert window.method == "window"


def test_a_run_with_few_steps_is_taken_as_a_whole() -> None:
    """One commit of everything says nothing about a steady rate; it counts from `running`."""
    window = steady_window(looks((0, 0), (9, 0), (10, 100)), 100, running=5)
    assert (window.records_per_s, window.method) == (20, "whole")


def test_percentiles_are_values_that_were_measured() -> None:
    """Nearest rank."""
    assert percentiles([float(n) for n in range(1, 101)], [0.5, 0.95, 0.99]) == [50, 95, 99]
    assert percentiles([7.0], [0.5, 0.99]) == [7, 7]


def test_a_spread_names_median_minimum_and_maximum() -> None:
    """In the shape of the result files."""
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0}


def test_cpu_between_two_moments_is_taken_by_proportion() -> None:
    """A window's edges need not fall on samples."""
    sampler = Sampler(program_pid=1, broker_pid=1)
    sampler.samples = [
        Sample(time=0, program_cpu_s=0, broker_cpu_s=0),
        Sample(time=10, program_cpu_s=20, broker_cpu_s=5),
    ]
    assert sampler.cpu_between(2.5, 7.5) == (10, 2.5)
    assert sampler.cpu_between(-5, 99) == (20, 5)
