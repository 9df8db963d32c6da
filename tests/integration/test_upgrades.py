"""Stores whose values change their type from one release to the next, on Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Joined,
    JoinWindows,
    Materialized,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
)
from mustela.windows import BufferConfig
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

Build = Callable[[StreamsBuilder], None]


@dataclass
class Total:
    cents: int


def in_cents(euros: int) -> Total:
    return Total(euros * 100)


def worth(value: Any) -> int:
    return value.cents if isinstance(value, Total) else value


def shop(topics: dict[str, str], version: int) -> Build:
    """A program whose stores of each kind hold whole euros first, and then an object with cents."""
    value: Any = Total if version == 2 else int
    made = Total if version == 2 else int
    upgrade = in_cents if version == 2 else None
    unit = 100 if version == 2 else 1

    def kept(store: str, **more: Any) -> Materialized[str, Any]:
        said = {"value": value, "version": version, "upgrade": upgrade}
        return Materialized(**({} if "supplier" in more else {"store": store}), **said, **more)

    def add(_key: str, text: str, total: Any) -> Any:
        return made(worth(total) + int(text) * unit)

    def merge(_key: str, one: Any, other: Any) -> Any:
        return made(worth(one) + worth(other))

    def tell(table: Any, sink: str) -> None:
        told = table.to_stream(lambda key, _: str(getattr(key, "key", key)), name=f"keyed.{sink}")
        told.map_values(worth, name=f"worth.{sink}").to(topics[sink], key=str, value=int)

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(topics["in"], key=str, value=str)
        grouped = lines.group_by_key()
        plain = grouped.aggregate(lambda: made(0), add, materialized=kept("plain"))
        tell(plain, "plain")
        hour = TimeWindows(size=timedelta(hours=1), grace=timedelta(hours=1))
        windows = grouped.windowed_by(hour)
        tell(windows.aggregate(lambda: made(0), add, materialized=kept("windows")), "windows")
        sessions = grouped.windowed_by(
            SessionWindows(inactivity_gap=timedelta(hours=1), grace=timedelta(hours=1))
        )
        tell(
            sessions.aggregate(lambda: made(0), add, merge, materialized=kept("sessions")),
            "sessions",
        )
        prices = lines.map_values(lambda text: made(int(text) * unit), name="priced")
        history = Stores.persistent_versioned_key_value_store("history", timedelta(days=9))
        table = prices.to_table(materialized=kept("history", supplier=history))
        asked = builder.stream(topics["ask"], key=str, value=str)
        met = asked.join(table, lambda _, price: worth(price), joined=Joined(name="met"))
        met.to(topics["history"], key=str, value=int)
        near = JoinWindows.of_time_difference(timedelta(hours=1), grace=timedelta(0))
        waiting = StreamJoined[str, Any, str](
            name="near", store="near", value=value, version=version, upgrade=upgrade
        )
        pairs = prices.join(
            asked, lambda price, _: worth(price), windows=near, stream_joined=waiting
        )
        pairs.to(topics["near"], key=str, value=int)
        owners = builder.table(topics["owners"], key=str, value=str, store="owners")
        owned = plain.join(
            owners,
            lambda total, owner: f"{owner}:{worth(total)}",
            foreign_key=lambda _: "x",
            table_joined=TableJoined(name="owned"),
        )
        owned.to_stream(name="told.owned").to(topics["owned"], key=str, value=str)
        late = Suppressed.until_time_limit(timedelta(hours=1), BufferConfig.unbounded())
        tell(plain.suppress(late, name="held"), "held")

    return build


@pytest.mark.parametrize("lost", [False, True], ids=["disk", "changelog"])
def test_rows_of_every_kind_of_store_are_upgraded_when_they_are_read(
    world: World, lost: bool
) -> None:
    """From local state, and restored from changelogs with rows of both versions."""
    names = ("plain", "windows", "sessions", "history", "near", "owned", "held")
    topics = {name: world.topic(name) for name in ("in", "ask", "owners", *names)}
    first, later = 1_700_000_000_000, 1_700_007_200_000
    world.send(topics["in"], [(key, "1", first) for key in ("a", "b", "c")])
    world.send(topics["owners"], [("x", "ann", first)])
    world.run(shop(topics, 1))
    world.send(topics["in"], [("a", "2", first + 1)])
    world.run(shop(topics, 2))  # from here on rows of a are of version 2
    if lost:
        shutil.rmtree(world.directory / "state")
    world.send(topics["in"], [("b", "3", first + 2)])
    world.send(topics["ask"], [("b", "?", first + 1), ("c", "?", first + 3)])
    world.send(topics["owners"], [("x", "bob", first + 3)])
    world.run(shop(topics, 2))
    for sink in ("plain", "windows", "sessions"):
        assert world.numbers(topics[sink]) == {"a": 300, "b": 400, "c": 1}, sink
    assert world.numbers(topics["history"]) == {"b": 100, "c": 100}
    met = [int.from_bytes(row.value or b"", "big") for row in world.rows(topics["near"])]
    assert sorted(met) == [100, 100, 300]
    owned = {row.key: row.value for row in world.rows(topics["owned"])}
    assert owned == {b"a": b"bob:300", b"b": b"bob:400", b"c": b"bob:100"}
    for name in ("in", "ask", "owners"):
        world.send(topics[name], [("z", "1", later)])
    app, _ = world.app(shop(topics, 2))
    with app:
        held = {"a": 300, "b": 400, "c": 100}
        world.until(lambda: world.numbers(topics["held"]) == held, "held changes go on", app)
    error = world.fail(shop(topics, 1))
    assert error.code == "STORE_VERSION_FALLEN"
