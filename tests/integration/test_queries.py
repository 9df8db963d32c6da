"""Reading the stores of an application that runs on a broker and on Spark."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import App, Materialized, StreamsBuilder
from mustela.events import AppState
from mustela.queries.errors import StateUnavailableError
from tests.integration.app_world import World
from tests.patience import SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

ACCOUNTS = 200


def transfers(source: str) -> Callable[[StreamsBuilder], None]:
    """Each record moves an amount between two accounts: the sum of all balances is always zero."""

    def build(builder: StreamsBuilder) -> None:
        moves = builder.stream(source, key=str, value=str).flat_map(both_sides, name="sides")
        moves = moves.repartition(name="by-account", key=str, value=int)
        grouped = moves.group_by_key()
        grouped.reduce(add, store="balances")
        grouped.count(store="moves")

    def both_sides(_key: str, value: str) -> list[tuple[str, int]]:
        payer, payee, amount = value.split()
        return [(payer, -int(amount)), (payee, int(amount))]

    def add(one: int, other: int) -> int:
        return one + other

    return build


def moves(rng: random.Random, count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for _ in range(count):
        payer, payee = rng.sample(range(ACCOUNTS), 2)
        found.append((f"m{payer}", f"a{payer:03} a{payee:03} {rng.randint(1, 99)}"))
    return found


class Auditor(threading.Thread):
    """Takes snapshots without pause and checks each."""

    def __init__(self, app: App) -> None:
        super().__init__(name="auditor")
        self._app = app
        self.done = threading.Event()
        self.epochs: list[int] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Take snapshots until told to stop, or until one is wrong."""
        try:
            while not self.done.is_set():
                self._look()
        except BaseException as error:  # noqa: BLE001 - told by `end`
            self.error = error

    def _look(self) -> None:
        with self._app.snapshot() as snapshot:
            balances = dict(snapshot.store("balances").items())
            counts = dict(snapshot.store("moves").items())
            some = sorted(balances)[::7]
            again = snapshot.store("balances").get_many(some)
        assert sum(balances.values()) == 0, snapshot.epoch
        assert sum(counts.values()) % 2 == 0, snapshot.epoch
        assert counts.keys() == balances.keys(), snapshot.epoch
        assert again == [balances[key] for key in some], snapshot.epoch
        assert not self.epochs or snapshot.epoch >= self.epochs[-1]
        self.epochs.append(snapshot.epoch)

    def end(self) -> list[int]:
        """Stop, and return the epochs that were seen."""
        self.done.set()
        self.join()
        if self.error is not None:
            raise self.error
        return sorted(set(self.epochs))


def test_snapshots_taken_while_epochs_are_committed_are_never_torn(world: World) -> None:
    """Each shows one committed epoch in all lanes and stores, and none is older than one before."""
    source = world.topic("moves", partitions=3)
    app, _ = world.app(transfers(source))
    rng = random.Random(16)
    with app:
        app.wait_until_caught_up(SOON)
        auditors = [Auditor(app) for _ in range(2)]
        for auditor in auditors:
            auditor.start()
        for _ in range(25):
            world.send(source, moves(rng, 100))
        assert app.wait_until_caught_up(SOON)
        seen = [auditor.end() for auditor in auditors]
        assert sum(count for _, count in app.store("moves").items()) == 2 * 25 * 100
    assert min(map(len, seen)) > 3, seen


def test_stores_are_read_while_the_application_runs_only(world: World) -> None:
    """Before and after, the error says in what state the application is."""
    source = world.topic("moves")
    app, _ = world.app(transfers(source))
    with pytest.raises(StateUnavailableError, match="while the application is created"):
        app.store("balances")
    with app:
        world.send(source, [("m", "a b 3")])
        assert app.wait_until(AppState.RUNNING, SOON)  # as the error says
        assert app.store("balances").get("nobody") is None
        assert app.wait_until_caught_up(SOON)
        balances: Any = app.store("balances")
        snapshot = app.snapshot(lifetime=timedelta(minutes=1))
        assert list(balances.items()) == [("a", -3), ("b", 3)]
        assert app.store("balances", timestamps=True)["a"].value == -3
    with pytest.raises(StateUnavailableError, match="while the application is stopped"):
        balances.get("a")
    with pytest.raises(StateUnavailableError, match="has ended"):
        snapshot.store("balances").get("a")


def test_a_restart_in_place_and_state_in_memory_are_no_matter_to_a_handle(world: World) -> None:
    """It reads the next life as it read the one before, by an index as well."""
    source = world.topic("people")

    def build(builder: StreamsBuilder) -> None:
        kept = Materialized(store="people", index={"city": "city"})
        builder.table(source, key=str, value=dict, materialized=kept)

    app, _ = world.app(build, state={"backend": "memory"})
    with app:
        world.send(source, [("ann", '{"city": "Rome"}'), ("bob", '{"city": "Oslo"}')])
        sent = app.sent({(source, 0): 1})
        people = app.store("people", min_epoch=sent, timeout=SOON)
        for _ in range(2):
            assert list(people.by("city").keys()) == ["bob", "ann"]
            assert people.by("city").one("Rome") == ("ann", {"city": "Rome"})
            assert app.restart(SOON)
        world.send(source, [("cid", '{"city": "Paris"}')])
        app.snapshot(min_epoch=app.sent({(source, 0): 2}), timeout=SOON).close()
        assert list(people.by("city").keys()) == ["bob", "cid", "ann"]


def test_a_reader_sees_what_it_sent(world: World) -> None:
    """By the offset of its record, and by the header of an output record."""
    source, sink = world.topic("in"), world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        rows = builder.stream(source, key=str, value=str)
        rows.group_by_key().count(store="counts").to_stream().to(sink)

    app, _ = world.app(build)
    with app:
        for offset in range(3):
            world.send(source, [("k", "x")])
            sent = app.sent({(source, 0): offset})
            assert app.store("counts", min_epoch=sent, timeout=SOON)["k"] == offset + 1
        epochs = [row.headers["mustela.epoch"] for row in world.rows(sink)]
        assert len(epochs) == 3
        assert epochs[-1] is not None
        assert app.snapshot(min_epoch=epochs[-1]).store("counts")["k"] == 3
