"""The simulator in small: `./dev sim` plays as many seeds as there is time for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation.campaign import Choice, What, campaign, continue_at
from tests.simulation.draw import ALL, NOT_YET, draw, program_of
from tests.simulation.play import play
from tests.simulation.programs import GROWN, PROGRAMS, planned

CHECKED = 50
TESTED = 150


def _failed(first: int, last: int) -> list[str]:
    failed: list[str] = []
    for seed in range(first, last + 1):
        violations = play(draw(seed)).violations
        if violations:
            failed.append(f"./dev sim --seed {seed}  # {violations[0]}")
    return failed


def test_the_first_seeds_violate_nothing() -> None:
    """Whatever happens to broker, machines and processes, the invariants hold."""
    assert _failed(1, CHECKED) == []


@pytest.mark.slow
def test_more_seeds_violate_nothing() -> None:
    """The same, for more seeds than a check has time for."""
    assert _failed(CHECKED + 1, TESTED) == []


def test_a_seed_is_always_the_same_run() -> None:
    """What failed once can be looked at."""
    first, again = (play(draw(17)).trace for _ in range(2))
    assert first == again
    assert any("committed" in line for line in first)


def test_every_version_of_every_program_can_be_planned() -> None:
    """A program that does not start would pass every seed."""
    for program in PROGRAMS.values():
        for version in range(program.versions):
            assert planned(program.name, version).stages


def test_every_program_and_kind_of_fault_is_drawn() -> None:
    """What is never drawn is never tried."""
    scripts = [draw(seed, kinds=ALL) for seed in range(400)]
    assert {script.program for script in scripts} == PROGRAMS.keys()
    happened = {event.kind for script in scripts for event in script.events}
    assert {"kill", "power", "disk", "truncate", "recreate", "widen", "skew"} <= happened
    assert NOT_YET < ALL


def test_releases_and_several_instances_are_drawn_by_default() -> None:
    """Two or three instances and each version of a program are no special kinds of seeds."""
    starts: set[tuple[int, int]] = set()
    versions: set[tuple[str, int]] = set()
    for script in map(draw, range(1, 1_000)):
        for event in script.events:
            if event.kind == "start":
                slot, version, _ = event.args
                starts.add((slot, min(version, 1)))
                versions.add((script.program, version))
    assert {(1, 0), (2, 0), (0, 1), (1, 1)} <= starts
    wanted = {(p.name, v) for p in PROGRAMS.values() for v in (*p.releases, GROWN)}
    assert wanted <= versions


def test_instances_start_beside_living_ones_where_that_is_asked_for() -> None:
    """A second and a third one, at any moment; some wait, and one that stood still wakes up."""
    what = What()
    for seed in range(1, 41):
        what.add(play(draw(seed, kinds=frozenset({"beside"}))).happened)
    assert what.times["instances at once: 3"] > 10
    assert what.times["a standby waits"] > what.times["end: FENCED"] > 10
    assert what.times["freeze"] > 10
    assert Choice(kinds=ALL - NOT_YET | {"beside"}).name.endswith("; and beside")


def test_lanes_write_where_that_is_asked_for() -> None:
    """They die before, in and after it, rows of dead ones come late, and nothing is violated."""
    what, failed = What(), []
    for seed in range(1, 61):
        result = play(draw(seed, kinds=ALL - NOT_YET | {"writers"}))
        failed += [f"{seed}: {violation}" for violation in result.violations]
        what.add(result.happened)
    assert failed == []
    assert what.times["a lane dies while it writes"] > 10
    assert what.times["a lane cannot write"] > 5
    assert what.times["a late row of a lane is taken"] > 20
    assert what.times["a late row of a lane is refused"] > 20
    assert what.times["an owner writes"] > 100


def test_stores_are_read_at_any_moment() -> None:
    """Snapshots are taken and looked at again later; only what is starting or ending is refused."""
    what = What()
    for seed in range(1, 13):
        what.add(play(draw(seed)).happened)
    assert what.times["read"] > 40
    assert what.times["read again"] > 40
    refused = {name for name in what.times if name.startswith("read: ")}
    allowed = {"QUERY_STATE_UNAVAILABLE", "STATE_NOT_READY", "SNAPSHOT_EXPIRED", "QUERY"}
    assert refused <= {f"read: {code}" for code in allowed}


def test_a_campaign_goes_on_where_its_ledger_ends(tmp_path: Path) -> None:
    """Parts add up to a long run; seeds that are drawn in another way begin anew."""
    ledger, choice = tmp_path / "seeds.jsonl", Choice()
    assert continue_at(ledger, choice) == 1
    assert campaign(1, 3, choice, ledger) == []
    assert continue_at(ledger, choice) == 4
    assert campaign(4, 2, choice, ledger) == []
    assert continue_at(ledger, choice) == 6
    assert continue_at(ledger, Choice(kinds=frozenset({"kill"}))) == 1
    assert choice.what.seeds == 5
    assert "kill at: " in choice.what.table()


@pytest.mark.parametrize(
    ("name", "kinds", "seeds"),
    [
        ("seeds", ALL - NOT_YET, 100_000),
        ("truncate_recreate_beside", ALL - {"reset"} | {"beside"}, 10_000),
    ],
)
def test_the_ledger_of_a_long_run_has_no_gap(name: str, kinds: frozenset[str], seeds: int) -> None:
    """Every seed was played, and none failed when it was played last."""
    text = (Path(__file__).parent / "results" / f"{name}.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    parts = [(line["from"], line["to"]) for line in lines]
    assert parts == [(n + 1, n + 1_000) for n in range(0, seeds, 1_000)]
    assert {line["kinds"] for line in lines} == {Choice(kinds=kinds).name}
    assert [seed for line in lines for seed in line["failed"]] == []


def test_a_check_plays_every_program() -> None:
    """Each program has its turn, so few seeds try all of them."""
    assert {program_of(seed) for seed in range(1, CHECKED + 1)} == PROGRAMS.keys()
