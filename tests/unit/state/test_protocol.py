"""Bases, pendings and what an environment says of itself; both backends."""

from __future__ import annotations

import pytest

from mustela.errors import InvariantError
from mustela.state.faults import FencedStateError, StateGoneError, StateNotReadyError, StoreError
from mustela.state.interfaces import Committed, Condition, EnvironmentSpec, StoreSpec, Token
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from mustela.state.protocol import Standing, compare
from tests.unit.state.environments import committed, fill, make_spec, open_lmdb, rows_of

ROW = (b"k", b"v")


@pytest.fixture(params=["memory", "lmdb"])
def opener(request, tmp_path):
    made = []

    def open_one(spec: EnvironmentSpec | None = None):
        spec = spec or make_spec()
        environment = (
            MemoryEnvironment(spec) if request.param == "memory" else open_lmdb(tmp_path, spec)
        )
        made.append(environment)
        return environment

    yield open_one
    for environment in made:
        environment.close(clean=False)


@pytest.fixture
def environment(opener):
    return opener()


def test_a_new_environment_is_current_until_something_was_committed(environment):
    """Nothing is the right state of an app that never committed, and of no other."""
    assert environment.condition(Committed()) is Condition.CURRENT
    assert environment.condition(committed(Token(1, 1, 0), counts=1)) is Condition.EMPTY
    assert environment.positions() == {}


def test_a_new_environment_of_stores_with_changelogs_is_empty(environment):
    """A store that moved to another stage has rows in its changelog, and no epoch wrote it here."""
    moved = committed(None, counts=2)
    assert environment.condition(moved) is Condition.EMPTY
    with pytest.raises(StateNotReadyError):
        environment.snapshot(moved)
    environment.restore("counts", [ROW], 2)
    environment.restore("totals", [], 0)
    environment.finish_restore(moved)
    assert rows_of(environment, moved) == [ROW]


def test_a_store_that_is_read_anew_in_vain_is_not_believed(environment):
    """Its old position is of rows that are gone, where any of the new ones was written."""
    environment.restore("counts", [ROW], 5)
    environment.restore("totals", [], 0)
    environment.finish_restore(committed(Token(1, 1, 0), counts=5))

    def cut_short():
        yield (b"other", b"w")
        raise TimeoutError

    with pytest.raises(TimeoutError):
        environment.restore("counts", cut_short(), 9, anew=True)
    if environment.positions().get("counts"):
        environment.restore("counts", [], 9, start=5)
        environment.finish_restore(committed(Token(1, 2, 0), counts=9))
        assert rows_of(environment, committed(Token(1, 2, 0), counts=9)) == [ROW]


def test_a_pending_is_seen_only_when_the_driver_names_it(environment):
    """The driver's word turns a pending into state, and nothing else does."""
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [ROW]})
    assert rows_of(environment, Committed()) == []
    named = committed(token, counts=1)
    assert environment.condition(named) is Condition.FOLDABLE
    assert rows_of(environment, named) == [ROW]
    assert environment.positions() == {}
    environment.fold(named)
    assert environment.condition(named) is Condition.CURRENT
    assert environment.positions() == {"counts": 1}
    assert rows_of(environment, named) == [ROW]


def test_an_abandoned_pending_is_not_taken_for_its_epochs_next_run(environment):
    """An epoch number comes again after a failure; the attempt tells the runs apart."""
    first, second = Token(1, 1, 0), Token(1, 1, 1)
    environment.write_pending(first, Committed(), {"counts": [(b"lost", b"1")]})
    environment.write_pending(second, Committed(), {"counts": [ROW]})
    assert environment.condition(committed(first, counts=1)) is Condition.EMPTY
    assert rows_of(environment, committed(second, counts=1)) == [ROW]


def test_a_pending_of_an_older_incarnation_is_void(environment):
    """A restart reuses the epoch number under a new incarnation."""
    environment.write_pending(Token(1, 1, 0), Committed(), {"counts": [(b"lost", b"1")]})
    again = Token(2, 1, 0)
    environment.write_pending(again, Committed(), {"counts": [ROW]})
    assert environment.condition(committed(Token(1, 1, 0))) is Condition.EMPTY
    assert rows_of(environment, committed(again, counts=1)) == [ROW]


def test_a_lower_incarnation_writes_nothing(environment):
    """An instance that was replaced is refused inside the write, and nothing changes."""
    state = fill(environment, 10, Token(5, 1, 0))
    with pytest.raises(FencedStateError) as caught:
        environment.write_pending(Token(4, 2, 0), state, {"counts": [ROW]})
    assert caught.value.code == "STATE_FENCED"
    assert caught.value.fields == {"incarnation": 4, "owner": 5}
    with pytest.raises(FencedStateError):
        environment.restore("counts", [ROW], 11, incarnation=4)
    assert len(rows_of(environment, state)) == 10


def test_one_epoch_behind_catches_up_from_its_positions(environment):
    """A copy that missed an epoch reads the changelog from where it stands."""
    fill(environment, 10)
    later = committed(Token(1, 2, 0), counts=11)
    assert environment.condition(later) is Condition.BEHIND
    assert environment.positions() == {"counts": 10}
    with pytest.raises(StateNotReadyError):
        environment.snapshot(later)
    with pytest.raises(StateGoneError):  # who writes has seen it there
        environment.write_pending(Token(1, 3, 0), later, {})
    environment.restore("counts", [(b"key-000000", None), ROW], 11)
    assert environment.condition(later) is Condition.BEHIND
    environment.finish_restore(later)
    assert environment.condition(later) is Condition.CURRENT
    assert len(rows_of(environment, later)) == 10


def test_one_epoch_ahead_is_a_stop(environment):
    """State that the driver does not know of is never used, nor overwritten."""
    state = fill(environment, 10, Token(2, 7, 0))
    for token in (Token(2, 6, 3), Token(1, 9, 0), Token(2, 7, 1), None):
        assert environment.condition(committed(token, counts=10)) is Condition.AHEAD
    assert environment.condition(committed(Token(2, 8, 0), counts=9)) is Condition.AHEAD
    with pytest.raises(StateNotReadyError):
        environment.write_pending(Token(3, 7, 0), committed(Token(2, 6, 3)), {"counts": [ROW]})
    assert environment.condition(state) is Condition.CURRENT


def test_a_restore_that_stops_early_is_not_used(environment):
    """Half of a changelog is no state; positions say where to go on."""
    later = committed(Token(1, 2, 0), counts=20)
    environment.restore("counts", [ROW], 5)
    assert environment.condition(later) is Condition.BEHIND
    with pytest.raises(StateNotReadyError, match="has not reached"):
        environment.finish_restore(later)
    assert environment.positions() == {"counts": 5}
    with pytest.raises(StateNotReadyError):
        environment.snapshot(later)


def test_a_restore_from_the_start_leaves_nothing_of_one_that_was_cut_short(environment):
    """What it had read may be deleted since, and the log need not tell of that for ever."""
    state = committed(Token(1, 2, 0), counts=20)
    environment.restore("counts", [(b"deleted since", b"1"), (b"", b"1")], 0)
    environment.restore("counts", [ROW], 20, anew=True)
    environment.finish_restore(state)
    assert rows_of(environment, state) == [ROW]


def test_a_restore_voids_pendings(environment):
    """A pending belongs to the base that it was written over."""
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [ROW]})
    environment.restore("counts", [], 0)
    assert not environment.condition(committed(token, counts=1)).ready


def test_a_stale_copy_is_rebuilt(opener):
    """A copy older than the changelog keeps deletions cannot catch up."""
    environment = opener(make_spec(stale_after_ms=1_000))
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [ROW]})
    environment.fold(committed(token, time_ms=5_000, counts=1))
    later = committed(Token(1, 2, 0), time_ms=6_000, counts=2)
    assert environment.condition(later) is Condition.BEHIND
    much_later = committed(Token(1, 2, 0), time_ms=6_001, counts=2)
    assert environment.condition(much_later) is Condition.STALE
    assert Condition.STALE.must_destroy


def test_a_copy_from_the_future_is_rebuilt(opener):
    """It was stamped by a clock that was wrong: its age is unknown. A small step back is none."""
    environment = opener(make_spec(stale_after_ms=100_000))
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [ROW]})
    environment.fold(committed(token, time_ms=86_400_000, counts=1))
    stepped = committed(Token(1, 2, 0), time_ms=86_340_000, counts=2)
    assert environment.condition(stepped) is Condition.BEHIND
    put_right = committed(Token(1, 2, 0), time_ms=50_000, counts=2)
    assert environment.condition(put_right) is Condition.STALE


def test_a_restore_begun_long_ago_is_rebuilt(opener):
    """Rows that a half restore did not reach may have been deleted meanwhile."""
    environment = opener(make_spec(stale_after_ms=1_000))
    environment.restore("counts", [ROW], 1, time_ms=5_000)
    assert environment.condition(committed(Token(1, 2, 0), time_ms=6_000, counts=2)).catches_up
    late = committed(Token(1, 2, 0), time_ms=9_000, counts=2)
    assert environment.condition(late) is Condition.STALE


def test_an_epoch_must_be_newer_than_the_committed_one(environment):
    """A token that is not above the committed one is our own mistake."""
    state = fill(environment, 3)
    with pytest.raises(InvariantError):
        environment.write_pending(Token(1, 1, 5), state, {})


def test_destroy_leaves_an_empty_environment(environment):
    """After destroy the same object starts from nothing."""
    state = fill(environment, 10)
    environment.destroy()
    assert environment.condition(state) is Condition.EMPTY
    assert environment.condition(Committed()) is Condition.CURRENT
    fill(environment, 3)


def test_an_unknown_store_is_named(environment):
    """A store that the stage does not have is refused in every call."""
    view = environment.snapshot(Committed())
    for call in (
        lambda: view.get("nope", b"k"),
        lambda: view.getmulti("nope", [b"k"]),
        lambda: environment.write_pending(Token(1, 1, 0), Committed(), {"nope": [ROW]}),
        lambda: environment.restore("nope", [ROW], 1),
    ):
        with pytest.raises(StoreError, match="nope"):
            call()
    view.close()


def test_a_closed_view_is_refused(environment):
    """A view can be closed twice and read after neither."""
    view = environment.snapshot(Committed())
    view.close()
    view.close()
    with pytest.raises(StateNotReadyError, match="closed"):
        view.get("counts", b"k")


def test_an_overlay_leaves_out_what_did_not_change(environment):
    """A value that is written again as it was goes neither to disk nor to the changelog."""
    state = fill(environment, 10)
    overlay = Overlay(environment.snapshot(state))
    store = overlay.store("counts")
    assert store.get(b"key-000001") == b"value-000001"
    store.put(b"key-000001", b"value-000001")
    store.load([b"absent"])
    store.delete(b"absent")
    store.put(b"key-000002", b"new")
    assert overlay.changes() == {"counts": [(b"key-000002", b"new")]}
    assert store.before(b"key-000002") == b"value-000002"
    overlay.close()


def test_names_that_could_leave_the_directory_are_refused():
    """Names become paths and topics."""
    for name in ("", ".", "..", "a/b", "a b", "ä", "x" * 201, "a\n"):
        with pytest.raises(StoreError):
            StoreSpec(name=name)
        with pytest.raises(StoreError):
            make_spec(application_id=name)
        with pytest.raises(StoreError):
            make_spec(stage=name)


def test_a_store_that_has_no_changelog_any_more_keeps_its_rows():
    """What it once had read of one says nothing about the state of now."""
    token = Token(1, 1, 0)
    standing = Standing(token=token, incarnation=1, positions={"counts": 3})
    unlogged = EnvironmentSpec(
        application_id="app",
        stage="s",
        group=0,
        groups=1,
        stores=(StoreSpec(name="counts", logged=False),),
    )
    now = Committed(token=token)
    assert compare(standing, now, has_pending=False, spec=unlogged) is Condition.CURRENT
    later = Committed(token=Token(2, 2, 0))
    assert compare(standing, later, has_pending=True, spec=unlogged) is Condition.FOLDABLE


@pytest.mark.parametrize(
    ("asked", "has_pending", "told"),
    [
        (Token(1, 3, 2), True, Condition.FOLDABLE),
        (Token(1, 3, 2), False, Condition.BEHIND),
        (Token(1, 3, 1), True, Condition.AHEAD),
        (Token(1, 2, 0), True, Condition.AHEAD),
        (None, False, Condition.AHEAD),
        (Token(1, 4, 0), True, Condition.BEHIND),
        (Token(1, 4, 0), False, Condition.BEHIND),
    ],
)
@pytest.mark.parametrize("base", [None, Token(1, 2, 0)])
def test_a_base_in_the_middle_of_a_fold_serves_that_epoch_alone(base, asked, has_pending, told):
    """It has rows of an epoch that it does not say it is, and those that it lacks are in that
    epoch's pending; it is not empty either, as the changelog may lack deletions of its rows."""
    standing = Standing(token=base, folding=Token(1, 3, 2))
    state = committed(asked, counts=3)
    assert compare(standing, state, has_pending=has_pending, spec=make_spec()) is told
    standing.begin_restore(0)
    assert not compare(standing, state, has_pending=has_pending, spec=make_spec()).ready
    standing.positions = {"counts": 3, "totals": 0}
    standing.finish_restore(state, make_spec(), "here")
    assert compare(standing, state, has_pending=False, spec=make_spec()) is Condition.CURRENT
