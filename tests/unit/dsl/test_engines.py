"""What a user says of a store's files reaches the store, whatever its kind, and nothing else."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest

from mustela import SessionWindows, Stores, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.api.errors import BadOptionError
from mustela.state.faults import StateLibraryError
from mustela.stores import Engine, Materialized
from mustela.topology.fingerprint import fingerprint

HOUR = timedelta(hours=1)
SMALL = Engine(compression="zstd", page_fill=0.9, map_size=1 << 36)


def program(engine: Engine | None) -> StreamsBuilder:
    """Tables of all kinds."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str).group_by_key()
    clicks.count(materialized=Materialized(store="counts", engine=engine))
    windows = clicks.windowed_by(TimeWindows(size=HOUR, grace=HOUR))
    windows.count(materialized=Materialized(store="windows", engine=engine))
    sessions = clicks.windowed_by(SessionWindows(inactivity_gap=HOUR, grace=HOUR))
    sessions.count(materialized=Materialized(store="sessions", engine=engine))
    versions = Stores.persistent_versioned_key_value_store("versions", HOUR)
    kept = Materialized(supplier=versions, engine=engine)
    builder.table("prices", key=str, value=float, materialized=kept)
    indexed = Materialized(store="indexed", index={"size": len}, engine=engine)
    builder.table("names", key=str, value=str, materialized=indexed)
    return builder


def test_it_reaches_stores_of_all_kinds_and_changes_no_meaning():
    """A later release may say otherwise: the topology has the same fingerprint."""
    topologies = [program(engine).build() for engine in (SMALL, None)]
    specs = {spec.name: spec for node in topologies[0] for spec in node.stores}
    assert {name: spec.engine for name, spec in specs.items()} == dict.fromkeys(
        ["counts", "windows", "sessions", "versions", "indexed"], SMALL
    )
    seen = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("seen"), key=str, value=int
    )
    assert seen.with_engine(SMALL).spec().engine == SMALL
    assert len({fingerprint(topology) for topology in topologies}) == 1
    with TopologyTestDriver(program(SMALL)) as driver:
        driver.create_input_topic("clicks").pipe_input("a", "x")
        assert driver.get_key_value_store("counts")["a"] == 1


@pytest.mark.parametrize(
    ("engine", "fix"),
    [
        (Engine(compression="lz4"), "use one of none, zstd"),  # pyright: ignore[reportArgumentType]
        (Engine(page_fill=1.0), "give a part of a page, from 0 to 0.95: Engine(page_fill=0.9)"),
        (Engine(page_fill=True), "give a part of a page, from 0 to 0.95: Engine(page_fill=0.9)"),
        (Engine(map_size=10), "give a number of bytes, at least a megabyte: Engine(map_size=64"),
        ("zstd", 'pass mustela.stores.Engine(compression="zstd"), or leave out engine='),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_said(engine, fix):
    """With an example of what can be."""
    with pytest.raises(BadOptionError) as caught:
        program(engine)
    assert (caught.value.fix or "").startswith(fix)
    assert "test_engines.py" in str(caught.value)


def test_compression_without_its_library_is_refused_when_the_program_is_built(monkeypatch):
    """Not by a worker, an hour later."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(StateLibraryError, match="zstandard") as caught:
        program(SMALL)
    assert (caught.value.fix or "").startswith("pip install 'mustela[zstd]'")
