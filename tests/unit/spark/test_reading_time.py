"""Restores that take longer than a changelog keeps deletions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka import changelogs, copies as lanes, reading_time
from mustela.connectors.kafka.copies import make_current, read_ahead
from mustela.connectors.kafka.reading_time import RestoreTooSlowError
from mustela.runtime.topics.staleness import stale_ages
from mustela.spark.process import Process
from mustela.state.interfaces import Committed, Environment, Token
from tests.unit.spark.test_changelogs import LOG, Broker
from tests.unit.spark.test_lives import GROUP, STAGE, program

STATE = Committed(token=Token(1, 2, 0), changelog_ends={"counts": 20})
OLD = [(b"deleted since", b"1")]
NEW = [(b"kept", b"2")]
RETENTION = {"delete.retention.ms": "60000"}


class Host:
    """A worker that restores, and the changelog as compaction leaves it from reading to reading.

    Args:
        home: A directory.
        patch: Puts the changelog and the clock in their places.
        seconds: How long each reading takes.
    """

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, *seconds: float) -> None:
        self.clock = ManualClock(10**9)
        self.seconds = list(seconds)
        self.begun: list[int] = []
        self._made = program(home, "life")
        self.keep(RETENTION)
        for module in (changelogs, reading_time):
            patch.setattr(module, "SystemClock", lambda: self.clock)
        patch.setattr(lanes, "read_between", self._log)

    def keep(self, config: dict[str, str]) -> None:
        """Start a worker that knows these settings of the changelog."""
        made = replace(self._made, stale_after_ms=stale_ages({LOG: config}))
        self.process = Process(0, made, _admin=Broker({10: self.clock.now_ms()}))  # type: ignore[arg-type]

    def _log(self, _client: Any, _topic: str, _group: int, start: int, *_: Any, **__: Any) -> Any:
        self.begun.append(start)
        return self._rows(self.seconds.pop(0), OLD if len(self.begun) == 1 else NEW)

    def _rows(self, seconds: float, rows: list[tuple[bytes, bytes]]) -> Iterator[Any]:
        yield from rows
        self.clock.advance(int(seconds * 1000))

    def restore(self) -> list[Any]:
        """Return the rows that a restore leaves."""
        environment, _ = make_current(self.process, STAGE, GROUP, STATE)
        return list(environment.snapshot(STATE).range("counts", None, None))

    def environment(self) -> Environment:
        return self.process.environment(STAGE, GROUP)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *seconds: Host(tmp_path, monkeypatch, *seconds)


@pytest.mark.parametrize(("seconds", "times"), [(29, 1), (31, 2)])
def test_a_restore_that_stood_still_is_done_again(host: Any, seconds: int, times: int) -> None:
    """What it had read may have been deleted, and the log not tell of it any more."""
    slow = host(seconds, 0)
    assert slow.restore() == (OLD if times == 1 else NEW)
    assert slow.begun == [0] * times


def test_a_copy_that_catches_up_too_slowly_is_read_from_its_start(host: Any) -> None:
    """The rows that it had are not believed either."""
    slow = host(31, 0)
    environment = slow.environment()
    environment.write_pending(Token(1, 1, 0), Committed(), {"counts": [(b"had", b"1")]})
    environment.fold(Committed(token=Token(1, 1, 0), changelog_ends={"counts": 10}))
    assert slow.restore() == NEW
    assert slow.begun == [10, 0]


def test_a_restore_that_never_is_in_time_ends_with_an_error_that_helps(host: Any) -> None:
    """Nothing of it is believed by the next start; with the setting that it names, that goes on."""
    slow = host(31, 40, 40)
    with pytest.raises(RestoreTooSlowError) as raised:
        slow.restore()
    assert slow.environment().positions().get("counts", 0) == 0
    topic, needed = re.findall(
        r"--entity-name (\S+) --add-config (delete.retention.ms=\d+)$", raised.value.fix or ""
    )[0]
    assert topic == LOG
    slow.process.close()
    slow.keep(dict([needed.split("=")]))
    assert slow.restore() == NEW


class Sleeper(ManualClock):
    """A machine whose monotonic clock stands still while it sleeps."""

    def monotonic(self) -> float:
        return 0.0


def test_the_time_that_a_machine_sleeps_counts(host: Any) -> None:
    """The wall clock tells of a night that no other clock has seen."""
    slow = host(31, 0)
    slow.clock = Sleeper(10**9)
    assert slow.restore() == NEW


def test_what_is_fetched_ahead_is_as_old_as_that(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lay in the client while another key group was restored."""
    slow = host(0, 0)
    reader = SimpleNamespace(ahead=lambda *_: None, drop_ahead=lambda: None)
    monkeypatch.setattr(lanes, "_restore_reader", lambda _process: reader)
    read_ahead(slow.process, STAGE, GROUP, STATE)
    slow.clock.advance(31_000)
    assert slow.restore() == NEW
    assert slow.begun == [0, 0]
    assert slow.process.reading_since == {}
