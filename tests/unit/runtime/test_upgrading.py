"""Rows of each kind of store, written anew with other values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.runtime.repairs.upgrading import LogRow, Upgrading, is_old, old_rows
from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.serdes.row_versions import OldRows, RowVersions
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.kinds.headers import add_headers
from mustela.state.kinds.lru import LruView
from mustela.state.kinds.session import SessionRows
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.kinds.ttl import TtlView
from mustela.state.kinds.versioned import VersionedRows
from mustela.state.kinds.window import WindowRows
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay, StoreOverlay

VERSIONS = RowVersions(version=2, older={1: OldRows(serde=StrSerde(), upgrade=int)})
HEADERS = (("from", b"web"),)


def spec_of(kind: str, **more: Any) -> StoreSpec:
    return StoreSpec(name="s", kind=kind, value_serde=IntSerde(), row_versions=VERSIONS, **more)


def fill(view: StoreOverlay, spec: StoreSpec, value: bytes) -> None:
    """Put a value into each place of a store that can hold one."""
    timed = pack_timestamped(value, 5)
    row = add_headers(timed, HEADERS) if spec.with_headers and spec.kind != "session" else timed
    match spec.kind:
        case "key_value":
            view.put(b"a", value)
        case "timestamped_key_value" if spec.max_entries is not None:
            LruView(view, spec.max_entries).put(b"a", row)
        case "timestamped_key_value" if spec.ttl_ms is not None:
            TtlView(view, spec).put(b"a", row)
        case "timestamped_key_value":
            view.put(b"a", row)
            view.put(b"b", timed)
        case "window":
            WindowRows(view, indexed=spec.indexed).put(b"a", 60_000, row)
        case "session":
            held: Any = (b"\x02\x02a\x02b", value) if spec.with_headers else value
            SessionRows(view).save_many({b"a": [(0, 5, held), (90, 95, value)]})
        case _:
            rows = VersionedRows(view, history_retention_ms=10**6, segment_ms=1000)
            for time in (10, 20, 2000):
                rows.put(b"a", value, time)
            rows.put(b"b", value, 10)
            rows.put(b"b", None, 20)


def rows_of(spec: StoreSpec, value: bytes) -> dict[bytes, bytes]:
    place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1, stores=(spec,))
    view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
    fill(view, spec, value)
    return dict(view.range())


SPECS = [
    spec_of("key_value"),
    spec_of("timestamped_key_value"),
    spec_of("timestamped_key_value", with_headers=True),
    spec_of("timestamped_key_value", max_entries=3),
    spec_of("timestamped_key_value", ttl_ms=3),
    spec_of("window", window_ms=10, retention_ms=100, indexed=True),
    spec_of("window", window_ms=10, retention_ms=100, with_headers=True),
    spec_of("session", retention_ms=100),
    spec_of("session", retention_ms=100, with_headers=True),
    spec_of("versioned", history_retention_ms=10**6, segment_ms=1000),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.layout)
def test_rows_that_are_rewritten_are_those_that_new_values_would_have_made(spec: StoreSpec) -> None:
    """In every kind of store, beside rows that hold no value and stay as they are."""
    new = spec.rows_of(IntSerde()).serialize(17)
    assert new is not None
    old_store, new_store = rows_of(spec, b"17"), rows_of(spec, new)
    log: list[LogRow] = [(at, key, row) for at, (key, row) in enumerate(old_store.items())]
    told = dict(old_rows(job_of(spec), lambda: iter(log)))
    assert {**old_store, **told} == new_store
    assert told
    assert not any(is_old(spec, key, row) for key, row in new_store.items())


def job_of(spec: StoreSpec) -> Upgrading:
    return Upgrading(store="s", spec=spec, stage="", topic="s", versions=(1,), meaning={})


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 2) | st.none()), max_size=40),
    st.integers(0, 6),
)
def test_only_the_newest_row_of_a_key_is_rewritten_and_a_job_that_broke_off_goes_on(
    writes: list[tuple[int, int | None]], done: int
) -> None:
    """Whatever the log holds, and however much of it a first job has written."""
    spec = spec_of("key_value")
    serde = spec.rows_of(IntSerde())
    log: list[LogRow] = []
    model: dict[bytes, int] = {}
    for at, (number, version) in enumerate(writes):
        key = b"%d" % number
        model[key] = at
        if version is None:
            del model[key]
        row = {None: None, 1: b"%d" % at, 2: serde.serialize(at)}[version]
        log.append((len(log), key, row))

    def read() -> Iterator[LogRow]:
        return iter(list(log))

    for limit in (done, 10):
        for key, row in list(old_rows(job_of(spec), read))[:limit]:
            log.append((len(log), key, row))
    newest = {key: row for _, key, row in log}
    assert {k: serde.deserialize(row) for k, row in newest.items() if row is not None} == model
    assert not any(is_old(spec, key, row) for key, row in newest.items() if row is not None)
    assert not list(old_rows(job_of(spec), read))
