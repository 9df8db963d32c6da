"""Small epochs run as one task, and give what epochs of many tasks give."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.spark.job import Jobs
from tests.faults.inside import Inside

pytest_plugins = ["tests.integration.app_fixture"]
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

ROUNDS, RECORDS = 6, 60


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kind of each epoch's job."""
    found: list[str] = []

    def noting(kind: str) -> None:
        run = getattr(Jobs, kind)

        def noted(self: Jobs, *arguments: Any) -> Any:
            found.append(kind)
            return run(self, *arguments)

        monkeypatch.setattr(Jobs, kind, noted)

    noting("run_epoch")
    noting("run_small_epoch")
    return found


def twice_keyed(builder: StreamsBuilder, prefix: str) -> None:
    """Count values by key, then how often each count was reached."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    counts = stream.group_by_key().count(store="by_key")
    reached = counts.to_stream().group_by(lambda _key, count: count, key=int)
    reached.count(store="by_count").to_stream().to(f"{prefix}.out", key=int, value=int)


def feed(inside: Inside, number: int) -> None:
    inside.send((f"k{n % 20}", f"v{number}") for n in range(RECORDS))


def last_rows(inside: Inside) -> dict[int, int]:
    rows = {}
    for row in inside.rows():
        rows[int.from_bytes(row.key or b"")] = int.from_bytes(row.value or b"")
    return rows


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize(("small", "later"), [("10s", {"run_small_epoch"}), ("0ms", {"run_epoch"})])
def test_two_re_keyings(
    inside: Inside, jobs: list[str], small: str, later: set[str], guarantee: str
) -> None:
    """Epoch after epoch, and with a restart in between, which begins with an epoch of all tasks."""
    inside.build(twice_keyed)
    settings = {"emit": "every", "epoch": {"small": small}, "processing_guarantee": guarantee}
    epochs = 0
    for start in (0, ROUNDS // 2):
        app, heard = inside.app(**settings)
        jobs.clear()
        with app:
            for number in range(start, start + ROUNDS // 2):
                feed(inside, number)
                inside.await_caught_up(app)
        assert jobs[0] == "run_epoch"
        assert set(jobs[1:]) == later
        assert not heard.errors
        epochs += len(heard.epochs)
        ones = [epoch for epoch in heard.epochs[1:] if len({r.pid for r in epoch.reports}) == 1]
        assert small == "0ms" or ones == heard.epochs[1:]
    assert epochs >= ROUNDS
    # Each of 20 keys reached each count once.
    assert last_rows(inside) == dict.fromkeys(range(1, ROUNDS * RECORDS // 20 + 1), 20)
