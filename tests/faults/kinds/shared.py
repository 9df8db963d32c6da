"""Records that touch several keys: transactions over accounts, and reads and changes of any key."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial

from mustela import Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.stores import Refusal, Transaction, Updated
from tests.faults.kinds.counting import add_link
from tests.faults.kinds.kind import Expected, Kind, Merged, Rows, Sent, text
from tests.faults.watch import Row

FIRST_BALANCE = 100


def two_accounts(_id: str, transfer: str) -> list[str]:
    """Return the accounts of a transfer."""
    return transfer.split()[:2]


def move_money(_id: str, transfer: str, tx: Transaction) -> str:
    """Move money; return what both accounts have then."""
    source, target, amount = transfer.split()
    accounts = tx.store("accounts")
    balance = accounts.get(source, FIRST_BALANCE)
    if balance < int(amount):
        tx.abort(f"{source} has {balance}")
    accounts.put(source, balance - int(amount))
    accounts.put(target, accounts.get(target, FIRST_BALANCE) + int(amount))
    return f"{source} {accounts[source]} {target} {accounts[target]}"


def reason(refusal: Refusal[str]) -> str:
    """Return why a transfer was refused."""
    return refusal.reason


def transfers(builder: StreamsBuilder, prefix: str) -> None:
    """Move money between accounts, in transactions that share them."""
    accounts = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("accounts"), key=str, value=int
    )
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    moved = stream.transact(keys=two_accounts, fn=move_money, stores=accounts, name="move")
    moved.to(f"{prefix}.out", value=str)
    moved.refused().map_values(reason).to(f"{prefix}.refused", value=str)


ACCOUNTS = 10_000


def transfer(rng: random.Random, number: int) -> Sent:
    """Make a transfer between two accounts; some accounts are in more transfers than others."""
    source, target = (int(ACCOUNTS * rng.random() ** 2) for _ in range(2))
    return Sent(f"t{number}", f"a{source} a{target} {rng.randrange(1, 101)}")


def moved(accounts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the accounts that have another balance than at first; nobody's money is lost."""
    found = [row for row in accounts if row[1] != FIRST_BALANCE]
    total = sum(balance - FIRST_BALANCE for _, balance in found)
    return [*found, ("sum", total)]


class TransfersModel:
    """Transfers one after the other, in the merged order of their partitions."""

    def __init__(self) -> None:
        self.accounts: dict[str, int] = defaultdict(lambda: FIRST_BALANCE)
        self._merged = Merged()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        expected: Expected = {"out": Counter(), "refused": Counter()}
        for row in self._merged.order(rows):
            source, target, told = text(row.value).split()
            balance, amount = self.accounts[source], int(told)
            if balance < amount:
                expected["refused"][row.key, f"{source} has {balance}".encode()] += 1
                continue
            self.accounts[source] = balance - amount
            self.accounts[target] += amount
            now = f"{source} {self.accounts[source]} {target} {self.accounts[target]}"
            expected["out"][row.key, now.encode()] += 1
        assert min(self.accounts.values(), default=0) >= 0
        assert sum(self.accounts.values()) == FIRST_BALANCE * len(self.accounts)
        return expected


class Linking(ContextualProcessor[str, str, str, str]):
    """Tells how the chains of two names were an epoch ago, and adds a link to both."""

    def process(self, record: Record[str, str]) -> None:
        """Read both, then send both changes."""
        names = record.value.split()
        before = self.context.any_key_store("chains").get_many(names)
        self.context.forward(record.with_value(" ".join(chain or "none" for chain in before)))
        for name in names:
            self.context.update(
                "chains", name, add_link, record.key, reply_to="linked", reply_key=record.key
            )


def told(change: Updated[str, str]) -> str:
    """Return what became of a chain."""
    return f"{change.key} {change.old} {change.new}"


def shared(builder: StreamsBuilder, prefix: str) -> None:
    """Read other lanes' keys and have them changed, from a processor with a store and one without.

    Which of the two is told by the record's key.
    """
    chains = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("chains"), key=str, value=str
    )
    own = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("own"), key=str, value=str
    )
    stream = builder.add_state_store(chains).stream(f"{prefix}.in", key=str, value=str)
    halves = (("free", "even", ()), ("kept", "odd", (own,)))
    for name, half, stores in halves:
        mine = stream.filter(partial(is_half, half), name=f"only-{half}")
        step = mine.process(
            Linking, stores=stores, updates=["chains"], replies=["linked"], name=name
        )
        step.to(f"{prefix}.out", key=str, value=str, name=f"{name}-out")
        linked = step.reply("linked").map_values(told, name=f"{name}-told")
        linked.to(f"{prefix}.linked", key=str, value=str, name=f"{name}-linked")


def is_half(half: str, key: str, _value: str) -> bool:
    """Tell which half a record belongs to."""
    return (int(key[1:]) % 2 == 0) == (half == "even")


NAMES = 300


def two_names(rng: random.Random, number: int) -> Sent:
    """Make a numbered record that names two of some names, the first ones more often."""
    first, second = (int(NAMES * rng.random() ** 2) for _ in range(2))
    return Sent(f"r{number}", f"n{first} n{second}")


class SharedModel:
    """Chains that are changed one after the other, and read as they were before the epoch."""

    def __init__(self) -> None:
        self.chains: dict[str, str] = {}
        self._merged = Merged()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        expected: Expected = {"out": Counter(), "linked": Counter()}
        before = dict(self.chains)
        for row in self._merged.order(rows):
            names = text(row.value).split()
            expected["out"][row.key, " ".join(before.get(n, "none") for n in names).encode()] += 1
            for name in names:
                old = self.chains.get(name)
                new = self.chains[name] = add_link(old, text(row.key))
                expected["linked"][row.key, f"{name} {old} {new}".encode()] += 1
        return expected


KINDS = {
    "transfers": Kind(
        build=transfers,
        make=transfer,
        model=TransfersModel,
        outputs=("out", "refused"),
        read=lambda snapshot: moved(snapshot.store("accounts").items()),
        state=lambda model: moved(model.accounts.items()),
    ),
    "shared": Kind(build=shared, make=two_names, model=SharedModel, outputs=("out", "linked")),
}
