"""What a user may say of older rows, and what is refused when the program is built."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import Materialized, Processor, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError
from mustela.errors import MustelaError
from mustela.serdes.primitives import FloatSerde
from mustela.stores import Upgrade


def to_text(number: float) -> str:
    return str(number)


def unknown(number):  # type: ignore[no-untyped-def]
    return str(number)


def table(**said: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    kept: Materialized[str, str] = Materialized(store="s", value=str, **said)
    builder.table("in", key=str, value=str, materialized=kept)
    return builder


@pytest.mark.parametrize(
    "upgrade",
    [to_text, Upgrade(value=float, by=str), Upgrade(value=FloatSerde(), by=str), {1: to_text}],
)
def test_an_upgrade_is_a_function_with_a_type_or_both_of_them(upgrade: Any) -> None:
    """The program runs on, and its topics hold what they held."""
    builder = table(version=2, upgrade=upgrade)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "x")
        assert driver.get_key_value_store("s")["a"] == "x"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"version": 2, "upgrade": unknown}, "does not say what it reads"),
        ({"version": 2, "upgrade": 5}, "needs a function as its upgrade"),
        ({"version": 2, "upgrade": lambda: 5}, "cannot call its upgrade"),
        ({"version": 3, "upgrade": {1: to_text}}, "no upgrade from version 2"),
        ({"version": 2, "upgrade": {2: to_text}}, "an upgrade from version 2"),
        ({"version": 1, "upgrade": to_text}, "an upgrade from version 0"),
        ({"version": 0}, "not between 1 and"),
        ({"version": "2"}, "not a whole number"),
    ],
)
def test_what_does_not_lead_to_the_version_is_refused(said: dict[str, Any], told: str) -> None:
    """With the step's line and a way on."""
    with pytest.raises(MustelaError, match=told) as raised:
        table(**said)
    assert raised.value.fix


def test_versions_belong_to_stores_with_a_name() -> None:
    """Rows of an earlier program are found by it."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=float).group_by_key()
    options = Materialized[str, str](value=str, version=2, upgrade=to_text)
    with pytest.raises(BadOptionError, match="no explicit name"):
        grouped.aggregate(str, lambda _, number, text: text + str(number), materialized=options)


def test_a_processors_store_has_versions() -> None:
    """And says them to the plan."""
    supplier = Stores.persistent_key_value_store("s")
    built = Stores.key_value_store_builder(supplier, key=str, value=str).with_version(2, to_text)
    versions = built.spec().row_versions
    assert versions is not None
    assert versions.older[1].serde == FloatSerde()


@pytest.mark.parametrize("said", [{"version": 2, "upgrade": to_text}, {"version": 2}])
def test_a_global_table_has_no_versions_of_its_rows(said: dict[str, Any]) -> None:
    """It is a copy of its topic: nobody would ever write the new version there."""
    kept: Materialized[str, str] = Materialized(store="s", **said)
    with pytest.raises(BadOptionError, match="no versions of its rows") as raised:
        StreamsBuilder().global_table("in", key=str, value=str, materialized=kept)
    assert "test_upgrades.py" in str(raised.value.at)


def test_a_global_store_has_no_versions_of_its_rows() -> None:
    """What its processor makes of the topic's records is made anew for each copy."""
    built = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("s"), key=str, value=str
    ).with_version(2, to_text)
    with pytest.raises(BadOptionError, match=r"with_version\(2\)"):
        StreamsBuilder().add_global_store(built, "in", Processor)
