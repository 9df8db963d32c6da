"""Find articles by city: an index over a table of documents, and partial updates of them.

    mustela broker start
    mustela topics create e27_inventory_by_city:app
    mustela run e27_inventory_by_city:app

and in a second terminal:

    mustela send article-changes tea '{"place": {"city": "Rome", "shelf": 7}, "pieces": 5}'
    mustela send article-changes cup '{"place": {"city": "Oslo"}, "pieces": 2}'
    mustela send article-changes tea '{"pieces": 3, "place": {"shelf": null}}'
    mustela send cities who Rome
    mustela tail in-city --from-beginning

A record of ``article-changes`` says what changes, as a JSON merge patch (RFC 7396): the rest of the
document stays. The index finds the articles of a city in the state of all lanes, as of the last
epoch; a reader of the application asks it too: ``app.store("articles").by("city").get("Rome")``.
"""

from __future__ import annotations

from mustela import App, Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor

app = App("inventory-by-city")

articles = Stores.key_value_store_builder(
    Stores.persistent_key_value_store("articles"), key=str, value=dict
).with_index(city="place.city", pieces=lambda article: article.get("pieces"))


class Change(ContextualProcessor[str, dict, str, dict]):
    def process(self, record: Record[str, dict]) -> None:
        self.context.state_store("articles").patch(record.key, record.value)


class InCity(ContextualProcessor[str, str, str, list[str]]):
    def process(self, record: Record[str, str]) -> None:
        found = self.context.any_key_store("articles").by("city").get(record.value)
        told = [f"{name}: {article.get('pieces', 0)}" for name, article in found]
        self.context.forward(record.with_value(told))


@app.topology
def build(builder: StreamsBuilder) -> None:
    changes = builder.stream("article-changes", key=str, value=dict)
    changes.process(Change, stores=[articles], name="change")
    asked = builder.stream("cities", key=str, value=str)
    found = asked.process(InCity, reads=["articles"], name="look-up")
    found.to("in-city", key=str, value=list[str])
