"""State that somebody deletes while the application runs: a named error, and nothing is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela.state.faults import StateGoneError
from mustela.state.interfaces import Committed, Condition, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.runs import SortedRows
from tests.unit.state.environments import committed, fill, make_spec, open_lmdb, rows_of

ROW = (b"k", b"v")
NEXT = Token(1, 2, 0)


@pytest.fixture
def environment(tmp_path: Path) -> LmdbEnvironment:
    return open_lmdb(tmp_path / "state")


def delete(environment: LmdbEnvironment, above: int = 0) -> None:
    shutil.rmtree([environment.path, *environment.path.parents][above])


@pytest.mark.parametrize("above", [0, 1, 3])
def test_an_epoch_on_state_that_was_deleted_is_run_again(environment, above) -> None:
    """The key group's directory, the stage's or all of state_dir; then it is empty and restored."""
    state = fill(environment, 10)
    view = environment.snapshot(state)
    delete(environment, above)
    assert view.get("counts", b"key-000001") == b"value-000001"  # it goes on with what it sees
    view.close()
    with pytest.raises(StateGoneError, match="was deleted while") as caught:
        environment.write_pending(NEXT, state, {"counts": [ROW]})
    assert caught.value.retryable
    assert environment.condition(state) is Condition.EMPTY
    with pytest.raises(StateGoneError):
        environment.fold(state)
    environment.restore("counts", [ROW], 10, start=0)
    environment.finish_restore(state)
    environment.write_pending(NEXT, state, {"counts": [ROW]})


@pytest.mark.parametrize("stale_after_ms", [None, 1], ids=["behind", "stale"])
def test_an_epoch_on_state_that_an_older_instance_dropped_is_run_again(
    tmp_path: Path, stale_after_ms: int | None
) -> None:
    """On the same host one that was replaced, and does not know it yet, closes what it knows of."""
    spec = make_spec(stale_after_ms=stale_after_ms)
    environment = open_lmdb(tmp_path / "state", spec)
    state = fill(environment, 10)
    environment.write_pending(NEXT, state, {"counts": [ROW]})
    after = committed(NEXT, counts=11, time_ms=state.time_ms + 10)
    assert environment.condition(after) is Condition.FOLDABLE
    environment.fold(state)  # by the older one
    with pytest.raises(StateGoneError):
        environment.write_pending(Token(1, 3, 0), after, {"counts": [ROW]})


@pytest.mark.parametrize("above", [1, 3])
def test_the_directory_of_the_locks_may_be_gone_too(environment, above) -> None:
    """A bare error of the operating system would be taken for a bug."""
    fill(environment, 10)
    delete(environment, above)
    with pytest.raises(StateGoneError):
        environment.compact()


def test_a_catch_up_does_not_go_on_over_nothing(environment) -> None:
    """The rows before would be missing, and the state would call itself whole."""
    fill(environment, 10)
    start = environment.positions()["counts"]
    delete(environment)
    with pytest.raises(StateGoneError):
        environment.restore("counts", [ROW], start + 1, start=start)
    assert environment.condition(committed(NEXT, counts=start + 1)) is Condition.EMPTY


def test_a_restore_whose_beginning_was_deleted_ends(environment, monkeypatch) -> None:
    """Of a very large store some rows are written before the last ones are read."""

    def batches(*_args: object) -> Iterator[tuple[SortedRows, bool]]:
        yield SortedRows([b"a"], [b"1"]), False
        delete(environment)
        yield SortedRows([b"b"], [b"2"]), True

    monkeypatch.setattr("mustela.state.lmdb_environment.in_key_order", batches)
    with pytest.raises(StateGoneError):
        environment.restore("counts", [], 2)


def test_a_restore_that_has_no_place_for_its_rows_is_run_again(environment) -> None:
    """What is sorted on disk lies beside the environment."""

    def log() -> Iterator[tuple[bytes, bytes]]:
        delete(environment, 1)
        return ((b"key-%08d" % number, b"x") for number in range(100_000))

    fill(environment, 10)
    with pytest.raises(StateGoneError):
        environment.restore("counts", (row for source in (log,) for row in source()), 100_000)


def test_a_second_store_does_not_begin_where_the_first_was_deleted(environment) -> None:
    """A copy whose position is kept beside its rows would call itself read."""
    environment.restore("counts", [ROW], 5)
    delete(environment)
    with pytest.raises(StateGoneError):
        environment.restore("totals", [], 7, goes_on=True)


def test_a_restore_that_was_deleted_is_not_called_finished(environment) -> None:
    """Another release, on the same host, deletes what it does not know: no bug of a restore."""
    environment.restore("counts", [ROW], 5)
    delete(environment)
    with pytest.raises(StateGoneError):
        environment.finish_restore(committed(NEXT, counts=5))


def test_the_first_epoch_needs_nothing_that_was_there(environment) -> None:
    """Nothing was committed: an empty environment is the right one."""
    environment.snapshot(Committed()).close()
    delete(environment)
    environment.write_pending(NEXT, Committed(), {"counts": [ROW]})
    assert rows_of(environment, committed(NEXT, counts=1)) == [ROW]
