"""Indexes of key-value stores, in memory and on LMDB: against a model, restored, and changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela.serdes.primitives import StrSerde
from mustela.serdes.values import ValueSerde
from mustela.state.faults import IndexEntryError, IndexTakenError, StoreError
from mustela.state.index import Index, index_table
from mustela.state.interfaces import Committed, Environment, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay

MONTHS = Index(lambda value: value["born"])
PEOPLE = StoreSpec(
    name="people",
    key_serde=StrSerde(),
    value_serde=ValueSerde(),
    indexes=(("born", MONTHS), ("city", Index("home.city"))),
)
BARE = replace(PEOPLE, indexes=())


def place(spec: StoreSpec) -> EnvironmentSpec:
    """Return the environment of one store."""
    return EnvironmentSpec(application_id="app", stage="s", group=0, groups=1, stores=(spec,))


class Epochs:
    """Runs epochs over an environment, which may be left behind and come back."""

    def __init__(self, path: Path | None, spec: StoreSpec = PEOPLE) -> None:
        self.path = path
        self.memory = MemoryEnvironment(place(spec))
        self.committed = Committed()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.take(spec)

    def take(self, spec: StoreSpec) -> None:
        """Go on with another program."""
        if self.path is not None and hasattr(self, "environment"):
            self.environment.close(clean=True)
        self.spec = spec
        self.environment: Environment = (
            self.memory
            if self.path is None
            else LmdbEnvironment(self.path, place(spec), boot="boot")
        )

    def run(self, work: Callable[[Any], object]) -> None:
        """Run an epoch, and commit it."""
        overlay = Overlay(self.environment.snapshot(self.committed))
        view = overlay.store("people")
        rows = self.spec.traits.rows(view, self.spec)
        work(_opened(rows, self.spec))
        changes = overlay.changes()
        token = Token(1, 1 + (self.committed.token or Token(1, 0, 0)).epoch, 0)
        self.environment.write_pending(token, self.committed, changes, overlay.known())
        overlay.close()
        self.log += overlay.logged(changes).get("people", ())
        self.committed = Committed(token=token, changelog_ends={"people": len(self.log)})

    def read(self, ask: Callable[[Any], Any]) -> Any:
        """Ask the committed state."""
        snapshot = self.environment.snapshot(self.committed)
        overlay = Overlay(snapshot)
        try:
            return ask(
                _opened(self.spec.traits.rows(overlay.store("people"), self.spec), self.spec)
            )
        finally:
            overlay.close()

    def lose(self) -> None:
        """Lose the disk, and restore it from the changelog."""
        self.environment.destroy()
        self.environment.restore("people", self.log, len(self.log))
        self.environment.finish_restore(self.committed)


def _opened(rows: Any, spec: StoreSpec) -> Any:
    from mustela.kernel.processors.processor_stores import open_group_store

    return open_group_store(rows, spec, plain=False)


KEYS = st.sampled_from([f"k{n}" for n in range(12)])
VALUES = st.fixed_dictionaries(
    {"born": st.integers(1, 4) | st.none()},
    optional={"home": st.fixed_dictionaries({"city": st.sampled_from(["Rome", "Oslo", "A"])})},
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["epoch", "lose", "put", "put", "put", "delete"]), KEYS, VALUES),
    max_size=40,
)


def expected(model: dict[str, Any]) -> list[Any]:
    """Return what the two indexes should give."""
    born = sorted((row["born"], key) for key, row in model.items() if row["born"] is not None)
    homes = [(row["home"]["city"], key) for key, row in model.items() if "home" in row]
    return [[key for _, key in born], [key for _, key in sorted(homes)]]


def given_by(store: Any) -> list[Any]:
    """Return what they do give."""
    return [[key for key, _ in store.by(name).range()] for name in ("born", "city")]


@pytest.mark.parametrize("durable", [False, True])
@settings(max_examples=25)
@given(steps=STEPS)
def test_indexes_give_what_a_sorted_list_gives(
    tmp_path_factory: pytest.TempPathFactory, durable: bool, steps: list[Any]
) -> None:
    """Within epochs, after them, and after a restore; forwards, backwards, by entry."""
    epochs = Epochs(tmp_path_factory.mktemp("state") if durable else None)
    model: dict[str, Any] = {}
    left = list(steps)
    while left:
        whole: list[Any] = []
        while left and (step := left.pop(0))[0] != "epoch":
            whole.append(step)

        def work(store: Any, whole: list[Any] = whole) -> None:
            for what, key, value in whole:
                if what == "put":
                    store.put(key, value)
                    model[key] = value
                elif what == "delete":
                    store.delete(key)
                    model.pop(key, None)
                assert given_by(store) == expected(model)
                backwards = [row for row, _ in store.by("born").range(reverse=True)]
                assert backwards == expected(model)[0][::-1]

        epochs.run(work)
        if any(step[0] == "lose" for step in whole):
            epochs.lose()
        assert epochs.read(given_by) == expected(model)
        for city in ("Rome", "A", "no"):
            got = epochs.read(lambda store, city=city: list(store.by("city").get(city)))
            homes = {key for key, row in model.items() if row.get("home") == {"city": city}}
            assert {key for key, _ in got} == homes
            assert all(row.value == model[key] for key, row in got)


def fill(store: Any) -> None:
    """Write some rows."""
    for number, name in enumerate(["ann", "bob", "cid", "dan"]):
        store.put(name, {"born": number % 3, "home": {"city": "Rome"}}, timestamp=7)


def test_an_index_is_added_changed_and_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Made of the rows that are there, when the program starts; named in the log; never stale."""
    epochs = Epochs(tmp_path, BARE)
    epochs.run(fill)
    with caplog.at_level(logging.INFO, "mustela"):
        epochs.take(PEOPLE)
        assert epochs.read(given_by) == [["ann", "dan", "bob", "cid"], ["ann", "bob", "cid", "dan"]]
    assert "built index 'born', 'city' of store 'people' from 4 rows" in caplog.text
    caplog.clear()
    epochs.take(replace(BARE))
    epochs.run(lambda store: store.put("ann", {"born": 9}))  # nobody keeps the lines
    epochs.take(PEOPLE)
    assert epochs.read(given_by) == [["dan", "bob", "cid", "ann"], ["bob", "cid", "dan"]]
    by_name = (("born", Index(lambda value: -value["born"])), PEOPLE.indexes[1])
    epochs.take(replace(PEOPLE, indexes=by_name))
    assert epochs.read(given_by)[0] == ["ann", "cid", "bob", "dan"]
    epochs.run(lambda store: store.put("eve", {"born": 4}))
    assert epochs.read(given_by)[0] == ["ann", "eve", "cid", "bob", "dan"]
    caplog.clear()
    epochs.take(replace(PEOPLE, indexes=by_name))
    epochs.run(lambda store: store.delete("eve"))
    assert epochs.read(given_by)[0] == ["ann", "cid", "bob", "dan"]
    assert "built index" not in caplog.text


def test_a_copy_that_catches_up_has_the_lines_of_what_it_missed(tmp_path: Path) -> None:
    """The rows of a delta move their keys in the index, as those of an epoch do."""
    whole, other = Epochs(None), Epochs(tmp_path)
    whole.run(fill)
    other.environment.restore("people", whole.log, len(whole.log))
    other.environment.finish_restore(whole.committed)
    start = len(whole.log)
    whole.run(lambda store: (store.put("ann", {"born": 2}), store.delete("bob")))
    other.environment.restore("people", whole.log[start:], len(whole.log), start=start)
    other.environment.finish_restore(whole.committed)
    other.committed = whole.committed
    assert other.read(given_by) == whole.read(given_by) == [["dan", "ann", "cid"], ["cid", "dan"]]


def test_lines_are_not_logged_and_not_counted(tmp_path: Path) -> None:
    """The changelog has the rows, the store's size is that of its rows."""
    epochs = Epochs(tmp_path)
    epochs.run(fill)
    assert [key for key, _ in epochs.log] == [b"ann", b"bob", b"cid", b"dan"]
    assert epochs.read(len) == 4
    snapshot = epochs.environment.snapshot(epochs.committed)
    assert snapshot.count(index_table("people")) == 8
    snapshot.close()


def test_a_unique_index_refuses_a_second_key() -> None:
    """Before anything is written; a key may keep its entry, and an entry that was left is free."""
    spec = replace(PEOPLE, indexes=(("born", Index("born", unique=True)),))
    epochs = Epochs(None, spec)
    epochs.run(lambda store: store.put("ann", {"born": 1}))

    def work(store: Any) -> None:
        store.put("bob", {"born": 2})
        for taken in (1, 2):
            with pytest.raises(IndexTakenError, match=f"'cid' for key '{'ab'[taken - 1]}.*already"):
                store.put("cid", {"born": taken})
        assert "cid" not in store
        store.put("ann", {"born": 1, "home": {}})
        store.delete("bob")
        store.put("cid", {"born": 2})
        assert store.by("born").one(2)[0] == "cid"
        assert store.by("born").one(3) is None

    epochs.run(work)


def test_an_index_that_fails_names_the_key() -> None:
    """Before anything is written, and the fix helps."""
    epochs = Epochs(None, replace(PEOPLE, indexes=(("born", MONTHS),)))

    def work(store: Any) -> None:
        with pytest.raises(IndexEntryError, match=r"index 'born' .* key 'ann': KeyError: 'born'"):
            store.put("ann", {})
        with pytest.raises(IndexEntryError, match="has no order"):
            store.put("ann", {"born": [1]})
        assert "ann" not in store
        store.put("ann", {"born": None})
        assert list(store.by("born").range()) == []
        with pytest.raises(StoreError, match=r"no index 'city'[\s\S]*born"):
            store.by("city")

    epochs.run(work)


def test_rows_that_are_written_on_the_way_do_not_vanish() -> None:
    """An iteration is over the rows as they were when it began."""
    epochs = Epochs(None)
    epochs.run(fill)

    def work(store: Any) -> None:
        seen: list[str] = []
        for key, _ in store.by("born").range():
            seen.append(key)
            for name in ("ann", "bob", "cid", "dan"):
                store.put(name, {"born": 8})
        assert seen == ["ann", "dan", "bob", "cid"]
        assert list(store.by("born").keys(8, 8)) == ["ann", "bob", "cid", "dan"]
        assert store.by("born").count(high=7) == 0

    epochs.run(work)


@pytest.mark.parametrize("durable", [False, True])
def test_an_entry_is_taken_once_from_each_value(tmp_path: Path, durable: bool) -> None:
    """Of each value that is put, and of each that it replaces: an index function may be slow."""
    asked: list[int] = []

    def born(value: Any) -> int:
        asked.append(value["born"])
        return value["born"]

    spec = replace(PEOPLE, indexes=(("born", Index(born)),))
    epochs = Epochs(tmp_path if durable else None, spec)
    epochs.run(lambda store: store.put("ann", {"born": 1}))
    assert asked == [1]
    asked.clear()

    def twice(store: Any) -> None:
        store.put("ann", {"born": 2})
        store.put("ann", {"born": 3})

    epochs.run(twice)
    assert sorted(asked) == [1, 2, 3]
    assert epochs.read(lambda store: list(store.by("born").keys())) == ["ann"]
    assert epochs.read(lambda store: store.by("born").count(3, 3)) == 1
