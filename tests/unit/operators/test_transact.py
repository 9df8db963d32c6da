"""Transactions over several keys: the outcome is that of all of them in a row."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from mustela import Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.kernel.core.failures import ProcessingError
from mustela.processors import ContextualProcessor
from mustela.stores import Refusal, Transaction

KEYS = "abcdef"
WAYS: list[dict[str, Any]] = [
    {},
    {"key_groups": 8, "lanes": 3, "event_time": "watermark", "emit": "every"},
    {"key_groups": 8, "lanes": 3, "crash_after_every_record": True},
]

WAYS_TOLD = ["one lane", "three lanes", "crashes"]


def long_store(name: str) -> Any:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=str, value=int)


class Transfer(NamedTuple):
    """What the tests' records say."""

    source: str
    target: str
    amount: int


def accounts_of(_id: str, transfer: list[Any]) -> list[str]:
    return transfer[:2]


def move(number: str, transfer: list[Any], tx: Transaction) -> str | None:
    """Move money, and tell both sides what they have; refuse what is not there."""
    source, target, amount = transfer
    accounts = tx.store("accounts")
    balance = accounts.get(source, 10)
    if balance < amount:
        tx.abort(f"{source} has {balance}")
    accounts.put(source, balance - amount)
    accounts.put(target, accounts.get(target, 10) + amount)
    if amount == 7:
        raise ValueError(number)
    tx.forward(source, accounts[source])
    tx.forward(target, accounts[target])
    return None


class Serial(NamedTuple):
    """What a plain program gives that runs all transfers in a row."""

    accounts: dict[str, int]
    told: list[tuple[str, int]]
    refused: list[tuple[str, str]]

    @classmethod
    def run(cls, transfers: list[Transfer]) -> Serial:
        accounts: dict[str, int] = {}
        told: list[tuple[str, int]] = []
        refused: list[tuple[str, str]] = []
        for number, (source, target, amount) in enumerate(transfers):
            balance = accounts.get(source, 10)
            if balance < amount:
                refused.append((f"t{number}", f"{source} has {balance}"))
            elif amount != 7:
                accounts[source] = balance - amount
                accounts[target] = accounts.get(target, 10) + amount
                told += [(source, accounts[source]), (target, accounts[target])]
        return cls(accounts, told, refused)


def reason(refusal: Refusal[Any]) -> str:
    return refusal.reason


def bank() -> StreamsBuilder:
    builder = StreamsBuilder()
    transfers = builder.stream("transfers", key=str, value=list)
    moved = transfers.transact(
        keys=accounts_of, fn=move, stores=long_store("accounts"), name="move"
    )
    moved.to("told", value=int)
    moved.refused().map_values(reason).to("refused", value=str)
    return builder


def by_key(rows: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return dict(found)


def cut_into(rows: list[Any], cuts: list[int]) -> list[list[Any]]:
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(rows)}), len(rows)]
    return [rows[a:b] for a, b in itertools.pairwise(places)]


def run_bank(
    transfers: list[Transfer],
    cuts: list[int],
    *,
    build: Callable[[], StreamsBuilder] = bank,
    **options: Any,
) -> Serial:
    """Run transfers in epochs that end at the cuts."""
    numbered = [(f"t{n}", list(transfer)) for n, transfer in enumerate(transfers)]
    chosen = {"processing_handler": "continue"}
    chosen |= {name: options.pop(name) for name in ("event_time", "emit") if name in options}
    with TopologyTestDriver(build(), settings=chosen, **options) as driver:
        topic = driver.create_input_topic("transfers")
        for part in cut_into(numbered, cuts):
            with driver.epoch():
                topic.pipe_key_value_list(part)
        return Serial(
            dict(driver.get_key_value_store("accounts").all()),
            driver.create_output_topic("told").read_key_values_to_list(),
            driver.create_output_topic("refused").read_key_values_to_list(),
        )


TRANSFERS = st.lists(
    st.builds(Transfer, st.sampled_from(KEYS), st.sampled_from(KEYS), st.integers(0, 12)),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("way", WAYS, ids=WAYS_TOLD)
@given(transfers=TRANSFERS, cuts=st.lists(st.integers(0, 25), max_size=4))
@settings(deadline=None)
def test_the_outcome_is_that_of_all_transactions_in_a_row(
    way: dict[str, Any], transfers: list[Transfer], cuts: list[int]
) -> None:
    """Balances, refusals and what each account is told are as in a plain serial program."""
    expected = Serial.run(transfers)
    found = run_bank(transfers, cuts, **way)
    assert found.accounts == expected.accounts
    assert by_key(found.told) == by_key(expected.told)
    assert by_key(found.refused) == by_key(expected.refused)


def test_a_transaction_that_raises_has_no_effect_and_meets_the_handler() -> None:
    """The error names the step and the line; with another handler, the next one goes on."""
    rows = [Transfer("a", "b", 7), Transfer("a", "b", 1)]
    with pytest.raises(ProcessingError) as caught, TopologyTestDriver(bank()) as driver:
        driver.create_input_topic("transfers").pipe_input("t0", ["a", "b", 7])
    assert caught.value.fields["step"] == "move"
    assert "raise ValueError(number)" in str(caught.value)
    assert run_bank(rows, []).accounts == {"a": 9, "b": 11}


def test_a_key_that_is_not_declared_is_named_with_the_step_and_the_line() -> None:
    """Reading, writing and ranges beyond the declared keys fail the record, each with a fix."""

    def beyond(_key: str, how: str, tx: Transaction) -> None:
        store = tx.store("accounts")
        if how == "get":
            store.get("z")
        elif how == "put":
            store.put("z", 1)
        elif how == "range":
            list(store.all())
        else:
            tx.store("others")

    builder = StreamsBuilder()
    asks = builder.stream("asks", key=str, value=str)
    asks.transact(
        keys=lambda key, _: [key], fn=beyond, stores=[long_store("accounts")], name="beyond"
    )
    for how in ("get", "put", "range", "store"):
        with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as caught:
            driver.create_input_topic("asks").pipe_input("a", how)
        text = str(caught.value)
        assert "'beyond'" in text
        assert "test_transact.py" in text
        assert "fix:" in text
        assert ("'z'" in text) == (how in {"get", "put"})


def test_keys_can_be_declared_by_store() -> None:
    """Each store shows its own keys; a store that is left out shows none."""

    def order(customer: str, item: str, tx: Transaction) -> str:
        stock, limits = tx.store("stock"), tx.store("limits")
        if stock.get(item, 2) < 1 or limits.get(customer, 3) < 1:
            tx.abort("no")
        stock.put(item, stock.get(item, 2) - 1)
        limits.put(customer, limits.get(customer, 3) - 1)
        return item

    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str)
    done = orders.transact(
        keys=lambda customer, item: {"stock": [item], "limits": [customer]},
        fn=order,
        stores=[long_store("stock"), long_store("limits")],
    )
    done.to("done", value=str)
    rows = [("ann", "pen"), ("ann", "pen"), ("bob", "pen"), ("ann", "ink"), ("ann", "cup")]
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        with driver.epoch():
            driver.create_input_topic("orders").pipe_key_value_list(rows)
        done_rows = driver.create_output_topic("done").read_key_values_to_list()
        assert by_key(done_rows) == {"ann": ["pen", "pen", "ink"]}
        assert dict(driver.get_key_value_store("stock").all()) == {"ink": 1, "pen": 0}
        assert dict(driver.get_key_value_store("limits").all()) == {"ann": 0}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("text", "keys= returned str"),
        (7, "keys= returned int"),
        ([None], "None as a key of store 'accounts'"),
        ({"other": ["a"]}, "keys= names store 'other'"),
    ],
)
def test_what_keys_returns_is_checked(said: Any, told: str) -> None:
    """An answer that names no keys fails its record, with what was wrong."""
    builder = StreamsBuilder()
    asks = builder.stream("asks", key=str, value=str)
    asks.transact(keys=lambda _key, _value: said, fn=print, stores=long_store("accounts"))
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("asks").pipe_input("a", "b")
    assert told in str(caught.value)


def test_a_transaction_knows_its_record_and_may_delete() -> None:
    """Time, headers and place of the record are there; a deleted key is gone."""
    seen: list[Any] = []

    def note(key: str, value: str, tx: Transaction) -> None:
        seen.append((tx.timestamp, tx.headers, tx.context.topic, tx.context.offset))
        if value == "delete":
            seen.append(tx.store("accounts").delete(key))
        else:
            tx.store("accounts").put(key, int(value))

    builder = StreamsBuilder()
    asks = builder.stream("asks", key=str, value=str)
    asks.transact(keys=lambda key, _: [key], fn=note, stores=long_store("accounts"))
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("asks")
        topic.pipe_input("a", "5", timestamp=1_000)
        topic.pipe_input("a", "delete", timestamp=2_000, headers=(("h", b"1"),))
        assert dict(driver.get_key_value_store("accounts").all()) == {}
    assert seen == [(1_000, (), "asks", 0), (2_000, (("h", b"1"),), "asks", 1), 5]


def test_records_that_one_record_became_stay_in_order_in_any_number_of_lanes() -> None:
    """Transactions of one record share no keys, run in different lanes, and come out in order."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    words = lines.flat_map_values(str.split)
    said = words.transact(
        keys=lambda _key, word: [word],
        fn=lambda _key, word, tx: tx.store("accounts").put(word, 1) or word,
        stores=long_store("accounts"),
    )
    said.to("said", value=str)
    text = "the quick brown fox jumps over a lazy dog and runs home"
    for lanes in (1, 2, 3, 8):
        with TopologyTestDriver(builder, key_groups=8, lanes=lanes) as driver:
            with driver.epoch():
                driver.create_input_topic("lines").pipe_key_value_list([("x", text), ("y", text)])
            rows = by_key(driver.create_output_topic("said").read_key_values_to_list())
        assert rows == {"x": text.split(), "y": text.split()}


def test_what_did_not_change_is_not_written() -> None:
    """A value that is put back as it was makes no row in the changelog."""
    builder = StreamsBuilder()
    asks = builder.stream("asks", key=str, value=int)

    def put(key: str, value: int, tx: Transaction) -> None:
        tx.store("accounts").put(key, value)

    asks.transact(keys=lambda key, _: [key], fn=put, stores=long_store("accounts"))
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("asks")
        topic.pipe_key_value_list([("a", 1), ("a", 1), ("a", 2)])
        changelog = driver._cluster.changelogs["accounts", 0]  # pyright: ignore[reportPrivateUsage]
    assert len(changelog) == 2


def request_move(tx: Transaction, number: str, transfer: list[Any]) -> str | None:
    return move(number, transfer, tx)


class AskToMove(ContextualProcessor[str, list[Any], Any, Any]):
    """Asks for a transaction for each transfer, from a key group of its own."""

    @staticmethod
    def stores() -> list[Any]:
        return [long_store("asked")]

    def process(self, record: Record[str, list[Any]]) -> None:
        asked = self.context.state_store("asked")
        asked.put(record.key, asked.get(record.key, 0) + 1)
        self.context.transact(record.value[:2], request_move, record.key, record.value)


def requested_bank() -> StreamsBuilder:
    builder = StreamsBuilder()
    transfers = builder.stream("transfers", key=str, value=list)
    moved = transfers.process(AskToMove, transacts=long_store("accounts"), name="ask").transacted()
    moved.to("told", value=int)
    moved.refused().map_values(reason).to("refused", value=str)
    return builder


@pytest.mark.parametrize("way", WAYS, ids=WAYS_TOLD)
@given(transfers=TRANSFERS, cuts=st.lists(st.integers(0, 25), max_size=4))
@settings(deadline=None)
def test_transactions_of_processors_run_in_the_order_of_their_records(
    way: dict[str, Any], transfers: list[Transfer], cuts: list[int]
) -> None:
    """A processor asks in the lane of its record; the outcome is that of all in a row."""
    expected = Serial.run(transfers)
    found = run_bank(transfers, cuts, build=requested_bank, **way)
    assert found.accounts == expected.accounts
    assert by_key(found.told) == by_key(expected.told)
    assert by_key(found.refused) == by_key(expected.refused)


def test_a_lambda_can_be_a_transaction_and_a_record_may_ask_for_several() -> None:
    """Those of one record run as they were asked for."""

    class Ask(ContextualProcessor[str, int, Any, Any]):
        def process(self, record: Record[str, int]) -> None:
            for number in range(record.value):
                self.context.transact(
                    ["a", "b"], lambda tx, n: tx.store("accounts").put("a", n), number
                )

    builder = StreamsBuilder()
    asks = builder.stream("asks", key=str, value=int)
    asks.process(Ask, transacts=long_store("accounts"), name="ask")
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        driver.create_input_topic("asks").pipe_input("x", 5)
        assert dict(driver.get_key_value_store("accounts").all()) == {"a": 4}


def test_a_processor_without_stores_for_transactions_cannot_ask() -> None:
    """The error says how the way is laid."""

    class Ask(ContextualProcessor[str, str, Any, Any]):
        def process(self, record: Record[str, str]) -> None:
            self.context.transact(["a"], print)

    builder = StreamsBuilder()
    builder.stream("asks", key=str, value=str).process(Ask, name="ask")
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("asks").pipe_input("a", "b")
    assert "transacts=[store]" in str(caught.value)


def test_a_failing_transaction_of_a_processor_names_the_users_line() -> None:
    """The step is the one that runs it, the line that of the function."""
    with pytest.raises(ProcessingError) as caught, TopologyTestDriver(requested_bank()) as driver:
        driver.create_input_topic("transfers").pipe_input("t0", ["a", "b", 7])
    assert caught.value.fields["step"] == "ask-transact"
    assert "raise ValueError(number)" in str(caught.value)
