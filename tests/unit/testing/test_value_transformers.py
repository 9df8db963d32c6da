"""Transformers of a table's values that have a context and stores."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import KTable, Materialized, Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, FunctionError, UnknownStoreError
from mustela.processors import PunctuationType, ValueTransformerWithKey


def counts(name: str = "counts") -> Any:
    """A store of counts."""
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=str, value=int)


class Numbered(ValueTransformerWithKey[str, str, str]):
    """Says how often a key has changed, in a store."""

    def init(self, context: Any) -> None:
        self.context = context
        self.counts = context.state_store("counts")

    def transform(self, key: str, value: str | None) -> str | None:
        count = self.counts.get(key, 0) + 1
        self.counts.put(key, count)
        return None if value is None else f"{value} {count} {self.context.step_name}"


class Owning(Numbered):
    """The same, with a store of its own."""

    @staticmethod
    def stores() -> list[Any]:
        return [counts()]


def numbered(builder: StreamsBuilder, **options: Any) -> KTable[str, str]:
    """The table that is tested."""
    return builder.table("names", key=str, value=str).transform_values(
        Owning, name="numbered", value=str, **options
    )


@pytest.mark.parametrize("crashes", [False, True])
def test_a_transformer_keeps_state_and_sees_deletions(crashes: bool) -> None:
    """A crash between two rows takes nothing of its store, which is committed with the rows."""
    builder = StreamsBuilder()
    numbered(builder, store="result").to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        names = driver.create_input_topic("names")
        for value in ("ann", None, "eve"):
            names.pipe_input("k", value)
            if crashes:
                driver.crash()
        names.pipe_input("other", "bob")
        rows = driver.create_output_topic("out").read_key_values_to_list()
        stored = dict(driver.get_key_value_store("result"))
    step = "numbered.transformer"
    assert rows == [
        ("k", f"ann 1 {step}"),
        ("k", None),
        ("k", f"eve 3 {step}"),
        ("other", f"bob 1 {step}"),
    ]
    assert stored == {"k": f"eve 3 {step}", "other": f"bob 1 {step}"}


@pytest.mark.parametrize("emit", ["every", "barrier"])
def test_what_stands_behind_gets_old_values_that_were_made_once(emit: str) -> None:
    """An aggregation subtracts the value that the transformer gave before; it is called once."""
    builder = StreamsBuilder()
    grouped = numbered(builder).group_by(lambda key, value: ("all", value), key=str, value=str)
    grouped.aggregate(
        list,
        lambda _key, value, values: sorted([*values, value.split()[1]]),
        lambda _key, value, values: [one for one in values if one != value.split()[1]],
        store="all",
    )
    with TopologyTestDriver(builder, settings={"emit": emit}) as driver:
        driver.create_input_topic("names").pipe_key_value_list([("k", "a"), ("k", "b"), ("k", "c")])
        assert driver.get_key_value_store("all")["all"] == ["3"]
        assert driver.get_key_value_store("counts")["k"] == 3


def test_stores_by_name_and_a_supplier_with_arguments() -> None:
    """A store that another step uses too, and a function that makes the transformer."""

    class Prefixed(ValueTransformerWithKey[str, str, str]):
        def __init__(self, prefix: str) -> None:
            self.prefix = prefix

        def init(self, context: Any) -> None:
            self.rates = context.state_store("rates")

        def transform(self, key: str, value: str | None) -> str:
            return f"{self.prefix}{value}{self.rates.get(key).value}"

    builder = StreamsBuilder()
    builder.table("rates", key=str, value=int, store="rates")
    names = builder.table("names", key=str, value=str)
    table = names.transform_values(lambda: Prefixed("> "), stores=["rates"], value=str)
    table.to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("rates").pipe_input("k", 7)
        driver.create_input_topic("names").pipe_input("k", "a", timestamp=5, headers=(("h", b"1"),))
        record = driver.create_output_topic("out").read_record()
    assert (record.value, record.timestamp, record.headers) == ("> a7", 5, (("h", b"1"),))


def test_a_transformer_may_punctuate_and_is_closed() -> None:
    """``schedule`` in ``init`` works as in a processor, and ``close`` comes at the end."""
    seen: list[str] = []

    class Timed(ValueTransformerWithKey[str, str, str]):
        def init(self, context: Any) -> None:
            second = timedelta(seconds=1)
            context.schedule(second, PunctuationType.STREAM_TIME, lambda now: seen.append(f"{now}"))

        def transform(self, key: str, value: str | None) -> str | None:
            return value

        def close(self) -> None:
            seen.append("closed")

    builder = StreamsBuilder()
    builder.table("names", key=str, value=str).transform_values(Timed, value=str).to_stream().to(
        "out"
    )
    with TopologyTestDriver(builder) as driver:
        names = driver.create_input_topic("names")
        names.pipe_input("k", "a", timestamp=1_000)
        names.pipe_input("k", "b", timestamp=2_500)
    assert [one for one in seen if one != "closed"] == ["1000", "2500"]
    assert seen[-1] == "closed"


def test_a_transformer_forwards_nothing() -> None:
    """The step that tries says so, and the row meets the handler."""

    class Forwarding(ValueTransformerWithKey[str, str, str]):
        def init(self, context: Any) -> None:
            self.context = context

        def transform(self, key: str, value: str | None) -> str | None:
            self.context.forward(Record(key, value, 0))
            return value

    builder = StreamsBuilder()
    table = builder.table("names", key=str, value=str).transform_values(Forwarding, value=str)
    table.to_stream().to("out")
    settings = {"processing_handler": "continue"}
    with TopologyTestDriver(builder, settings=settings) as driver:
        driver.create_input_topic("names").pipe_input("k", "a")
        assert driver.create_output_topic("out").is_empty
    with (
        pytest.raises(Exception, match="a transformer of values cannot forward records"),
        TopologyTestDriver(builder) as driver,
    ):
        driver.create_input_topic("names").pipe_input("k", "a")


class NoTransformer:
    """Has no method ``transform``."""


def test_what_gives_no_transformers_is_refused() -> None:
    """Each with the line of the call and what to write."""
    table = StreamsBuilder().table("names", key=str, value=str)
    one = Numbered()
    with pytest.raises(FunctionError, match="not a supplier of them: Numbered"):
        table.transform_values(one)  # type: ignore[arg-type]
    with pytest.raises(FunctionError, match="returns the same transformer each time"):
        table.transform_values(lambda: one)
    with pytest.raises(FunctionError, match=r"NoTransformer, which has no transform\(key, value\)"):
        table.transform_values(lambda: NoTransformer())
    with pytest.raises(BadOptionError, match="given stores and a function") as error:
        table.transform_values(lambda key, value: value, stores=["counts"])
    assert "test_value_transformers.py" in str(error.value)
    with pytest.raises(UnknownStoreError, match="'counts'"):
        table.transform_values(Numbered, stores=["counts"])
    with pytest.raises(FunctionError, match="takes"):
        table.transform_values(lambda value: value)  # type: ignore[arg-type,misc]


def test_a_transformed_versioned_table_is_versioned() -> None:
    """As one of a function is, where no store was named."""
    builder = StreamsBuilder()
    versions = Stores.persistent_versioned_key_value_store("names", timedelta(hours=1))
    names = builder.table("names", key=str, value=str, materialized=Materialized(supplier=versions))
    table = names.transform_values(Owning, name="numbered", value=str)
    seen = builder.stream("events", key=str, value=str).join(
        table, lambda event, name: f"{event} {name}"
    )
    seen.to("out", value=str)
    with TopologyTestDriver(builder) as driver:
        names_topic = driver.create_input_topic("names")
        names_topic.pipe_input("k", "old", timestamp=1_000)
        names_topic.pipe_input("k", "new", timestamp=9_000)
        driver.create_input_topic("events").pipe_input("k", "at 5", timestamp=5_000)
        assert driver.create_output_topic("out").read_value() == "at 5 old 1 numbered.transformer"
