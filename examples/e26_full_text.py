"""Find notes by their words: a store of your own, with stems from a library.

    pip install snowballstemmer
    mustela broker start
    mustela topics create e26_full_text:app
    mustela run e26_full_text:app

and in a second terminal:

    mustela send notes shop '{"id": "n1", "text": "Runners run in running shoes"}'
    mustela send notes shop '{"id": "n2", "text": "Shoes for walking"}'
    mustela send searches shop 'shoe walk'
    mustela tail found --from-beginning

`Search` keeps, for each key, a row for each stem of each note: what is written in ``index`` is part
of the epoch's commit, and is restored from the store's changelog. Here the key is the shop, so that
notes and searches of a shop meet in one place.
"""

from __future__ import annotations

from dataclasses import dataclass

import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]

from mustela import App, Record, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.stores import CustomStore, ordered_bytes, query_method

app = App("full-text")


@dataclass(frozen=True)
class Note:
    id: str
    text: str


class Search(CustomStore):
    """Texts by the stems of their words: ``w``, a stem and an id; and ``t`` and an id, the text."""

    language: str = "english"

    def put(self, key: str, name: str, text: str) -> None:
        rows, place = self.rows(key), b"t" + name.encode()
        before = (rows.get(place) or b"").decode()
        gone = {stem + name.encode(): None for stem in self._stems(before)}
        fresh = {stem + name.encode(): b"" for stem in self._stems(text)}
        rows.put_many({**gone, **fresh, place: text.encode()})

    @query_method
    def find(self, key: str, words: str) -> list[str]:
        """Return the ids of the texts that have all of the words."""
        rows = self.rows(key)
        found = [
            {row[len(stem) :].decode() for row, _ in rows.prefix(stem)}
            for stem in self._stems(words)
        ]
        return sorted(set.intersection(*found)) if found else []

    def _stems(self, text: str) -> set[bytes]:
        stemmer = snowballstemmer.stemmer(self.language)
        words = "".join(one if one.isalnum() else " " for one in text.lower()).split()
        return {b"w" + ordered_bytes(stem) for stem in stemmer.stemWords(words)}


search = Search().builder("search", key=str)


class Keep(ContextualProcessor[str, Note, str, str]):
    def process(self, record: Record[str, Note]) -> None:
        store: Search = self.context.state_store("search")
        store.put(record.key, record.value.id, record.value.text)


class Find(ContextualProcessor[str, str, str, list[str]]):
    def process(self, record: Record[str, str]) -> None:
        store: Search = self.context.state_store("search")
        self.context.forward(record.with_value(store.find(record.key, record.value)))


@app.topology
def build(builder: StreamsBuilder) -> None:
    notes = builder.stream("notes", key=str, value=Note)
    notes.process(Keep, stores=[search], name="keep")
    searches = builder.stream("searches", key=str, value=str)
    found = searches.process(Find, stores=["search"], name="find")
    found.to("found", key=str, value=list[str])
