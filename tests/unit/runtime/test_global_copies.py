"""Global tables for readers: opened when somebody asks, each as of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mustela import App, Consumed, Stores, StreamsBuilder
from mustela.clock import SystemClock
from mustela.plan.epoch import GlobalMark
from mustela.plan.ranges import RawChunk
from mustela.processors import ContextualProcessor, Record
from mustela.queries.errors import StateUnavailableError
from mustela.queries.queries import Queries
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.events import AppState
from mustela.runtime.reading import Published
from mustela.runtime.replica import global_copies
from mustela.runtime.replica.global_copies import GlobalCopies
from mustela.spark import global_tables
from mustela.spark.global_reading import GlobalReading
from tests.unit.runtime.test_reading import Here

ROWS: list[bytes | None] = [b"a", b"b", b"c"]


class Shout(ContextualProcessor):
    """Writes a global store."""

    def process(self, record: Record) -> None:
        """Keep the value in capitals."""
        self.context.state_store("shouts").put(record.key, record.value.upper())


class Broker:
    """What is asked of the topics."""

    def __init__(self, *_: object) -> None:
        """Connect to nothing."""

    def describe(self, topics: Any) -> dict[str, None]:
        return dict.fromkeys(topics)

    def configs(self, topics: Any) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}

    def cluster_id(self) -> str:
        return "cluster"

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    def chunks(_: Any, _topic: str, _at: int, start: int, end: int, **__: Any) -> Any:
        rows = ROWS[start:end]
        return iter([RawChunk(list(range(start, end)), rows, rows, [1] * len(rows))])

    monkeypatch.setattr(global_copies, "KafkaAdmin", Broker)
    monkeypatch.setattr(global_tables, "read_chunks", chunks)
    made = App("app", state_dir=str(tmp_path))

    @made.topology
    def build(builder: StreamsBuilder) -> None:
        builder.global_table("prices", key=str, value=str, store="prices")
        supplier = Stores.persistent_key_value_store("shouts")
        store = Stores.key_value_store_builder(supplier, key=str, value=str)
        builder.add_global_store(store, "said", Shout, consumed=Consumed(key=str, value=str))
        builder.stream("in", key=str, value=str).group_by_key().count(store="counts")

    return made


@pytest.fixture
def published(app: App) -> Iterator[Published]:
    made = Published(SystemClock(), lambda: AppState.RUNNING, lambda: None)
    made.tables = GlobalCopies(lambda: app.settings)
    yield made
    made.end()


def commit(published: Published, app: App, epoch: int, end: int | None) -> None:
    """Publish an epoch that had read the topics up to an offset."""
    topics = () if end is None else ("prices", "said")
    marks: dict[str, GlobalMark] = {topic: GlobalMark("id", (end or 0,)) for topic in topics}
    state = CommittedState(
        plan=app.built_plan(), key_groups=2, lanes=1, epoch=epoch, global_marks=marks
    )
    engine: Any = Here(state)
    published.publish(state, engine)


def test_tables_are_read_as_of_the_newest_epoch_and_stay_in_a_snapshot(
    app: App, published: Published
) -> None:
    """Those that a processor writes too; what no epoch has read is empty."""
    plan = app.built_plan()
    app.built_plan = lambda: plan  # type: ignore[method-assign]
    with closing(Queries(published)) as queries:
        commit(published, app, 1, None)
        assert [info.name for info in queries.stores()] == ["counts", "prices", "shouts"]
        assert list(queries.store("prices")) == []
        commit(published, app, 2, 2)
        assert dict(queries.store("prices").items()) == {"a": "a", "b": "b"}
        assert dict(queries.store("shouts").items()) == {"a": "A", "b": "B"}
        with queries.snapshot() as snapshot:
            commit(published, app, 3, 3)
            assert len(queries.store("prices")) == len(queries.store("shouts")) == 3
            assert len(snapshot.store("prices")) == len(snapshot.store("shouts")) == 2


def test_readers_of_two_releases_do_not_meet_in_one_file(
    app: App, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One closes the other's copies between two of its steps; both get their rows."""
    old, new = app.built_plan(), app.built_plan()
    copies, mark = published.tables, {"prices": GlobalMark("id", (2,))}
    assert copies is not None
    opens: Any = GlobalReading.open
    turns = iter([True])

    def interrupted(self: GlobalReading, *given: Any) -> Any:
        if next(turns, False):
            copies.open(new, -1, mark, 1).close()
        return opens(self, *given)

    monkeypatch.setattr(GlobalReading, "open", interrupted)
    view = copies.open(old, -1, mark, 1)
    assert len(list(view.range("prices", None, None))) == 2
    view.close()


def test_a_snapshot_that_comes_too_late_to_a_table_says_so(app: App, published: Published) -> None:
    """Before anybody asked, snapshots do not open it; the fix of the error helps."""
    plan = app.built_plan()
    app.built_plan = lambda: plan  # type: ignore[method-assign]
    with closing(Queries(published)) as queries:
        commit(published, app, 2, 2)
        with queries.snapshot() as snapshot:
            commit(published, app, 3, 3)
            assert queries.store("prices")["c"] == "c"
            with pytest.raises(StateUnavailableError, match="open another snapshot"):
                snapshot.store("prices").get("a")
        with queries.snapshot() as snapshot:
            assert snapshot.store("prices").get("c") == "c"
