"""Orders meet their customers; an order whose customer is not known yet waits ten seconds.

    mustela broker start
    mustela topics create e13_delayed_enrich:app
    mustela run e13_delayed_enrich:app

and in a second terminal:

    mustela send orders o-1 '{"customer_id": "c-1", "total": 30}'
    mustela send customers c-1 '{"name": "Ann"}'
    mustela tail enriched-orders --from-beginning

The order comes out ten seconds later, with Ann's name; without the customer it comes out without.

An order knows its customer by a foreign key, so the customer may belong to any lane:
``any_key_store`` reads it there, as it was at the end of the epoch before. If it is not there,
the order is put aside, with a timer. The timer fires in the lane of the order, where it reads and
writes the same stores, and forwards the order with its customer or without. Stash and timer are
committed with the epoch: a crash neither loses an order nor sends it twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustela import App, Processor, ProcessorContext, Record, Stores, StreamsBuilder
from mustela.processors import Timer

RETRY_MS = 10_000

app = App("delayed-enrich")


@dataclass(frozen=True)
class Order:
    customer_id: str
    total: int


@dataclass(frozen=True)
class Customer:
    name: str


@dataclass(frozen=True)
class EnrichedOrder:
    customer_id: str
    total: int
    customer: str | None


def enrich(order: Order, customer: Customer) -> EnrichedOrder:
    return EnrichedOrder(order.customer_id, order.total, customer.name)


def fallback(order: Order) -> EnrichedOrder:
    return EnrichedOrder(order.customer_id, order.total, None)


class DelayedEnrich(Processor[str, Order, str, EnrichedOrder]):
    def init(self, context: ProcessorContext[str, EnrichedOrder]) -> None:
        self.context = context
        self.pending = context.state_store("pending")
        self.customers = context.any_key_store("customers")

    def process(self, record: Record[str, Order]) -> None:
        found = self.customers.get(record.value.customer_id)
        if found is not None:
            self.context.forward(record.with_value(enrich(record.value, found.value)))
            return
        # Not known yet: stash the order and try again ten seconds later.
        self.pending.put(record.key, record.value)
        now = self.context.current_processing_time()
        self.context.register_processing_time_timer(now + RETRY_MS, key=record.key)

    def on_timer(self, timer: Timer[str], context: ProcessorContext[str, EnrichedOrder]) -> None:
        order = self.pending.delete(timer.key)
        found = self.customers.get(order.customer_id)
        enriched = enrich(order, found.value) if found is not None else fallback(order)
        context.forward(timer.with_value(enriched))


@app.topology
def build(builder: StreamsBuilder) -> None:
    pending = Stores.persistent_key_value_store("pending")
    builder.add_state_store(Stores.key_value_store_builder(pending, key=str, value=Order))
    builder.table("customers", key=str, value=Customer, store="customers")
    orders = builder.stream("orders", key=str, value=Order)
    enriched = orders.process(
        DelayedEnrich, stores=["pending"], reads=["customers"], name="delayed-enrich"
    )
    enriched.to("enriched-orders", key=str, value=EnrichedOrder)


if __name__ == "__main__":
    app.run()
