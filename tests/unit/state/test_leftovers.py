"""What a host deletes when a newer start of an application works on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.state.leftovers import Tenant, clear_leftovers

COUNTS, TOTALS, TOWNS = "c0ffee", "decade", "global-f00d"


def tenant(life: str, incarnation: int, cluster: str = "cluster") -> Tenant:
    return Tenant(application_id="app", cluster_id=cluster, life=life, incarnation=incarnation)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A host on which the first start of a life runs, with two store sets and a global table."""
    clear_leftovers(tmp_path, tenant("first", 1), {COUNTS, TOTALS, TOWNS})
    for name in (COUNTS, TOTALS, TOWNS):
        (tmp_path / "app" / name / "00003").mkdir(parents=True)
    return tmp_path / "app"


def kept(home: Path) -> set[str]:
    return {entry.name for entry in home.iterdir() if entry.is_dir()}


def test_what_no_stage_uses_any_more_goes_with_the_next_start(home: Path) -> None:
    """Not with the one that runs, whose tasks all have the same program."""
    clear_leftovers(home.parent, tenant("first", 1), {COUNTS})
    assert kept(home) == {COUNTS, TOTALS, TOWNS}
    clear_leftovers(home.parent, tenant("first", 2), {COUNTS})
    assert kept(home) == {COUNTS}


@pytest.mark.parametrize("next_one", [tenant("second", 1), tenant("first", 1, cluster="other")])
def test_another_life_finds_no_state_but_copies_of_tables(home: Path, next_one: Tenant) -> None:
    """Though its store sets have the same names; a restore clears up too, before any epoch."""
    clear_leftovers(home.parent, next_one, None)
    assert kept(home) == {TOWNS}


def test_late_orders_delete_nothing(home: Path) -> None:
    """A start that was fenced has an older program, whose stores are not those in use."""
    clear_leftovers(home.parent, tenant("first", 7), {COUNTS, TOWNS})
    (home / TOTALS).mkdir()
    clear_leftovers(home.parent, tenant("first", 6), {COUNTS})
    assert kept(home) == {COUNTS, TOTALS, TOWNS}


def test_a_restore_does_not_keep_the_epochs_after_it_from_deleting(home: Path) -> None:
    """It does not know of the tables whose copies are in use."""
    clear_leftovers(home.parent, tenant("first", 2), None)
    assert kept(home) == {COUNTS, TOTALS, TOWNS}
    clear_leftovers(home.parent, tenant("first", 2), {COUNTS})
    assert kept(home) == {COUNTS}


def test_state_of_an_older_release_is_left_to_who_opens_it(tmp_path: Path) -> None:
    """A host without a note restores nothing after an update."""
    (tmp_path / "app").mkdir(mode=0o700)
    (tmp_path / "app" / COUNTS).mkdir()
    (tmp_path / "app" / TOTALS).mkdir()
    clear_leftovers(tmp_path, tenant("first", 5), None)
    assert kept(tmp_path / "app") == {COUNTS, TOTALS}
    clear_leftovers(tmp_path, tenant("first", 5), {COUNTS})
    assert kept(tmp_path / "app") == {COUNTS}
