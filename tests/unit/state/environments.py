"""What the tests of the state room share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions

STORES = ("counts", "totals")


def make_spec(**changes) -> EnvironmentSpec:
    values = {
        "application_id": "app",
        "cluster_id": "cluster",
        "stage": "5f",
        "group": 3,
        "groups": 8,
        "stores": tuple(StoreSpec(name=name) for name in STORES),
    }
    return EnvironmentSpec(**(values | changes))


def open_lmdb(root: Path, spec: EnvironmentSpec | None = None, *, boot: str = "boot-1", **options):
    values: dict[str, Any] = {"map_bytes": 1 << 28} | options
    settings = LmdbOptions(**values)
    return LmdbEnvironment(root, spec or make_spec(), boot=boot, options=settings)


def committed(token: Token | None, *, time_ms: int = 0, **ends: int) -> Committed:
    return Committed(token=token, changelog_ends=ends, time_ms=time_ms)


def rows_of(environment, state: Committed, store: str = "counts") -> list[tuple[bytes, bytes]]:
    view = environment.snapshot(state)
    try:
        return list(view.range(store, None, None))
    finally:
        view.close()


def fill(environment, count: int = 2_000, token: Token | None = None) -> Committed:
    """Store rows, fold them into the base, and return what is committed."""
    token = token or Token(1, 1, 0)
    rows = [(b"key-%06d" % index, b"value-%06d" % index) for index in range(count)]
    environment.write_pending(token, committed(None), {"counts": rows})
    state = committed(token, counts=count)
    environment.fold(state)
    return state
