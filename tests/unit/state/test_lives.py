"""State knows the life of the application that it is of, and the changelogs that it follows."""

from __future__ import annotations

import msgspec
import pytest
from xxhash import xxh64_digest

from mustela.state.codec import BLOB_CHECK_BYTES
from mustela.state.faults import StateNotReadyError
from mustela.state.interfaces import Committed, Condition, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.registry import EnvironmentRegistry
from tests.unit.state.environments import committed, fill, make_spec, open_lmdb, rows_of

FIRST, SECOND = "first life", "second life"
STORES = (StoreSpec(name="counts"), StoreSpec(name="local", logged=False))


def in_life(life: str, **changes) -> EnvironmentSpec:
    ids = {"counts": f"changelog of the {life}"}
    return make_spec(**({"stores": STORES, "life": life, "changelog_ids": ids} | changes))


def left_by(root, spec: EnvironmentSpec, count: int = 10) -> Committed:
    """Leave state behind, as an instance that ended does."""
    environment = open_lmdb(root, spec)
    state = fill(environment, count)
    environment.close(clean=True)
    return state


def unnamed(root, spec: EnvironmentSpec) -> None:
    """Take the name of its life from state, as a version that knew none would have written it."""
    environment = open_lmdb(root, spec)
    state = environment._opened()
    with state.env.begin(write=True) as txn:
        blob = txn.get(b"meta", b"", state.meta)
        meta = msgspec.msgpack.decode(blob[BLOB_CHECK_BYTES:])
        del meta["life"], meta["changelog_ids"]
        body = msgspec.msgpack.encode(meta)
        txn.put(b"meta", xxh64_digest(body) + body, db=state.meta)
    environment.close(clean=False)


def rebuilt(environment: LmdbEnvironment, state: Committed, rows) -> list[tuple[bytes, bytes]]:
    """Do what a worker does with state that is not to be caught up."""
    assert environment.condition(state).must_destroy
    environment.destroy()
    assert environment.positions() == {}
    environment.restore("counts", rows, state.changelog_ends["counts"])
    environment.finish_restore(state)
    return rows_of(environment, state)


def test_a_host_that_no_reset_reached_does_not_catch_up(tmp_path):
    """Its rows are the old life's: the new changelog is read from its start instead."""
    left_by(tmp_path, in_life(FIRST))
    now = committed(Token(1, 40, 0), counts=300)
    unaware = open_lmdb(tmp_path, in_life(FIRST))
    assert unaware.condition(now) is Condition.BEHIND  # what it was taken for
    unaware.close(clean=False)
    environment = open_lmdb(tmp_path, in_life(SECOND))
    assert environment.condition(now) is Condition.FOREIGN
    assert rebuilt(environment, now, [(b"k", b"new")]) == [(b"k", b"new")]


def test_state_ahead_in_another_life_is_only_foreign(tmp_path):
    """A new life counts from 1; the old one's numbers are no reason to stop."""
    left_by(tmp_path, in_life(FIRST), 500)
    environment = open_lmdb(tmp_path, in_life(SECOND))
    assert environment.condition(committed(None)) is Condition.FOREIGN
    assert environment.condition(committed(Token(1, 1, 0), counts=7)) is Condition.FOREIGN


def test_a_pending_of_another_life_is_never_folded(tmp_path):
    """Both lives have an epoch of this number; only one of them wrote it here."""
    environment = open_lmdb(tmp_path, in_life(FIRST))
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"counts": [(b"k", b"old")]})
    environment.close(clean=True)
    state = committed(token, counts=1)
    environment = open_lmdb(tmp_path, in_life(SECOND))
    assert environment.condition(state) is Condition.FOREIGN
    for use in (
        lambda: environment.fold(state),
        lambda: environment.snapshot(state),
        lambda: environment.write_pending(Token(1, 2, 0), state, {}),
        lambda: environment.restore("counts", [(b"k", b"new")], 1),
    ):
        with pytest.raises(StateNotReadyError):
            use()
    assert rebuilt(environment, state, [(b"k", b"new")]) == [(b"k", b"new")]


def test_a_changelog_made_anew_makes_its_state_foreign(tmp_path):
    """Offsets of another topic under the same name mean other rows."""
    spec = in_life(FIRST)
    state = left_by(tmp_path, spec)
    again = in_life(FIRST, changelog_ids={"counts": "made anew"})
    assert open_lmdb(tmp_path, again).condition(state) is Condition.FOREIGN
    assert open_lmdb(tmp_path, spec).condition(state) is Condition.CURRENT


def test_a_store_whose_topic_is_not_told_is_not_looked_at(tmp_path):
    """Who does not know the topics can still use the state of this life."""
    state = left_by(tmp_path, in_life(FIRST))
    spec = in_life(FIRST, changelog_ids={})
    assert open_lmdb(tmp_path, spec).condition(state) is Condition.CURRENT


def test_state_of_an_older_version_is_adopted_where_the_record_says_so(tmp_path):
    """An update restores nothing; from then on the state has its name."""
    spec = in_life(FIRST)
    state = left_by(tmp_path, spec)
    unnamed(tmp_path, spec)
    assert open_lmdb(tmp_path, spec).condition(state) is Condition.FOREIGN
    adopting = open_lmdb(tmp_path, in_life(FIRST, adopts_unnamed=True))
    assert adopting.condition(state) is Condition.CURRENT
    adopting.write_pending(Token(2, 2, 0), state, {"counts": [(b"k", b"v")]})
    adopting.close(clean=False)
    assert open_lmdb(tmp_path, spec).condition(state) is Condition.CURRENT
    other = in_life(SECOND, adopts_unnamed=True)
    assert open_lmdb(tmp_path, other).condition(state) is Condition.FOREIGN


def test_a_process_does_not_keep_state_open_for_another_life(tmp_path):
    """What is open was judged by the life of its time."""
    registry = EnvironmentRegistry(tmp_path)
    registry.get(in_life(FIRST))
    with pytest.raises(StateNotReadyError, match="another specification"):
        registry.get(in_life(SECOND))
    registry.close_all(clean=False)
