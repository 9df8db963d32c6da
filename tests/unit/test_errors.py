"""Errors: their text, their families, their way through pickle."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from typing import Any

import pytest
from hypothesis import given, strategies as st

import mustela
from mustela.errors import (
    DataError,
    EnvironmentFault,
    InvariantError,
    MustelaError,
    Origin,
    UsageError,
    all_codes,
)

FAMILIES = (UsageError, DataError, EnvironmentFault, InvariantError)


def every_error() -> dict[str, type[MustelaError]]:
    """Import every module and return the error classes of the library by code."""
    for module in pkgutil.walk_packages(mustela.__path__, "mustela."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = all_codes()
    return {code: kind for code, kind in found.items() if kind.__module__.startswith("mustela.")}


def test_the_text_says_what_where_why_how_and_which() -> None:
    """Evidence first, labels in line, further lines indented."""
    error = UsageError(
        "cannot join 'orders' with 'customers'",
        evidence={"left": "int", "right-hand side": "str\nor bytes"},
        at=Origin("/srv/joe/app.py", 41, "orders.join(customers)"),
        why="a join matches bytes",
        fix="select_key",
    )
    assert str(error) == (
        "cannot join 'orders' with 'customers'\n"
        "  left:            int\n"
        "  right-hand side: str\n"
        "                   or bytes\n"
        "  at:              app.py:41: orders.join(customers)\n"
        "  why:             a join matches bytes\n"
        "  fix:             select_key\n"
        "  code:            USAGE"
    )


def test_what_is_not_known_is_not_printed() -> None:
    """The shortest error has its first line and its code."""
    assert str(DataError("no")) == "no\n  code:  DATA"
    assert str(Origin("app.py", 3)) == "app.py:3"


_texts = st.none() | st.text(max_size=10)


@given(
    st.sampled_from(FAMILIES),
    st.text(),
    st.dictionaries(st.text(max_size=5), st.integers()),
    st.none() | st.builds(Origin, st.text(), st.integers(), st.text()),
    _texts,
    _texts,
)
def test_an_error_survives_pickle_with_all_it_knows(
    kind: type[MustelaError], what: str, evidence: dict[str, Any], at: Any, why: Any, fix: Any
) -> None:
    """Spark carries errors between processes."""
    error = kind(what, evidence=evidence, at=at, why=why, fix=fix, fields={"n": (1, what)})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert (again.evidence, again.at, again.fields) == (error.evidence, at, {"n": (1, what)})
    assert str(pickle.loads(pickle.dumps(again))) == str(error)


def test_every_error_belongs_to_one_family_and_says_in_a_sentence_what_it_is() -> None:
    """Codes are unique: two classes with one code are an error by themselves."""
    for code, kind in every_error().items():
        families = [family for family in FAMILIES if issubclass(kind, family)]
        assert len(families) == 1 or kind is MustelaError, code
        first = (kind.__doc__ or "").strip().splitlines()
        assert first, code
        assert "code" in vars(kind), code


def test_only_faults_of_the_environment_can_be_worth_another_try() -> None:
    """A wrong program does not get better by waiting."""
    hopeful = [kind for kind in every_error().values() if kind.retryable]
    assert hopeful
    assert all(issubclass(kind, EnvironmentFault) for kind in hopeful)


def test_two_classes_with_one_code_are_found() -> None:
    """Also a class that only inherits its parent's code."""

    class NamelessError(UsageError):
        pass

    try:
        with pytest.raises(InvariantError, match="USAGE belongs to both"):
            all_codes()
    finally:
        NamelessError.code = f"TEST_{id(NamelessError)}"
