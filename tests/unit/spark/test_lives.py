"""A worker that finds the state of another life."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.connectors.kafka import copies as lanes
from mustela.connectors.kafka.copies import make_current
from mustela.plan.epoch import GroupMark, Program
from mustela.spark.process import Process
from mustela.state.interfaces import Committed, Token
from tests.unit.runtime.plans import word_count_plan

STAGE, GROUP = 1, 3


def program(state_dir: Path, life: str) -> Program:
    return Program(
        identity=f"run of the {life}",
        application_id="app",
        cluster_id="cluster",
        plan=word_count_plan(),
        lanes=2,
        key_groups=8,
        guarantee="exactly_once",
        kernel={},
        consumer={},
        producer={},
        state_dir=str(state_dir),
        map_size=1 << 26,
        life=life,
        changelog_ids={"counts": f"changelog of the {life}", "elsewhere": "x"},
    )


def rows(process: Process, state: Committed) -> dict[bytes, bytes]:
    environment, _ = make_current(process, STAGE, GROUP, state)
    view = environment.snapshot(state)
    try:
        return dict(view.range("counts", None, None))
    finally:
        view.close()
        process.close()


@pytest.mark.parametrize("old", [4, 900])
def test_state_from_before_a_reset_elsewhere_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: int
) -> None:
    """The reset ran on another host: this one's rows are neither kept nor caught up."""
    asked: list[tuple[int, int]] = []

    def log(_client: Any, _topic: str, _group: int, start: int, end: int, **_: Any) -> Any:
        asked.append((start, end))
        return [(b"new", b"2")]

    monkeypatch.setattr(lanes, "read_between", log)
    first = Process(0, program(tmp_path, "first life"))
    environment = first.environment(STAGE, GROUP)
    token = Token(1, old, 0)
    environment.write_pending(token, Committed(), {"counts": [(b"old", b"1")]})
    environment.fold(Committed(token=token, changelog_ends={"counts": old}))
    first.close()
    state = Committed(token=Token(1, 30, 0), changelog_ends={"counts": 50})
    second = Process(0, program(tmp_path, "second life"))
    assert rows(second, state) == {b"new": b"2"}
    assert asked == [(0, 50)]


def test_state_of_a_life_without_a_name_is_taken_over_once(tmp_path: Path) -> None:
    """After an update nothing is restored."""
    before = replace(program(tmp_path, ""), changelog_ids={})
    process = Process(0, before)
    environment = process.environment(STAGE, GROUP)
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [(b"old", b"1")]})
    process.close()
    state = Committed(token=token, changelog_ends={"counts": 1})
    after = replace(program(tmp_path, "first life"), adopts_unnamed=True)
    assert rows(Process(0, after), state) == {b"old": b"1"}


@pytest.mark.parametrize(("spool_dir", "left"), [("", False), ("/spool", True)])
def test_a_host_away_from_the_driver_forgets_an_earlier_life_at_its_first_task(
    tmp_path: Path, spool_dir: str, left: bool
) -> None:
    """Key groups that no lane opens there go too; the driver clears up its own host by itself."""
    first = Process(0, program(tmp_path, "first life"))
    first.settle_in(1, {})
    environment = first.environment(STAGE, GROUP)
    environment.write_pending(Token(1, 4, 0), Committed(), {"counts": [(b"old", b"1")]})
    first.close()
    second = Process(0, replace(program(tmp_path, "second life"), spool_dir=spool_dir))
    second.settle_in(1, None)
    assert environment.path.exists() is left
    second.close()


def test_what_other_workers_took_over_is_not_kept(tmp_path: Path) -> None:
    """A lane runs in any of them: what this one wrote last is of use only while it is committed."""
    process = Process(0, program(tmp_path, "a life"))
    token = Token(1, 7, 0)
    for group in (GROUP, GROUP + 1):
        environment = process.environment(STAGE, group)
        environment.write_pending(token, Committed(), {"counts": [(b"a", b"1")]})
    marks = [GroupMark(None, (0,), 0)] * process.program.key_groups
    marks[GROUP] = GroupMark(token, (1,), 0)
    marks[GROUP + 1] = GroupMark((1, 8, 0), (2,), 0)
    process.forget_others(STAGE, marks)
    assert process.environment(STAGE, GROUP)._decoded._known is not None
    assert process.environment(STAGE, GROUP + 1)._decoded._known is None
    process.close()
