"""Transactions that processors ask for, on Spark with a real broker."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mustela import Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.stores import Transaction
from mustela_dev import DevelopmentBroker
from tests.faults.inside import Inside
from tests.faults.kinds.shared import FIRST_BALANCE, move_money, reason

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

TRANSFERS = 400
ACCOUNTS = 30


def ask_to_move(builder: StreamsBuilder, prefix: str) -> None:
    """Let a processor ask for each transfer; the functions travel, one of them by value."""

    class Ask(ContextualProcessor[str, str, Any, Any]):
        def process(self, record: Record[str, str]) -> None:
            def run(tx: Transaction, number: str, transfer: str) -> str:
                return move_money(number, transfer, tx)

            keys = record.value.split()[:2]
            self.context.transact(keys, run, record.key, record.value)

    accounts = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("accounts"), key=str, value=int
    )
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    moved = stream.process(Ask, transacts=accounts, name="ask").transacted()
    moved.to(f"{prefix}.out", key=str, value=str)
    moved.refused().map_values(reason).to(f"{prefix}.refused", key=str, value=str)


def test_transactions_of_a_processor_keep_all_money_over_a_restart(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Each transfer has one result; what accounts have is what the results say, and adds up."""
    inside = Inside(broker.bootstrap_servers, spark_context, tmp_path, "tx", "out", "refused")
    rng = random.Random(7)
    sent = [
        (f"t{n}", f"a{rng.randrange(ACCOUNTS)} a{rng.randrange(ACCOUNTS)} {rng.randrange(1, 99)}")
        for n in range(TRANSFERS)
    ]
    try:
        inside.build(ask_to_move)
        for part in (sent[: TRANSFERS // 2], sent[TRANSFERS // 2 :]):
            inside.send(part)
            inside.run(lanes=2)
        moved, refused = inside.table("out"), inside.table("refused")
    finally:
        inside.close()

    assert len(inside.rows("out")) + len(inside.rows("refused")) == TRANSFERS
    assert moved.keys() | refused.keys() == {number.encode() for number, _ in sent}
    assert moved.keys().isdisjoint(refused.keys())
    net = dict.fromkeys((f"a{n}" for n in range(ACCOUNTS)), FIRST_BALANCE)
    seen: dict[str, set[int]] = {account: {FIRST_BALANCE} for account in net}
    for number, transfer in sent:
        if number.encode() in moved:
            source, target, amount = transfer.split()
            net[source] -= int(amount)
            net[target] += int(amount)
            told = (moved[number.encode()] or b"").decode().split()
            seen[source].add(int(told[1]))
            seen[target].add(int(told[3]))
    assert min(net.values()) >= 0
    assert sum(net.values()) == FIRST_BALANCE * ACCOUNTS
    assert all(net[account] in seen[account] for account in net)
    assert min(map(min, seen.values())) >= 0
