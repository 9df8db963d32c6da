"""Kinds of stores: each is declared once, listed once, and told from the others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mustela.state import kinds
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.typed import TypedStore
from mustela.state.store_kind import KINDS, StoreKind, kind_named


class Bags(TypedStore[str, str, int]):
    """Shows nothing: what is looked at here is the declaration."""


def declared() -> set[str]:
    """Return what `KINDS` says of each declaration in the folder of kinds."""
    found: set[str] = set()
    for file in Path(kinds.__file__).parent.glob("*.py"):
        for statement in ast.parse(file.read_text()).body:
            value = statement.value if isinstance(statement, ast.AnnAssign) else None
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "StoreKind":
                assert isinstance(statement, ast.AnnAssign)
                found.add(f"{file.stem}:{ast.unparse(statement.target)}")
    return found


def test_each_kind_that_is_declared_has_its_line() -> None:
    """And each line names a declaration: a kind is never half there."""
    assert declared() == set(KINDS.values())
    assert [kind_named(name).name for name in KINDS] == list(KINDS)


def test_a_kind_of_ones_own_needs_no_line() -> None:
    """Its name is the layout's, so that rows of another kind are never taken for its own."""
    spec = StoreSpec(name="carts", own_kind=StoreKind(name="bags", store=Bags))
    assert spec.traits.store is Bags
    assert spec.kind == "bags"
    assert not spec.reads(StoreSpec(name="carts").layout)


@pytest.mark.parametrize("name", ["window", "list"])
def test_a_kind_of_ones_own_has_a_name_of_its_own(name: str) -> None:
    """Under the name of one of the library's, old rows would be read by the wrong layout."""
    with pytest.raises(StoreError, match="give the kind another name"):
        StoreSpec(name="carts", own_kind=StoreKind(name=name, store=Bags))


def test_a_kind_that_does_not_exist_is_refused() -> None:
    """Where the store is specified, not when it is opened."""
    with pytest.raises(StoreError, match="name one of key_value, timestamped_key_value,"):
        StoreSpec(name="carts", kind="widnow")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"with_headers": True}, "cannot keep headers"),
        ({"ttl_ms": 1}, "cannot have a time to live"),
        ({"max_entries": 1}, "cannot have max_entries"),
        ({"duplicates": True}, "has options of window stores"),
    ],
)
def test_a_kind_has_only_the_options_that_it_declares(options: dict[str, int], words: str) -> None:
    """What a kind does not say that it takes is refused, and taken when it says so."""
    with pytest.raises(StoreError, match=words):
        StoreSpec(name="carts", own_kind=StoreKind(name="bags", store=Bags), **options)  # type: ignore[arg-type]
    more = StoreKind(name="bags", store=Bags, headed=Bags, takes=frozenset(options))
    assert StoreSpec(name="carts", own_kind=more, **options).kind == "bags"  # type: ignore[arg-type]
