"""Complete each order with its customer and its shop: a table by the same key, and a global table.

    mustela broker start
    mustela topics create e06_orders_with_names:app
    mustela run e06_orders_with_names:app

and in a second terminal:

    mustela send customer-names c-1 Ann
    mustela send shops s-7 Ulm
    mustela send placed-orders c-1 '{"shop": "s-7", "total": 30}'
    mustela tail complete-orders --from-beginning

The table of customers is spread over the lanes by its key, which is the key of the orders too.
Every worker has all of the global table of shops, so an order finds its shop by a field, and
nothing travels. The topics may have different numbers of partitions. An order of an unknown
customer goes on without a name; one of an unknown shop is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mustela import App, StreamsBuilder

app = App("orders-with-names")


@dataclass(frozen=True)
class Order:
    shop: str
    total: int


@dataclass(frozen=True)
class CompleteOrder:
    total: int
    town: str
    customer: str | None = None


def in_town(order: Order, town: str) -> CompleteOrder:
    return CompleteOrder(order.total, town)


def of_customer(order: CompleteOrder, name: str | None) -> CompleteOrder:
    return replace(order, customer=name)


def shop_of(order: Order) -> str:
    return order.shop


@app.topology
def build(builder: StreamsBuilder) -> None:
    customers = builder.table("customer-names", key=str, value=str, store="customer-names")
    shops = builder.global_table("shops", key=str, value=str)
    orders = builder.stream("placed-orders", key=str, value=Order)
    placed = orders.join(shops, in_town, foreign_key=shop_of, value=CompleteOrder, name="placed")
    complete = placed.left_join(customers, of_customer, value=CompleteOrder, name="complete")
    complete.to("complete-orders")


if __name__ == "__main__":
    app.run()
