"""The commit barrier: every move that the protocol does not know is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from mustela.errors import InvariantError
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.state.interfaces import Token

IN_TURN = (
    Phase.RUNNING,
    Phase.IN_HAND,
    Phase.BEGUN,
    Phase.PRODUCED,
    Phase.OFFSETS_ADDED,
    Phase.COMMIT_SENT,
)

# Written down a second time, by hand: a slip in the table of the module shows here.
LEGAL = {
    ("idle", "running"),
    ("idle", "fenced"),
    ("running", "in-hand"),
    ("running", "idle"),
    *((phase, "fenced") for phase in ("in-hand", "begun", "produced", "offsets-added")),
    *((phase, "unknown") for phase in ("in-hand", "begun", "produced", "offsets-added")),
    *((phase, "idle") for phase in ("in-hand", "begun", "produced", "offsets-added")),
    ("in-hand", "begun"),
    ("begun", "produced"),
    ("produced", "offsets-added"),
    ("offsets-added", "commit-sent"),
    ("commit-sent", "idle"),
    ("commit-sent", "unknown"),
    ("commit-sent", "fenced"),
    ("unknown", "idle"),
    ("unknown", "fenced"),
}


def at(phase: Phase) -> Barrier:
    barrier = Barrier(incarnation=4, last_epoch=10)
    barrier.phase = phase
    return barrier


@pytest.mark.parametrize(("here", "there"), list(itertools.product(Phase, Phase)))
def test_a_move_is_allowed_or_refused_as_the_protocol_says(here: Phase, there: Phase) -> None:
    """A refused move names both phases and leaves the barrier where it was."""
    barrier = at(here)
    if (here.value, there.value) in LEGAL:
        barrier.move(there)
        assert barrier.phase is there
    else:
        with pytest.raises(InvariantError, match=f"from {here.value} to {there.value}"):
            barrier.move(there)
        assert barrier.phase is here


def test_an_epoch_in_turn_gets_the_next_number() -> None:
    """The attempt begins at 0 again."""
    barrier = Barrier(incarnation=4, last_epoch=10)
    barrier.start()
    barrier.give_up()
    assert barrier.start() == Token(4, 11, 1)
    for phase in IN_TURN[1:]:
        barrier.move(phase)
    barrier.committed()
    assert barrier.start() == Token(4, 12, 0)


@pytest.mark.parametrize("phase", [p for p in Phase if p not in {Phase.COMMIT_SENT, Phase.UNKNOWN}])
def test_nothing_is_committed_before_the_commit_was_sent(phase: Phase) -> None:
    """Only a sent commit, or one that a new producer settled, counts."""
    barrier = at(phase)
    with pytest.raises(InvariantError):
        barrier.committed()
    assert barrier.last_epoch == 10


@pytest.mark.parametrize("phase", Phase)
def test_rows_in_hand_can_be_sent_again_only_while_a_transaction_is_open(phase: Phase) -> None:
    """With the same token: the rows are the same run of the same epoch."""
    barrier = at(phase)
    token = barrier.token
    if phase in {Phase.BEGUN, Phase.PRODUCED, Phase.OFFSETS_ADDED, Phase.COMMIT_SENT}:
        barrier.again()
        assert barrier.phase is Phase.IN_HAND
    else:
        with pytest.raises(InvariantError, match="no transaction is open"):
            barrier.again()
    assert barrier.token == token


def test_a_fenced_barrier_moves_no_more() -> None:
    """A fenced instance writes nothing more."""
    barrier = at(Phase.FENCED)
    for phase in Phase:
        with pytest.raises(InvariantError):
            barrier.move(phase)
    with pytest.raises(InvariantError):
        barrier.start()


@given(st.lists(st.sampled_from(["commit", "give up", "nothing"]), max_size=30))
def test_no_token_is_given_twice(outcomes: list[str]) -> None:
    """Epoch numbers come again after a failure, tokens never do."""
    barrier = Barrier(incarnation=1, last_epoch=0)
    tokens: list[Token] = []
    for outcome in outcomes:
        tokens.append(barrier.start())
        if outcome == "give up":
            barrier.give_up()
            continue
        barrier.move(Phase.IN_HAND)
        if outcome == "nothing":
            barrier.nothing_to_say()
            continue
        for phase in IN_TURN[2:]:
            barrier.move(phase)
        barrier.committed()
    assert len(set(tokens)) == len(tokens)
    assert tokens == sorted(tokens)
    assert barrier.last_epoch == outcomes.count("commit")
