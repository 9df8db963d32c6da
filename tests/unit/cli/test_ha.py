"""mustela ha, over a lease topic in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.clock import ManualClock
from mustela.runtime.lease import Lease, LeaseRow, StandbyReport, SwitchRefused, TakeOver

TTL_MS = 3_000


def lease(instance: str, incarnation: int) -> Lease:
    """An instance says that it is alive."""
    return Lease(
        instance=instance,
        incarnation=incarnation,
        host=instance,
        pid=7,
        started_ms=1,
        time_ms=2,
        ttl_ms=TTL_MS,
    )


class World:
    """A lease topic, and what instances write into it while somebody listens."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rows: list[LeaseRow] = []
        self.live: Callable[[], list[LeaseRow]] = list

    def read_rows(self, start: int | None, last: int = 16) -> tuple[int, list[LeaseRow]]:
        self.rows += self.live()
        end = len(self.rows)
        return end, self.rows[max(0, end - last) if start is None else start :]

    def write(self, row: LeaseRow) -> None:
        self.rows.append(row)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A lease topic without a broker."""
    made = World()
    monkeypatch.setattr("mustela.runtime.kafka_lease.KafkaLeaseLog", lambda _settings: made)
    monkeypatch.setattr("mustela.clock.SystemClock", lambda: made.clock)
    return made


def standby(*, ready: bool = True) -> StandbyReport:
    """A standby says that it waits."""
    return StandbyReport(
        standby="b/1",
        host="b",
        pid=8,
        place="there",
        time_ms=1,
        ttl_ms=TTL_MS,
        epoch=4,
        memory_bytes=300 << 20,
        ready=ready,
    )


def pair(world: World, *, answers: bool) -> list[LeaseRow]:
    """Return what two instances say: the standby runs when it was asked, if the two answer."""
    asked = any(isinstance(row, TakeOver) for row in world.rows)
    return [lease("b", 4)] if asked and answers else [lease("a", 3), standby()]


def test_a_switch_waits_until_the_other_instance_runs(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says which one that is."""
    world.live = lambda: pair(world, answers=True)
    assert main(["ha", "switch", "app"]) == ExitCode.OK
    assert capsys.readouterr().out == "app: the instance on b (process 7) runs now\n"
    (request,) = (row for row in world.rows if isinstance(row, TakeOver))
    assert request.by == ""


def test_a_promotion_names_the_standby_that_takes_over(world: World) -> None:
    """One of them: others go on waiting."""
    world.live = lambda: pair(world, answers=True)
    assert main(["ha", "promote", "app"]) == ExitCode.OK
    (request,) = (row for row in world.rows if isinstance(row, TakeOver))
    assert request.by == "b/1"


def test_a_switch_that_nobody_answers_says_where_to_look(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status that its fix names shows that the same instance runs."""
    world.live = lambda: pair(world, answers=False)
    assert main(["ha", "switch", "app", "--timeout", "2"]) != ExitCode.OK
    told = capsys.readouterr().err
    assert "SWITCH_TIMEOUT" in told
    command = told.partition("mustela ha status app")[1]
    assert main([*command.split()[1:], "--json"]) == ExitCode.OK
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["running"]["host"] == "a"
    assert [one["epoch"] for one in shown["standbys"]] == [4]


@pytest.mark.parametrize(("behind", "code"), [(True, "STANDBY_BEHIND"), (False, "NO_STANDBY")])
def test_a_switch_that_is_refused_says_why_and_can_be_forced(
    world: World, capsys: pytest.CaptureFixture[str], behind: bool, code: str
) -> None:
    """The running instance answers the request, and goes on."""

    def refuse() -> list[LeaseRow]:
        asked = [row for row in world.rows if isinstance(row, TakeOver)]
        answers = [
            SwitchRefused(refused=row.take_over, committed=9, waiting="b at 4", behind=behind)
            for row in asked
            if not row.force
        ]
        forced = any(row.force for row in asked)
        return [lease("b", 4)] if forced else [lease("a", 3), standby(), *answers]

    world.live = refuse
    assert main(["ha", "switch", "app", "--to", "b"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert code in told
    assert "b at 4" in told
    (request,) = (row for row in world.rows if isinstance(row, TakeOver))
    assert request.to == "b"
    assert main(["ha", "switch", "app", "--force"]) == ExitCode.OK
    assert ("mustela ha switch app --force" in told) == behind


def test_the_status_shows_nobody_where_nobody_says_anything(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lease that is not renewed is no sign of life for longer than it says."""
    world.rows = [lease("a", 3)]
    assert main(["ha", "status", "app"]) == ExitCode.OK
    assert capsys.readouterr().out == "app: no instance runs\n"
