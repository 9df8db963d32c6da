"""Stores of one's own shape: Mustela's three against models, and what a subclass may do."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.api.custom_stores import StoreQueries, query_methods
from mustela.api.errors import BadOptionError
from mustela.processors import ContextualProcessor
from mustela.state.faults import StoreError
from mustela.stores import CountMin, CustomStore, Intervals, Leaderboard, query_method
from mustela.testing import MockProcessorContext
from mustela.topology.meaning_changes import compare_meanings
from mustela.topology.store_meaning import store_meaning

KEYS = st.sampled_from(["", "a", "ab", "b"])


def opened(store: CustomStore) -> Any:
    """Return a store with rows in memory."""
    return MockProcessorContext().add_state_store(store.builder("store", key=str))


SCORES = st.integers(0, 6) | st.floats(0, 3)
MOVES = st.tuples(st.sampled_from(["set", "remove"]), KEYS, st.integers(0, 40), SCORES)


@given(st.lists(MOVES, max_size=120))
def test_a_leaderboard_ranks_as_a_sorted_list_does(
    moves: list[tuple[str, str, int, float]],
) -> None:
    """Sets, moves and removals on several boards; each rank, each page, each size."""
    board: Any = opened(Leaderboard())
    model: dict[str, dict[int, float]] = {}
    for what, key, member, score in moves:
        if what == "set":
            board.set(key, member, score)
            model.setdefault(key, {})[member] = score
        else:
            board.remove(key, member)
            model.get(key, {}).pop(member, None)
    for key in ("", "a", "ab", "b"):
        scores = model.get(key, {})
        best = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
        assert board.size(key) == len(best)
        assert board.rank(key, 99) is None
        for rank, (member, score) in enumerate(best, start=1):
            assert (board.rank(key, member), board.score(key, member)) == (rank, score)
            assert board.page(key, rank, 2) == [
                (rank + step, *one) for step, one in enumerate(best[rank - 1 : rank + 1])
            ]
        assert board.page(key, len(best) + 1, 5) == []


def test_a_large_board_reads_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank among 5,000, and a page from the middle on, take less than 300."""
    board: Any = opened(Leaderboard())
    for member in range(5_000):
        board.set("all", member, member * 7919 % 5_000)
    read: list[bytes] = []
    rows = board.rows("all")
    view = rows._view
    ranged = type(view).range

    def counted(self: Any, *bounds: Any, **options: Any) -> Any:
        for row in ranged(self, *bounds, **options):
            read.append(row[0])
            yield row

    monkeypatch.setattr(type(view), "range", counted)
    assert board.rank("all", 1) == 5_000 - 2919
    assert len(read) < 300
    read.clear()
    assert [one.score for one in board.page("all", 4_001, 3)] == [999, 998, 997]
    assert len(read) < 300
    assert board.size("all") == 5_000


SPANS = st.tuples(st.integers(-40, 40), st.integers(1, 40)).map(lambda one: (one[0], sum(one)))


@given(
    st.lists(st.tuples(KEYS, SPANS, st.integers(0, 3) | st.none()), max_size=40),
    st.lists(SPANS, max_size=5),
)
def test_intervals_overlap_as_in_a_list(
    puts: list[tuple[str, tuple[int, int], int | None]], asked: list[tuple[int, int]]
) -> None:
    """Stored, replaced, deleted; at points and over spans, ordered by start and end."""
    store: Any = opened(Intervals())
    model: dict[tuple[str, tuple[int, int]], int] = {}
    for key, span, value in puts:
        store.put(key, *span, value)
        if value is None:
            model.pop((key, span), None)
        else:
            model[key, span] = value
    for key in ("", "a", "ab", "b"):
        mine = sorted((*span, value) for (of, span), value in model.items() if of == key)
        for low, high in asked:
            found = [tuple(one) for one in store.overlapping(key, low, high)]
            assert found == [one for one in mine if one[0] < high and one[1] > low]
            at = [tuple(one) for one in store.at(key, low)]
            assert at == [one for one in mine if one[0] <= low < one[1]]
        assert all(store.get(key, low, high) == value for low, high, value in mine)


def test_intervals_of_moments_and_what_is_none() -> None:
    """A datetime comes back as one, in UTC; two types or no length are refused."""
    store: Any = opened(Intervals())
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    store.put("room", noon, noon + timedelta(hours=2), "Ann")
    store.put("room", 12, 14, "numbers are kept apart")
    assert store.at("room", noon + timedelta(hours=1)) == [(noon, noon + timedelta(hours=2), "Ann")]
    assert store.at("room", noon + timedelta(hours=2)) == []
    for low, high in [(3, 3), (3, 2), (3, noon), ("a", "b"), (noon.replace(tzinfo=None), noon)]:
        with pytest.raises(StoreError):
            store.put("room", low, high, "x")


@given(st.lists(st.tuples(KEYS, st.integers(0, 30), st.integers(0, 5)), max_size=60))
def test_a_count_min_never_counts_too_little(adds: list[tuple[str, int, int]]) -> None:
    """And all but exactly while it has room."""
    store: Any = opened(CountMin(width=5_000))
    narrow: Any = opened(CountMin(width=3, depth=2))
    counts: Counter[tuple[str, int]] = Counter()
    for key, item, count in adds:
        store.add(key, item, count)
        narrow.add(key, item, count)
        counts[key, item] += count
    for key in ("", "a", "ab", "b"):
        total = sum(count for (of, _), count in counts.items() if of == key)
        assert store.total(key) == narrow.total(key) == total
        for item in range(31):
            assert counts[key, item] <= narrow.estimate(key, item) <= total
            assert store.estimate(key, item) == counts[key, item]


class Drawer(CustomStore):
    """What lies in a drawer, with a bottom."""

    depth: int = 3
    names: tuple[str, ...] = ()

    def lay(self, key: str, thing: str) -> None:
        """Put a thing into it."""
        rows = self.rows(key)
        rows.put_many({thing.encode(): b"", b"z": None})
        if len(list(rows.range())) > self.depth:
            rows.clear()

    @query_method
    def things(self, key: str) -> list[str]:
        """Return what is in it."""
        return [row.decode() for row, _ in self.rows(key).range()]

    @query_method
    def tidy(self, key: str) -> int:
        """Return how many things were in it, and take them out, which a query must not do."""
        count = len(self.things(key))
        self.rows(key).clear()
        return count


def meaning(store: CustomStore) -> Any:
    """Return what the epoch record keeps of a store."""
    spec = store.builder("drawer", key=str).spec()
    return store_meaning(spec, owner="fill", operation="process")


def test_class_parameters_and_version_are_what_rows_mean() -> None:
    """Each of them changed is a change of the rows; a class that was renamed may say so."""
    then = meaning(Drawer())
    assert (then.kind, then.layout) == ("custom.Drawer", "custom.Drawer 1, depth 3, names ()")

    class Next(Drawer):
        format_version = 2

    class Renamed(Drawer):
        kind_name = "Drawer"

    class Other(CustomStore):
        depth: int = 3

    def changed(now: CustomStore) -> list[tuple[str, bool]]:
        return [(one.field, one.compatible) for one in compare_meanings(then, meaning(now))]

    assert changed(Renamed()) == []
    assert changed(Drawer(depth=4)) == [("layout", False)]
    Next.kind_name = "Drawer"
    assert changed(Next()) == [("layout", False)]
    assert changed(Other()) == [("kind", False)]


def test_what_only_describes_a_store_has_no_rows() -> None:
    """And a store keeps nothing beside its rows, which would not be committed."""
    drawer = Drawer(depth=9)
    with pytest.raises(StoreError, match="is a description"):
        drawer.lay("a", "pen")
    with pytest.raises(AttributeError, match="cannot assign"):
        drawer.depth = 4  # type: ignore[misc]
    with pytest.raises(BadOptionError, match="cannot have the parameter names=<function"):
        Drawer(names=lambda: 1).builder("drawer")  # type: ignore[arg-type]


def test_readers_ask_by_query_methods_and_cannot_write() -> None:
    """Other methods are not there for them; one that writes is refused."""
    drawer: Any = opened(Drawer())
    drawer.lay("a", "pen")
    handle = drawer._opened.spec.traits.reader(drawer._opened.groups, drawer._opened.spec)
    assert isinstance(handle, StoreQueries)
    assert handle.things("a") == ["pen"]
    assert dir(handle) == ["things", "tidy"]
    with pytest.raises(AttributeError, match=r"cannot be asked for 'lay'; .*: things, tidy"):
        handle.lay("a", "cup")
    with pytest.raises(StoreError, match="can only be read here"):
        handle.tidy("a")
    (things, _) = query_methods(Drawer)
    assert (things.parameters, things.returns) == ({"key": "str"}, "list[str]")
    assert things.doc == "Return what is in it."


def test_a_query_method_has_types() -> None:
    """Because requests are text."""
    with pytest.raises(BadOptionError, match="parameter 'key' has no type"):
        query_method(lambda self, key: key)

    def untold(self: Any, key: str):  # type: ignore[no-untyped-def]
        return key + str(self)

    with pytest.raises(BadOptionError, match="the result has no type"):
        query_method(untold)


class Play(ContextualProcessor[str, int, str, int]):
    """Adds points to a player's score and tells the rank."""

    def process(self, record: Any) -> None:
        board: Leaderboard = self.context.state_store("board")
        board.add("all", record.key, record.value)
        self.context.forward(record.with_value(board.rank("all", record.key)))


def test_records_of_an_epoch_see_each_other() -> None:
    """Ranks are those of the moment, also within one epoch; a lost disk changes nothing."""
    builder = StreamsBuilder()
    played = builder.stream("played", key=str, value=int)
    ranked = played.process(Play, stores=[Leaderboard().builder("board", key=str)], name="play")
    ranked.to("ranks", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=1) as driver:
        topic = driver.create_input_topic("played")
        topic.pipe_key_value_list([("ann", 3), ("bob", 5), ("ann", 4), ("cid", 5)])
        assert driver.create_output_topic("ranks").read_key_values_to_list() == [
            *(("ann", 1), ("bob", 1), ("ann", 1), ("cid", 3))
        ]
        driver.crash(lose_state=True)
        board: Any = driver.get_state_store("board")
        page = board.page("all", 1, 9)
        assert [one.member for one in page] == ["ann", "bob", "cid"]
        assert list(board.keys()) == ["all"]
