"""Send each order where it belongs: filter, split into branches, merge, choose a topic by value.

    mustela broker start
    mustela topics create e02_route:app
    mustela topics create orders-de && mustela topics create orders-fr
    mustela run e02_route:app

and in a second terminal:

    mustela send incoming-orders o-1 '{"country": "de", "total": 30}'
    mustela send incoming-orders o-2 '{"country": "fr", "total": 20000}'
    mustela tail orders-de --from-beginning
    mustela tail to-review --from-beginning

No step here has state, so everything runs where the records are read, in parallel, and the
order of a partition stays. ``mustela topics create`` cannot know topics that a function chooses:
create those by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustela import App, StreamsBuilder

REVIEW_FROM = 10_000

app = App("route")


@dataclass(frozen=True)
class Order:
    country: str
    total: int


def is_real(_id: str, order: Order) -> bool:
    """Leave out orders of nothing."""
    return order.total > 0


def is_large(_id: str, order: Order) -> bool:
    return order.total >= REVIEW_FROM


def is_unknown(_id: str, order: Order) -> bool:
    return order.country not in {"de", "fr"}


def topic_of(_id: str, order: Order, _place: object) -> str:
    """Choose the topic of a country."""
    return f"orders-{order.country}"


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.stream("incoming-orders", key=str, value=Order).filter(is_real, name="real")
    branches = (
        orders.split(name="kind")
        .branch(is_large, name="large")
        .branch(is_unknown, name="unknown")
        .default_branch(name="usual")
    )
    review = branches["large"].merge(branches["unknown"], name="review")
    review.to("to-review", value=Order)
    branches["usual"].to(topic_of, value=Order, name="by-country")


if __name__ == "__main__":
    app.run()
