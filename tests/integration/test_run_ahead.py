"""Epochs are begun while the one before is committed: nothing is lost, doubled or moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.runtime.cutting.prefetch import Prefetch
from mustela.runtime.events import EpochDone, Event
from mustela_dev import DevelopmentBroker
from tests.faults.inside import Inside, await_condition
from tests.patience import SOON

pytest_plugins = ["tests.integration.app_fixture"]
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

RECORDS = 6_000
Program = Callable[[StreamsBuilder, str], None]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each epoch had been begun ahead."""
    found: list[bool] = []
    take = Prefetch.take

    def noted(self: Prefetch, token: Any) -> Any:
        result = take(self, token)
        found.append(result is not None)
        return result

    monkeypatch.setattr(Prefetch, "take", noted)
    return found


def copy(builder: StreamsBuilder, prefix: str) -> None:
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.map_values(str.upper, name="shout").to(f"{prefix}.out", key=str, value=str)


def number(builder: StreamsBuilder, prefix: str) -> None:
    """Each record goes on with its place among those of its key, which only state knows."""

    def next_place(_key: str, value: str, seen: str) -> str:
        return f"{value}/{int(seen.rpartition('/')[2]) + 1}"

    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    seen = stream.group_by_key().aggregate(lambda: "/0", next_place, store="seen", value=str)
    seen.to_stream().to(f"{prefix}.out", key=str, value=str)


PROGRAMS = pytest.mark.parametrize("program", [copy, number])


def feed(inside: Inside, start: int = 0, end: int = RECORDS) -> None:
    inside.send((f"k{n % 50}", f"v{n}") for n in range(start, end))


def check(inside: Inside) -> None:
    """Every record is there once, in the order of its key, and epochs do not overlap."""
    rows = inside.rows()
    by_key: dict[bytes, list[int]] = {}
    for row in rows:
        value, _, place = (row.value or b"")[1:].partition(b"/")
        values = by_key.setdefault(row.key or b"", [])
        values.append(int(value))
        assert not place or int(place) == len(values)
    assert sum(map(len, by_key.values())) == RECORDS
    for key, values in by_key.items():
        assert values == list(range(int(key[1:]), RECORDS, 50))


@PROGRAMS
def test_a_backlog_is_copied_once_and_in_order(
    inside: Inside, taken: list[bool], program: Program
) -> None:
    """Most epochs of a backlog are begun before the one before them is committed."""
    inside.build(program)
    feed(inside)
    app, heard = inside.app(emit="every", epoch={"max_records": 200, "small": "0ms"})
    with app:
        inside.await_caught_up(app)
    check(inside)
    assert sum(taken) > RECORDS / 200 / 2
    numbers = [epoch.epoch for epoch in heard.epochs]
    assert numbers == sorted(set(numbers))
    assert sum(epoch.records for epoch in heard.epochs) == RECORDS


@PROGRAMS
def test_an_epoch_that_is_not_committed_takes_the_next_one_with_it(
    inside: Inside, broker: DevelopmentBroker, taken: list[bool], program: Program
) -> None:
    """What ran ahead of it read on from an end that was never committed."""
    inside.build(program)
    app, heard = inside.app(emit="every", epoch={"max_records": 100, "small": "0ms"})
    intruder = TransactionalSink(
        {"bootstrap.servers": broker.bootstrap_servers}, app.settings.application_id
    )
    with app:
        for start in range(0, RECORDS, RECORDS // 3):
            done, end = len(heard.epochs), start + RECORDS // 3
            feed(inside, start, end - 200)
            await_condition(lambda done=done: len(heard.epochs) >= done + 4, app)
            intruder.open()  # fences the producer in the middle of its work, and claims nothing
            feed(inside, end - 200, end)  # there is something to commit, however fast it was
        inside.await_caught_up(app)
    intruder.close()
    check(inside)
    assert heard.errors
    assert any(taken)


class Closing:
    """A listener that closes its application in the middle of a backlog."""

    def __init__(self, app: App, *, epochs: int) -> None:
        self._app, self._left = app, epochs

    def on_event(self, event: Event) -> None:
        """Count epochs."""
        self._left -= isinstance(event, EpochDone)
        if self._left == 0:
            self._app.close(timedelta(0))

    def on_error(self, error: BaseException) -> None:
        """It is tried again."""


@PROGRAMS
def test_a_second_run_goes_on_where_the_first_was_closed(
    inside: Inside, taken: list[bool], program: Program
) -> None:
    """What runs ahead when the application is closed is thrown away."""
    inside.build(program)
    feed(inside)
    app, heard = inside.app(emit="every", epoch={"max_records": 100, "small": "0ms"})
    closing = Closing(app, epochs=5)
    app.add_listener(closing)
    with app:
        assert app.wait(SOON)
    assert sum(epoch.records for epoch in heard.epochs) < RECORDS
    again, _ = inside.app(emit="every", epoch={"max_records": 2_000})
    with again:
        inside.await_caught_up(again)
    check(inside)
    assert any(taken)
