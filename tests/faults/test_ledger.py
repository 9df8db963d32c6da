"""The ledger of the long run, and how slices are drawn after what it holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.faults.hosts import HOSTS_KINDS, SHOCKS as SHOCKS_TO_HOSTS
from tests.faults.kinds.registry import CHECKED, KINDS
from tests.faults.ledger import Ledger, Line, table
from tests.faults.reads.campaign import MOVES
from tests.faults.shocks.registry import SHOCKS
from tests.faults.shocks.shock import WRITERS
from tests.faults.slices import HASTY, draw
from tests.faults.standbys import SHOCKS as SHOCKS_TO_STANDBYS

LEDGER = Path(__file__).parent / "results" / "faults.jsonl"
STANDBYS = LEDGER.with_name("standbys.jsonl")
READS = LEDGER.with_name("reads.jsonl")
HOSTS = LEDGER.with_name("hosts.jsonl")


def play(ledger: Ledger, slices: int, kinds: list[str]) -> None:
    """Draw slices and note them as done."""
    for _ in range(slices):
        plan = draw(7, ledger, 20, kinds, SHOCKS)
        faults = dict(Counter(plan.shocks))
        ledger.add(Line(seed=7, slice=plan.slice, kind=plan.kind, faults=faults, epochs=20))


def test_a_run_in_parts_draws_what_one_run_draws(tmp_path: Path) -> None:
    """The ledger is all that a part needs of the parts before it."""
    kinds = sorted(CHECKED)
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    play(Ledger(whole), 12, kinds)
    for _ in range(3):
        play(Ledger(parts), 4, kinds)
    assert parts.read_text() == whole.read_text()
    assert not Ledger(parts, resume=False).lines


def test_kinds_get_faults_evenly_and_each_fault_for_its_weight() -> None:
    """After enough slices no pair of kind and fault is left out."""
    ledger = Ledger(None)
    kinds = ["word_count", "sequence", "transfers"]
    play(ledger, 60, kinds)
    done = ledger.done()
    sums = {kind: sum(n for (k, _), n in done.items() if k == kind) for kind in kinds}
    assert max(sums.values()) - min(sums.values()) <= 20
    for kind in kinds:
        able = [name for name, shock in SHOCKS.items() if shock.fits(KINDS[kind], HASTY)]
        counts = {name: done[kind, name] for name in able}
        assert min(counts.values()) > 0, counts
        assert counts["pause-driver"] > counts["kill-driver"]


def test_a_fault_that_does_not_come_about_is_not_counted() -> None:
    """It is drawn again, but not for ever before all others."""
    ledger = Ledger(None)
    ledger.add(Line(seed=1, slice=0, kind="ticks", faults={"kill-jvm": 1}, missed={"kill-app": 2}))
    assert (ledger.faults, ledger.missed()["ticks", "kill-app"]) == (1, 2)
    assert "1 faults in 1 slices" in table(ledger)


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (LEDGER, SHOCKS),
        (STANDBYS, SHOCKS_TO_STANDBYS),
        (READS, MOVES),
        (HOSTS, SHOCKS_TO_HOSTS),
    ],
    ids=["one", "standbys", "reads", "hosts"],
)
def test_the_long_run_of_the_repository_found_nothing_wrong(
    path: Path, known: Collection[str]
) -> None:
    """Its lines are whole, its faults are known, and nothing was violated."""
    ledger = Ledger(path)
    assert ledger.lines
    assert {name for _, name in ledger.done()} <= set(known)
    # What a slice draws by: a seed may have been played for some kinds apart from the others.
    drawn = [(line.seed, line.slice, line.kind) for line in ledger.lines]
    assert len(drawn) == len(set(drawn))
    assert not ledger.violations
    assert all(json.loads(text) for text in path.read_text().splitlines())


def test_kinds_were_played_on_hosts_with_either_writer() -> None:
    lines = Ledger(HOSTS).lines
    assert {line.kind for line in lines} <= set(HOSTS_KINDS) <= set(CHECKED)
    assert {line.settings.get(WRITERS) == "lanes" for line in lines} == {True, False}


def test_every_client_of_every_seed_had_answers() -> None:
    """Two inside of the application, and thirteen over HTTP, of it and of its replica.

    The first seven seeds had eight of these; Spark reads with every fourth seed.
    """
    for line in Ledger(READS).lines:
        clients = line.answers.keys() - {"Spark"}
        assert len(clients) == (10 if line.seed <= 16007 else 15), line.seed
        assert min(line.answers.values()) > 0, line.seed
