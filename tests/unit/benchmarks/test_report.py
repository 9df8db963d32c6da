"""The page shows every row that was measured, and says what has no number."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.picture import draw
from benchmarks.report import number, render

SPREAD = {"median": 200_000.0, "min": 100_000.0, "max": 300_000.0}


def spread(value: float) -> dict[str, float]:
    return {"median": value, "min": value, "max": value}


def document(**mustela: object) -> dict[str, object]:
    row = {"records_per_s": SPREAD, "latency_ms": {"p50": 1.0, "p95": 20.0, "p99": 300.0}}
    return {
        "machine": {
            "cpus": 2,
            "cpu_model": "m",
            "memory_gb": 8,
            "kernel": "6.1",
            "load_before": 0.1,
        },
        "workload": {
            "name": "word_count",
            "title": "word count",
            "records": 1_000,
            "partitions": 6,
            "seed": 1,
            "commit_ms": 100,
            "runs": 5,
            "load_per_s": 1_000,
        },
        "peers": {"mustela": {"eos": {**row, **mustela}}, "kafka_streams": {"eos": row}},
    }


def test_a_median_stands_with_its_extremes() -> None:
    """And latencies as three percentiles."""
    page = render([document()])
    assert "| Mustela, exactly once | 200,000 (100,000 to 300,000) |" in page
    assert "| 1.00 / 20.0 / 300 |" in page


def test_it_is_said_which_peer_cannot_do_what() -> None:
    """And why; each reason once."""
    page = render([])
    row = next(line for line in page.splitlines() if line.startswith("| w3f |"))
    assert row.endswith("| yes | yes | no (4) | no (2) |")
    assert page.count("Why not:") == 1
    assert "4. It has no joins of tables." in page


def test_losses_are_said_in_the_same_words() -> None:
    """A multiple below one stands there like any other."""
    page = render([document(records_per_s={"median": 100_000, "min": 1, "max": 2})])
    assert "records/s 0.50 times" in page


def test_a_run_without_a_number_is_listed_with_its_reason() -> None:
    """It is not left out."""
    page = render([document(faults=["3 keys wrong"])])
    assert "- Mustela, exactly once, no number: 3 keys wrong" in page


def test_all_ratios_stand_together_beside_the_tuned_rival_too() -> None:
    """Turned so that above 1 is better, whatever was measured."""
    taken = document(total_cpu_s_per_million=spread(5.0))
    peers: dict[str, Any] = taken["peers"]  # pyright: ignore[reportAssignmentType]
    peers["kafka_streams"] = {"eos": {"records_per_s": spread(50_000.0)}}
    peers["kafka_streams_tuned"] = {"eos": {"total_cpu_s_per_million": spread(10.0)}}
    page = render([taken])
    assert "| word_count | 4.00 | - | - | - | - | - |" in page
    assert "| word_count, beside the tuned one | - | 2.00 | - | - | - | - |" in page


def test_each_row_of_the_workloads_has_a_cell_for_each_peer() -> None:
    """Peers that are only set up otherwise have no column of their own."""
    _, _, table = render([document()]).partition("## The workloads\n\n")
    rows, _, _ = table.partition("\n\n")
    assert {row.count("|") for row in rows.splitlines()} == {7}


def test_the_picture_shows_wins_and_losses() -> None:
    """Each number has a dot on its side of the line; what was not measured has none."""
    lost = document(records_per_s={"median": 20_000.0, "min": 1.0, "max": 2.0})
    root = ElementTree.fromstring(draw([document(), lost]))
    dots = [one for one in root.iter() if one.tag.endswith("circle")]
    line = next(one for one in root.iter() if one.get("class") == "even")
    kinds = [(one.get("class"), float(one.get("cx", 0)) < float(line.get("x1", 0))) for one in dots]
    assert kinds.count(("behind", True)) == 1
    assert kinds.count(("ahead", False)) == 3
    assert ">0.1<" in draw([lost])


def test_what_is_beyond_the_scale_stays_in_its_column() -> None:
    """With its true number."""
    far = draw([document(records_per_s={"median": 200_000_000.0, "min": 1.0, "max": 2.0})])
    dots = [one for one in ElementTree.fromstring(far).iter() if one.tag.endswith("circle")]
    assert float(dots[0].get("cx", 0)) < 16 + 120 + 150
    assert ">1000<" in far


def test_a_page_without_results_says_so() -> None:
    """The page exists before the first measurement."""
    assert "No results have been recorded yet." in render([])


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.8, "1,234,568"), (12.34, "12.3"), (1.234, "1.23"), (0, "0.00")]
)
def test_numbers_have_the_digits_that_say_something(value: float, text: str) -> None:
    """Three or so."""
    assert number(value) == text
