"""What is wrong with transactions is said where they are written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import Stores, StreamsBuilder, UsageError
from mustela.api.errors import (
    BadOptionError,
    DuplicateStoreError,
    FunctionError,
    SharedStoreError,
    UnknownChildError,
    UnknownStoreError,
)
from mustela.processors import ContextualProcessor

ACCOUNTS = Stores.key_value_store_builder(
    Stores.persistent_key_value_store("accounts"), key=str, value=int
)
OTHERS = Stores.key_value_store_builder(
    Stores.persistent_key_value_store("accounts"), key=str, value=str
)
LRU = Stores.key_value_store_builder(Stores.lru_map("recent", 10), key=str, value=int)
WINDOWS = Stores.window_store_builder(
    Stores.persistent_window_store("windows", timedelta(hours=1), timedelta(hours=1)),
    key=str,
    value=int,
)


class Idle(ContextualProcessor[str, str, Any, Any]):
    """Does nothing."""

    def process(self, record: Any) -> None:
        del record


def keys(key: str, _value: str) -> list[str]:
    return [key]


def nothing(_key: str, _value: str, _tx: object) -> None:
    return None


def several(_key: str, _value: str, _tx: object) -> Any:
    yield 1


def twice(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream.transact(keys=keys, fn=nothing, stores=ACCOUNTS, name="one")
    stream.transact(keys=keys, fn=nothing, stores=ACCOUNTS, name="two")


def connected(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream.transact(keys=keys, fn=nothing, stores=ACCOUNTS)
    stream.process(Idle, stores=["accounts"])


def updated(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream.process(Idle, updates=[ACCOUNTS], transacts=[ACCOUNTS])


def of_a_table(builder: StreamsBuilder) -> None:
    builder.table("table", key=str, value=int, store="accounts")
    builder.stream("in", key=str, value=str).transact(keys=keys, fn=nothing, stores="accounts")


def of_another_type(builder: StreamsBuilder) -> None:
    builder.add_state_store(ACCOUNTS)
    builder.stream("in", key=str, value=str).transact(keys=keys, fn=nothing, stores=[OTHERS])


def not_asking(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).process(Idle).transacted()


def with_options(**options: Any) -> Callable[[StreamsBuilder], None]:
    given = {"keys": keys, "fn": nothing, "stores": ACCOUNTS, **options}

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).transact(**given)

    return build


@pytest.mark.parametrize(
    ("build", "kind", "told"),
    [
        (twice, SharedStoreError, "merge the streams"),
        (connected, SharedStoreError, 'reads=["accounts"]'),
        (updated, SharedStoreError, "uses it too"),
        (of_a_table, SharedStoreError, "belongs to transactions"),
        (of_another_type, DuplicateStoreError, "'accounts'"),
        (not_asking, UnknownChildError, "transacts=[store]"),
        (with_options(stores="unknown"), UnknownStoreError, "'unknown', which was not added"),
        (with_options(stores=[]), BadOptionError, "no store"),
        (with_options(stores=[ACCOUNTS, ACCOUNTS]), BadOptionError, "twice"),
        (with_options(stores=LRU), BadOptionError, "it forgets keys"),
        (with_options(stores=WINDOWS), BadOptionError, "it is a window store"),
        (with_options(stores=7), BadOptionError, "cannot use 7 as a store"),
        (with_options(keys=["a"]), FunctionError, "needs a function as its keys"),
        (with_options(fn=keys), FunctionError, "(key, value, transaction)"),
        (with_options(fn=several), FunctionError, "not a plain function"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(
    build: Callable[[StreamsBuilder], None], kind: type[UsageError], told: str
) -> None:
    """Each mistake has its error, with the user's line and a fix."""

    def written() -> None:
        builder = StreamsBuilder()
        build(builder)
        builder.build()

    with pytest.raises(kind) as caught:
        written()
    assert told in str(caught.value)
    assert caught.value.at is not None
    assert caught.value.at.file.endswith("test_transact.py")
    assert caught.value.fix is not None


def test_a_store_that_was_added_is_used_by_its_name() -> None:
    """A name stands for the store; the steps are named behind the one that the user names."""
    builder = StreamsBuilder()
    builder.add_state_store(ACCOUNTS)
    stream = builder.stream("in", key=str, value=str)
    done = stream.transact(keys=keys, fn=nothing, stores="accounts", name="pay")
    assert done.refused() is done.refused()
    names = [node.name for node in builder.build()]
    assert names[1:] == [
        *("pay-keys", "pay-order", "pay", "pay-written", "pay-apply", "pay-done", "pay-results"),
        *("pay-aborted", "pay-refused"),
    ]
