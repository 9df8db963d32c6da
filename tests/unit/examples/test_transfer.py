"""The example that moves money."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

program = load("e16_transfer")


def test_money_moves_or_stays() -> None:
    """Both accounts change, or the transfer is refused with the reason."""
    with TopologyTestDriver(program.app) as driver:
        transfer = driver.create_input_topic("transfers")
        transfer.pipe_input("t-1", program.Transfer("bank", "ann", 1_500))
        transfer.pipe_input("t-2", program.Transfer("ann", "bob", 900))
        transfer.pipe_input("t-3", program.Transfer("ann", "bob", 200))
        transfer.pipe_input("t-4", program.Transfer("ann", "bob", 200, "tomorrow"))
        transfer.pipe_input("t-5", program.Transfer("eve", "bob", 1))
        receipts = driver.create_output_topic("receipts").read_key_values_to_list()
        assert [(key, receipt.account, receipt.balance) for key, receipt in receipts] == [
            ("t-1", "bank", -1_500),
            ("t-1", "ann", 1_500),
            ("t-2", "ann", 600),
            ("t-2", "bob", 900),
            ("t-4", "ann", 400),
            ("t-4", "bob", 1_100),
        ]
        refusals = driver.create_output_topic("refusals").read_key_values_to_list()
        assert [(key, refusal.reason) for key, refusal in refusals] == [
            ("t-3", "more than 1000 on one day"),
            ("t-5", "eve has 0"),
        ]


@pytest.mark.parametrize("crashes", [False, True], ids=["plain", "crashes"])
def test_no_money_is_lost_or_made(crashes: bool) -> None:
    """After any number of transfers in any lanes the sum of all accounts is nothing."""
    rng = random.Random(5)
    people = [f"p{n}" for n in range(8)]
    options: dict[str, Any] = {"key_groups": 8, "lanes": 3, "crash_after_every_record": crashes}
    with TopologyTestDriver(program.app, **options) as driver:
        transfer = driver.create_input_topic("transfers")
        for _ in range(10):
            with driver.epoch():
                for number in range(20):
                    source, target = rng.sample(["bank", *people], 2)
                    sent = program.Transfer(source, target, rng.randrange(1, 100))
                    transfer.pipe_input(f"t-{number}", sent)
        balances = dict(driver.get_key_value_store("balances").all())
    assert sum(balances.values()) == 0
    assert min(balance for who, balance in balances.items() if who != "bank") >= 0
    assert balances["bank"] < 0
