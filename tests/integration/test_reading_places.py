"""Stores of every kind are the same wherever they are, and whichever way they are read there."""

from __future__ import annotations

import json
import random
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from struct import pack
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from mustela import App, Client
from mustela.admin.access import Access, access_file, read_access
from mustela.admin.client import AdminClient
from mustela.admin.data.standing import RemoteState, StandingState
from mustela.admin.replica.serving import ReplicaServer
from mustela.clock import SystemClock
from mustela.queries.queries import Queries
from mustela.runtime.replica.committed_state import committed_state
from mustela.spark_source import hold, register
from mustela.sql.asking import SqlReadable
from tests.conformance.reading_ways import (
    Reader,
    Row,
    all_stores,
    check,
    input_of,
    of_table,
    rows_of,
)
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, looks
from tests.unit.sql.inside import statements_run_here

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

TOPICS = ("towns", "words", "orders", "recent", "unlogged", "ticks", "prices", "shops", "notes")
NOTES = ["line 1", "line 4", "line 7"]


class Here(SqlReadable):
    """Reads what a process that comes once has."""

    def __init__(self, queries: Queries) -> None:
        self._given = queries

    @property
    def queries(self) -> Queries:
        return self._given


def raw(value: Any) -> bytes | None:
    """Return what the serde of a type writes."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        return value.to_bytes(8, "big", signed=True)
    if isinstance(value, float):
        return pack(">d", value)
    return json.dumps(value if isinstance(value, dict) else asdict(value)).encode()


@contextmanager
def served(access: Access) -> Generator[Reader]:
    """Give what a server has over HTTP."""
    token, certificate = access.tokens.query, access.certificate or None
    http = httpx.Client(
        base_url=access.address,
        headers={"authorization": f"Bearer {token}"},
        timeout=PATIENCE_S,
        verify=True if certificate is None else ssl.create_default_context(cafile=certificate),
    )
    with http:
        yield Reader(
            http=http,
            client=lambda: Client(access.address, token=token, certificate=certificate),
            state=RemoteState(AdminClient(access)),
        )


def certified(directory: Path) -> tuple[Path, Path]:
    """Make a certificate for this host, which trusts itself, and its key."""
    directory.mkdir(mode=0o700)
    certificate, key = directory / "cert.pem", directory / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=replica", "-addext", "subjectAltName=IP:127.0.0.1"]
    where = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *name, *where], check=True, capture_output=True)
    return certificate, key


@contextmanager
def replica(app: App, directory: Path, epoch: int) -> Generator[tuple[Reader, Access]]:
    """Give what a replica has once it shows an epoch, with TLS, and how it is reached."""
    other = App(app.settings.application_id, bootstrap_servers=app.settings.bootstrap_servers)
    certificate, key = certified(directory)
    other.configure(
        state_dir=directory,
        key_groups=4,
        admin={"tls_certificate": certificate, "tls_key": key},
    )
    other.topology(app._build)  # pyright: ignore[reportArgumentType]
    server, ready = ReplicaServer(other), threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda _server: ready.set(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        settings = other.settings.model_copy(update={"state_dir": server.place})
        access = read_access(access_file(settings))
        assert access is not None
        with served(access) as reader:
            http = reader.http
            assert http is not None
            for found in looks(lambda: (http.get("/info").json()["epoch"] or 0) >= epoch):
                if found:
                    break
            yield reader, access
    finally:
        server.stop()
        thread.join(PATIENCE_S)


def stopped(stack: ExitStack, app: App, only: Any) -> Reader:
    """Return what is left of an application that is stopped."""
    source = stack.enter_context(
        committed_state(app.settings, app.built_plan(), examine=lambda: None, say=str, only=only)
    )
    state = StandingState(source, SystemClock())
    stack.callback(state.close)
    return Reader(here=Here(state.queries), state=state)


def here(app: App) -> dict[str, str]:
    """Return the options of a data frame of an application on this host."""
    return {"app": app.settings.application_id, "stateDir": str(app.settings.state_dir)}


def there(access: Access, token_file: Path) -> dict[str, str]:
    """Return the options of a data frame of a server that is reached with a certificate."""
    token_file.write_text(access.tokens.query)
    assert access.address.startswith("https://")
    return {
        "url": access.address,
        "tokenFile": str(token_file),
        "certificate": access.certificate,
    }


def of_spark(spark: SparkSession, store: str, place: dict[str, str]) -> list[Row]:
    """Return the rows of a data frame, in the order of keys of another way."""
    frame: Any = spark.read.format("mustela").options(store=store, partitions="3", **place).load()
    return of_table(frame.toArrow())


def test_stores_of_every_kind_are_the_same_wherever_they_are_read(
    world: World, tmp_path: Path, spark_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running application, its replica, data frames of both; then its directory and changelogs.

    Global tables are as far as the epoch had read them, also when their topic goes on.
    """
    statements_run_here(monkeypatch)
    spark = SparkSession(spark_context).newSession()
    register(spark)
    names = {name: world.topic(name, partitions=2) for name in TOPICS}
    names["lines"] = world.topic("lines")
    app, _ = world.app(
        lambda builder: all_stores(builder, names.__getitem__), admin={"enabled": True}
    )
    given = list(input_of(random.Random(3).choice))
    for topic in TOPICS:
        rows = [(raw(key), raw(value), at) for name, key, value, at in given if name == topic]
        world.send(names[topic], rows)
    with app, ExitStack() as stack:
        world.drain(app)
        access = read_access(access_file(app.settings))
        assert access is not None
        running = replace(stack.enter_context(served(access)), here=app)
        held = stack.enter_context(hold(**here(app), lifetime=300))
        wanted = rows_of(running)
        logged = {store: rows for store, rows in wanted.items() if store != "unlogged"}
        epoch = app.queries.source.newest().epoch
        world.send(names["towns"], [("t9", "not read by an epoch")])
        check({"running": running}, wanted, NOTES)
        with replica(app, tmp_path / "replica", epoch) as (reader, place):
            check({"replica": reader}, logged, NOTES)
            options = there(place, tmp_path / "token")
            found = of_spark(spark, "orders", options)
            assert sorted(found, key=repr) == sorted(wanted["orders"], key=repr)
        for store, rows in wanted.items():
            found = of_spark(spark, store, {**here(app), "epoch": str(held)})
            assert sorted(found, key=repr) == sorted(rows, key=repr), store
    with ExitStack() as stack:
        left = {"directory": stopped(stack, app, "directory")}
        check(left, wanted, NOTES)
        left = {"changelogs": stopped(stack, app, "changelogs")}
        check(left, logged, NOTES)
