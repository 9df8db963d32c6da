"""What a standby hears while it waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mustela.config.settings import Settings
from mustela.runtime.kafka_lease import KafkaLeaseLog
from mustela.runtime.lease import LeaseRow, TakeOver
from mustela.runtime.standby import NotedLeases

SETTINGS = Settings.load({"application_id": "waits"}, environ={}, directory=Path("/"))


@given(
    starts=st.lists(st.sampled_from(["the last few", "where it was", "before"]), max_size=8),
    written=st.lists(st.integers(0, 3), min_size=20, max_size=20),
)
def test_each_row_is_heard_once(starts: list[str], written: list[int]) -> None:
    """Also one that comes between two questions, as a request to take over may."""
    topic: list[LeaseRow] = [TakeOver(take_over="before it listens")]

    def read_rows(
        _log: KafkaLeaseLog, start: int | None, last: int = 2
    ) -> tuple[int, list[LeaseRow]]:
        end, begin = len(topic), max(0, len(topic) - last) if start is None else start
        rows = topic[begin:end]
        for _ in range(written.pop() if written else 0):
            topic.append(TakeOver(take_over=f"request {len(topic)}"))
        return end, rows

    heard: list[LeaseRow] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaLeaseLog, "read_rows", read_rows)
        log = NotedLeases(SETTINGS, heard.extend)
        begun, _ = log.read(None)
        position = begun
        for start in starts:
            where = {"the last few": None, "where it was": position, "before": begun}[start]
            position, _ = log.read(where)
        written.clear()
        log.read(None)
    assert heard == topic[begun:]
