"""What clients ask for next, and which stores an answer shows."""

from __future__ import annotations

import random
from itertools import islice

from tests.faults.reads.dealt import asked_stores, dealt


def test_each_round_has_every_name_once_in_an_order_of_its_own() -> None:
    """Nothing comes a second time before all else came."""
    names = ["a", "b", "c", "d"]
    drawn = list(islice(dealt(names, random.Random(1)), 40))
    rounds = [drawn[at : at + 4] for at in range(0, 40, 4)]
    assert all(sorted(each) == names for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert not list(dealt([], random.Random(1)))


def test_a_look_of_any_form_names_its_stores() -> None:
    """One store, some, or all of them."""
    for form in ("held", "page", "some"):
        assert asked_stores({"epoch": 1, form: {"store": "a"}}) == {"a"}
    assert asked_stores({"epoch": 1, "stores": {"a": [], "b": []}}) == {"a", "b"}
    assert asked_stores({"epoch": 1, "sums": {"a": [0, 0]}}) == {"a"}
