"""Errors of SQL whose fixes are followed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.sql import asking, child, libraries
from mustela.sql.errors import SqlBusyError, SqlEndedError, SqlLibraryError, SqlValueError
from tests.unit.sql.inside import statements_run_here


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    statements_run_here(monkeypatch)


@pytest.fixture
def driver():
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    builder.table("people", key=str, value=dict[str, int], store="people")
    with TopologyTestDriver(builder) as made:
        made.create_input_topic("prices").pipe_key_value_list([("pen", 3), ("ink", 12)])
        yield made


def test_the_fix_of_a_missing_library_names_the_extra(driver, monkeypatch):
    """What it says to install has what is missing."""
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "duckdb" else name)
    with pytest.raises(SqlLibraryError) as refused:
        driver.sql("select 1")
    [extra] = re.findall(r"pip install 'mustela\[(\w+)\]'", refused.value.fix or "")
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(each.startswith("duckdb") for each in extras[extra])


def test_the_fix_of_a_value_that_does_not_fit_helps(monkeypatch):
    """A whole number of more than 64 bits is told by its column, which is then left out."""
    builder = StreamsBuilder()
    numbers = builder.table("numbers", key=str, value=list[int], store="numbers")
    assert numbers is not None
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("numbers").pipe_input("big", [2**63])
        with pytest.raises(SqlValueError) as refused:
            driver.sql("select * from numbers")
        assert refused.value.fields == {"table": "numbers", "column": "value"}
        assert driver.sql("select key from numbers").rows == [("big",)]


def test_a_statement_that_finds_no_place_is_answered_later(driver):
    """Four run at once; the fifth is refused, and answered when one of them is done."""
    places = [asking._places.acquire(blocking=False) for _ in range(asking.AT_ONCE_MAX)]
    try:
        assert all(places)
        with pytest.raises(SqlBusyError):
            driver.sql("select 1")
    finally:
        for _ in places:
            asking._places.release()
    assert driver.sql("select 1").rows == [(1,)]


def test_a_process_that_has_ended_is_said_and_a_smaller_statement_helps(driver, monkeypatch):
    """A process that the system kills in the middle of a statement is no answer."""
    with monkeypatch.context() as patch:
        patch.setattr(child, "serve", lambda link, **_more: link._end.shutdown(2))
        with pytest.raises(SqlEndedError):
            driver.sql("select count(*) from prices")
    assert driver.sql("select count(*) from prices").rows == [(2,)]
