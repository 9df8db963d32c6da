"""Reserve all articles of an order or none, and give them back: stock never goes below zero.

    mustela broker start
    mustela topics create e17_inventory:app
    mustela run e17_inventory:app

and in a second terminal:

    mustela send inventory d-1 '{"kind": "deliver", "pieces": {"tea": 5, "cup": 1}}'
    mustela send inventory o-1 '{"kind": "reserve", "pieces": {"tea": 2, "cup": 1}}'
    mustela send inventory o-2 '{"kind": "reserve", "pieces": {"tea": 2, "cup": 1}}'
    mustela send inventory o-1 '{"kind": "release", "pieces": {"tea": 2, "cup": 1}}'
    mustela tail stock --from-beginning
    mustela tail refused --from-beginning

An order takes several articles, each of which may belong to another lane. ``transact`` is told
which keys an order touches, and runs one function over all of them: orders that share an article
one after the other, all others in parallel, without locks. What was reserved is kept by order, so
an order is reserved once and released once, however often its sender repeats itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustela import App, Stores, StreamsBuilder
from mustela.stores import Refusal, StoreBuilder, Transaction

app = App("inventory")


@dataclass(frozen=True)
class Change:
    """What is delivered, reserved or released, by the number of a delivery or of an order."""

    kind: str
    pieces: dict[str, int]


def touched(id: str, change: Change) -> dict[str, list[str]]:
    return {"stock": list(change.pieces), "reservations": [id]}


def apply(id: str, change: Change, tx: Transaction) -> None:
    """Do all that a change says, or refuse it with the reason and without effect."""
    if not change.pieces or min(change.pieces.values()) <= 0:
        tx.abort("no pieces")
    stock, reservations = tx.store("stock"), tx.store("reservations")
    sign = 1
    if change.kind == "reserve":
        if id in reservations:
            tx.abort("reserved already")
        for article, count in change.pieces.items():
            if stock.get(article, 0) < count:
                tx.abort(f"{article}: {stock.get(article, 0)} left")
        reservations.put(id, change.pieces)
        sign = -1
    elif change.kind == "release":
        if reservations.delete(id) != change.pieces:
            tx.abort("not what was reserved")
    elif change.kind != "deliver":
        tx.abort("no such change")
    for article, count in change.pieces.items():
        stock.put(article, stock.get(article, 0) + sign * count)
        tx.forward(article, stock[article])


def why(refusal: Refusal[Change]) -> str:
    return f"{refusal.value.kind}: {refusal.reason}"


def kept(name: str, value: type) -> StoreBuilder:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=str, value=value)


@app.topology
def build(builder: StreamsBuilder) -> None:
    changes = builder.stream("inventory", key=str, value=Change)
    stores = [kept("stock", int), kept("reservations", dict)]
    done = changes.transact(keys=touched, fn=apply, stores=stores, name="apply")
    done.to("stock", key=str, value=int, name="stock-now")
    done.refused().map_values(why, name="why").to("refused", value=str)


if __name__ == "__main__":
    app.run()
