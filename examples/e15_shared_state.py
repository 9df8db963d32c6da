"""Win points in games and pay with them in a shop: one store, changed from any lane.

    mustela broker start
    mustela topics create e15_shared_state:app
    mustela run e15_shared_state:app

and in a second terminal:

    mustela send players ann Ann
    mustela send games g-1 '["ann"]'
    mustela send purchases o-1 '{"by": "ann", "price": 2}'
    mustela tail sold --from-beginning

A game names its players and an order its buyer, so neither is in the lane of the player whose
points it changes. The changes travel there, and are made in the order of games and orders, each
exactly once: a player who wins and then buys pays with what was won, and nobody spends a point
twice. The reply comes back under the order's key. Who is a player is read as of the end of the
previous epoch.
"""

from __future__ import annotations

from typing import TypedDict

from mustela import App, Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.stores import Updated

WON = 3

app = App("shared-state")


class Order(TypedDict):
    """Who buys, and for how many points."""

    by: str
    price: int


def add(points: int | None, more: int) -> int:
    """Give points to a player."""
    return (points or 0) + more


def spend(points: int | None, price: int) -> int:
    """Take points from a player, if there are enough."""
    has = points or 0
    return has - price if has >= price else has


class Win(ContextualProcessor[str, list[str], str, str]):
    """Gives points to the players of a game."""

    def process(self, record: Record[str, list[str]]) -> None:
        for player in record.value:
            self.context.update("points", player, add, WON)


class Buy(ContextualProcessor[str, Order, str, str]):
    """Pays an order with the buyer's points."""

    def process(self, record: Record[str, Order]) -> None:
        buyer, price = record.value["by"], record.value["price"]
        if self.context.any_key_store("players").get(buyer) is None:
            self.context.forward(record.with_value(f"{buyer} is no player"))
            return
        self.context.update("points", buyer, spend, price, reply_to="paid", reply_key=record.key)


def told(change: Updated[str, int]) -> str:
    """Say how an order ended."""
    if change.new == (change.old or 0):
        return f"{change.key} has only {change.new}"
    return f"{change.key} has {change.new} left"


@app.topology
def build(builder: StreamsBuilder) -> None:
    points = Stores.persistent_key_value_store("points")
    builder.add_state_store(Stores.key_value_store_builder(points, key=str, value=int))
    builder.table("players", key=str, value=str, store="players")
    builder.stream("games", key=str, value=list[str]).process(Win, updates=["points"], name="win")
    orders = builder.stream("purchases", key=str, value=Order)
    bought = orders.process(
        Buy, reads=["players"], updates=["points"], replies=["paid"], name="buy"
    )
    bought.to("sold", key=str, value=str, name="unknown")
    bought.reply("paid").map_values(told, name="told").to("sold", value=str, name="paid")


if __name__ == "__main__":
    app.run()
