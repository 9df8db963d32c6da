"""Let each order pass once, and report those that come again.

    mustela broker start
    mustela topics create e10_deduplicate:app
    mustela run e10_deduplicate:app

and in a second terminal:

    mustela send repeated-orders o-1 tea
    mustela send repeated-orders o-1 tea
    mustela tail new-orders --from-beginning
    mustela tail repeats --value int --from-beginning

A processor remembers the orders it has seen in a store of its own. New orders go on, and a second
processor, which shares the store, adds a remark; repeated ones leave by a side output. Where a time
span is enough, `e11_presence` shows ``distinct``.
"""

from __future__ import annotations

from mustela import App, Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor, SideOutput
from mustela.stores import StoreBuilder

app = App("deduplicate")


def seen_store() -> StoreBuilder:
    return Stores.key_value_store_builder(
        Stores.persistent_key_value_store("seen"), key=str, value=int
    )


class Deduplicate(ContextualProcessor[str, str, str, str]):
    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [seen_store()]

    def process(self, record: Record[str, str]) -> None:
        seen = self.context.state_store("seen")
        times = seen.get(record.key, 0) + 1
        seen.put(record.key, times)
        if times == 1:
            self.context.forward(record)
        else:
            self.context.output("again", record.with_value(times))


class Remark(ContextualProcessor[str, str, str, str]):
    """Sees each order as the first processor left it, before that has seen the next one."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [seen_store()]

    def process(self, record: Record[str, str]) -> None:
        times = self.context.state_store("seen").get(record.key)
        self.context.forward(record.with_value(f"{record.value}, seen {times} time"))


@app.topology
def build(builder: StreamsBuilder) -> None:
    orders = builder.stream("repeated-orders", key=str, value=str)
    fresh = orders.process(Deduplicate, name="fresh", outputs={"again": SideOutput(value=int)})
    fresh.process(Remark, name="remark").to("new-orders", key=str, value=str)
    fresh.output("again").to("repeats")


if __name__ == "__main__":
    app.run()
