"""What is worse than in a kept release is told, and noise is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.against import NoSuchReleaseError, compare, compare_kernel, keep, kept_release


def write_runs(folder: Path, mine: Sequence[float], rival: Sequence[float]) -> None:
    """Runs of one workload: records a second of Mustela and of Kafka Streams."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"peer": peer, "guarantee": "eos", "kind": "catch_up", "records_per_s": value})
        for peer, values in (("mustela", mine), ("kafka_streams", rival))
        for value in values
    ]
    (folder / "runs" / "count.jsonl").write_text("\n".join(lines))


RIVAL = [100.0, 101.0, 99.0, 100.5, 99.5]


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ([200.0, 202.0, 198.0, 201.0, 199.0], "as before"),
        ([180.0, 181.0, 179.0, 180.5, 179.5], "WORSE"),
        ([240.0, 241.0, 239.0, 240.5, 239.5], "better"),
        ([120.0, 300.0, 190.0, 260.0, 150.0], "not certain"),
    ],
)
def test_a_change_is_judged_by_its_interval(
    tmp_path: Path, mine: list[float], verdict: str
) -> None:
    """The median alone does not convict: its whole interval has to lie beyond 5 %."""
    write_runs(tmp_path / "then", [200.0, 201.0, 199.0, 200.5, 199.5], RIVAL)
    write_runs(tmp_path / "now", mine, RIVAL)
    (change,) = compare(tmp_path / "then", tmp_path / "now")
    assert change.verdict == verdict
    assert change.low <= change.factor <= change.high


def test_a_slower_machine_is_no_change(tmp_path: Path) -> None:
    """Both peers at half the speed: the ratio is what it was."""
    write_runs(tmp_path / "then", [200.0, 201.0, 199.0], RIVAL)
    write_runs(tmp_path / "now", [100.0, 100.5, 99.5], [value / 2 for value in RIVAL])
    (change,) = compare(tmp_path / "then", tmp_path / "now")
    assert change.verdict == "as before"


def test_two_runs_convict_nobody(tmp_path: Path) -> None:
    """There is no interval to speak of."""
    write_runs(tmp_path / "then", [200.0, 201.0], RIVAL)
    write_runs(tmp_path / "now", [100.0, 101.0], RIVAL)
    (change,) = compare(tmp_path / "then", tmp_path / "now")
    assert change.verdict == "too few runs"


def test_kernel_rates_are_compared_in_times_of_a_loop(tmp_path: Path) -> None:
    """Half the records a second beside a loop that takes twice as long: the machine was slower."""
    for side, rate, loop in (("then", 1_000, 0.03), ("now", 500, 0.06)):
        (tmp_path / side).mkdir()
        lines = [json.dumps({"loop_s": loop, "rates": {"sum": rate}})] * 3
        (tmp_path / side / "kernel.jsonl").write_text("\n".join(lines))
    (change,) = compare_kernel(tmp_path / "then", tmp_path / "now")
    assert change.factor == pytest.approx(1.0)


def test_last_is_the_newest_release_that_is_kept(tmp_path: Path) -> None:
    """By its number, not by its letters."""
    for name in ("0.9.0", "0.10.0", "0.2.1"):
        (tmp_path / "releases" / name).mkdir(parents=True)
    assert kept_release(tmp_path, "last").name == "0.10.0"
    assert kept_release(tmp_path, "0.2.1").name == "0.2.1"
    with pytest.raises(NoSuchReleaseError, match=r"'1\.0'.*0\.2\.1, 0\.9\.0, 0\.10\.0"):
        kept_release(tmp_path, "1.0")


def test_the_command_line_ends_with_1_if_something_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with 2 where nothing is kept to compare with."""
    write_runs(tmp_path, [200.0, 201.0, 199.0], RIVAL)
    assert main(["--against", "last", "--results", str(tmp_path)]) == 2
    keep(tmp_path)
    assert main(["--against", "last", "--results", str(tmp_path)]) == 0
    write_runs(tmp_path, [150.0, 151.0, 149.0], RIVAL)
    assert main(["--against", "last", "--results", str(tmp_path)]) == 1
    assert "1 worse by more than 5%" in capsys.readouterr().out
