"""Move money between accounts: all of it or nothing, whichever lanes the accounts are in.

    mustela broker start
    mustela topics create e16_transfer:app
    mustela run e16_transfer:app

and in a second terminal:

    mustela send transfers t-1 '{"source": "bank", "target": "ann", "amount": 100}'
    mustela send transfers t-2 '{"source": "ann", "target": "bob", "amount": 130}'
    mustela tail receipts --from-beginning
    mustela tail refusals --from-beginning

A transfer declares its two accounts. Transfers that share an account run one after the other, in
the order of their records; all others run in parallel. No account but the bank's goes below zero,
a daily limit holds, and no money is lost or made, whatever is killed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustela import App, Stores, StreamsBuilder
from mustela.stores import Refusal, Transaction

DAILY_LIMIT = 1_000

app = App("transfer")


@dataclass(frozen=True)
class Transfer:
    source: str
    target: str
    amount: int
    day: str = "today"


@dataclass(frozen=True)
class Receipt:
    account: str
    balance: int


@dataclass(frozen=True)
class Rejection:
    transfer: Transfer
    reason: str


def touched(_id: str, transfer: Transfer) -> dict[str, list[str]]:
    return {
        "balances": [transfer.source, transfer.target],
        "spent": [f"{transfer.source}/{transfer.day}"],
    }


def move(id: str, transfer: Transfer, tx: Transaction) -> None:
    balances, spent = tx.store("balances"), tx.store("spent")
    source, amount = transfer.source, transfer.amount
    if amount <= 0 or source == transfer.target:
        tx.abort("no transfer at all")
    if source != "bank":
        if balances.get(source, 0) < amount:
            tx.abort(f"{source} has {balances.get(source, 0)}")
        today = f"{source}/{transfer.day}"
        if spent.get(today, 0) + amount > DAILY_LIMIT:
            tx.abort(f"more than {DAILY_LIMIT} on one day")
        spent.put(today, spent.get(today, 0) + amount)
    balances.put(source, balances.get(source, 0) - amount)
    balances.put(transfer.target, balances.get(transfer.target, 0) + amount)
    for account in (source, transfer.target):
        tx.forward(id, Receipt(account, balances[account]))


def rejection(refusal: Refusal[Transfer]) -> Rejection:
    return Rejection(refusal.value, refusal.reason)


@app.topology
def build(builder: StreamsBuilder) -> None:
    stores = [
        Stores.key_value_store_builder(Stores.persistent_key_value_store(name), key=str, value=int)
        for name in ("balances", "spent")
    ]
    transfers = builder.stream("transfers", key=str, value=Transfer)
    moved = transfers.transact(keys=touched, fn=move, stores=stores, name="move")
    moved.to("receipts", value=Receipt)
    moved.refused().map_values(rejection).to("refusals", value=Rejection)


if __name__ == "__main__":
    app.run()
