"""Calls to a real HTTP service from a running application: parked, resumed, made again."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.calls import AsyncCall, AsyncOptions, RequestReply, Retry
from mustela.runtime.events import AppState
from mustela.spark.arrivals import calls_root
from mustela.spark.engine import SparkEngine
from tests.faults.process import ChildApp
from tests.faults.spark_workers import kill_workers
from tests.integration.app_world import World
from tests.integration.http_service import HttpService
from tests.patience import PATIENCE_S
from tests.unit.examples.programs import load

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PATIENT = timedelta(seconds=2 * PATIENCE_S)


@pytest.fixture
def service() -> Iterator[HttpService]:
    with HttpService() as made:
        yield made


def asking(url: str) -> Callable[..., str]:
    """Return a plain function that asks the service for a value's path."""

    def ask(path: str, call: AsyncCall) -> str:
        headers = {"Idempotency-Key": call.idempotency_key}
        request = urllib.request.Request(f"{url}/{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENT.seconds) as answer:
            return str(answer.read().decode())

    return ask


def enriching(
    function: Callable[..., Any], source: str, sink: str, options: AsyncOptions
) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        paths = builder.stream(source, key=str, value=str)
        answers = paths.map_values_async(function, options, value=str, name="ask")
        answers.to(sink, key=str, value=str)

    return build


def by_key(world: World, topic: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for row in world.rows(topic):
        found[(row.key or b"").decode()].append((row.value or b"").decode())
    return dict(found)


def answers_of(sent: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return what the service makes of paths."""
    return {key: [path.partition("?")[0].upper() for path in paths] for key, paths in sent.items()}


def test_slow_failing_and_hanging_answers_hold_nobody_up_but_their_key(
    world: World, service: HttpService
) -> None:
    """Each key's results are in order, each record has one, and epochs go on meanwhile."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    rules = AsyncOptions(
        retry=Retry(attempts=3, initial=timedelta(milliseconds=20)),
        timeout=PATIENT,
        on_failure=lambda record, error: f"{record.key} {error.fields['cause']}",
    )
    function, hasty = asking(service.url), replace(rules, timeout=timedelta(seconds=3))

    def build(builder: StreamsBuilder) -> None:
        paths = builder.stream(source, key=str, value=str)
        hanging = paths.filter(lambda key, _: key == "hangs", name="hanging")
        others = paths.filter_not(lambda key, _: key == "hangs", name="others")
        soon = hanging.map_values_async(function, hasty, value=str, name="hurry")
        answers = others.map_values_async(function, rules, value=str, name="ask")
        answers.merge(soon, name="both").to(sink, key=str, value=str)

    app, watcher = world.app(build)
    held = {f"slow{n}": [f"s{n}?held=1", f"t{n}", f"u{n}?delay=0.1"] for n in range(12)}
    broken = {"broken": ["broken?fail=9"], "hangs": ["hang?hang=1", "behind"]}
    sent = {
        "flaky": [f"flaky{n}?fail=2" for n in range(3)],
        **{f"k{n}": [f"a{n}?delay=0.05", f"b{n}", f"c{n}?delay=0.1"] for n in range(30)},
    }
    everything = {**held, **broken, **sent}
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        for nth in range(3):
            world.send(source, [(key, p[nth]) for key, p in everything.items() if nth < len(p)])
        others = 2 + 1 + sum(map(len, sent.values()))
        world.until(lambda: len(world.rows(sink)) == others, "all but the held are answered", app)
        world.until(lambda: service.most_at_once >= len(held), "they are asked together", app)
        assert not held.keys() & by_key(world, sink).keys()
        service.let_go()
        total = sum(map(len, everything.values()))
        world.until(lambda: len(world.rows(sink)) == total, "all is answered", app)

    wanted = answers_of({**held, **sent}) | {"broken": ["broken HTTPError"]}
    assert by_key(world, sink) == wanted | {"hangs": ["hangs TimeoutError", "BEHIND"]}
    assert watcher.counter("parked:ask") >= len(held)
    assert watcher.counter("call_retries:ask") == 3 * 2 + 2
    assert watcher.counter("call_retries:hurry") >= 2


def test_epochs_are_committed_while_calls_are_being_made(world: World) -> None:
    """One call is held until all others are answered and committed, epoch by epoch."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    gate, patient = threading.Event(), AsyncOptions(timeout=PATIENT)

    def answer(path: str) -> str:
        if path == "gate":
            gate.wait(PATIENCE_S)
        return path.upper()

    def rows() -> dict[str, list[str]]:
        return by_key(world, sink)

    with HttpService(answer) as service:
        build = enriching(asking(service.url), source, sink, patient)
        app, watcher = world.app(build)
        with app:
            world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
            world.send(source, [("held", "gate")])
            world.until(lambda: len(service.asked) == 1, "the call is made", app)
            for number in range(1, 6):
                before = len(watcher.epochs)
                world.send(source, [("held", f"h{number}"), (f"k{number}", f"w{number}")])
                world.until(lambda: len(rows()) == number, "an answer is committed", app)  # noqa: B023
                world.until(lambda: len(watcher.epochs) > before, "its epoch is done", app)  # noqa: B023
            assert "held" not in rows()
            gate.set()
            world.until(lambda: len(rows().get("held", ())) == 6, "the held key goes on", app)
    assert rows().pop("held") == ["GATE", *(f"H{number}" for number in range(1, 6))]


@pytest.mark.parametrize("crashes", [False, True])
def test_the_example_rates_orders_whatever_the_service_does(
    monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    """Quick, slow, failing once, failing for ever, and hanging: each order comes out once."""
    example = load("e18_enrich_over_http")
    with HttpService(lambda path: json.dumps({"rating": path[-3:]})) as service:
        monkeypatch.setattr(example, "URL", service.url)
        with TopologyTestDriver(example.app, crash_after_every_record=crashes) as driver:
            orders = driver.create_input_topic("unrated-orders")
            customers = ["ann", "bob?delay=0.1", "cid?fail=1", "dan?fail=9"]
            customers += [] if crashes else ["eve?hang=1"]
            for number, customer in enumerate(customers):
                orders.pipe_input(customer, example.Order(number))
                orders.pipe_input("ann", example.Order(100 + number))
            driver.advance_wall_clock_time(timedelta(seconds=11))  # the breaker was open
            out = driver.create_output_topic("rated-orders").read_key_values_to_list()
    rated: dict[str, list[Any]] = defaultdict(list)
    for key, value in out:
        rated[str(key)].append(value)
    each = range(len(customers))
    assert rated.pop("ann") == [
        example.RatedOrder(0, "ann"),
        *(example.RatedOrder(100 + n, "ann") for n in each),
    ]
    assert rated.pop("bob?delay=0.1") == [example.RatedOrder(1, "bob")]
    assert rated.pop("cid?fail=1") == [example.RatedOrder(2, "cid")]
    assert rated.pop("dan?fail=9") == [example.RatedOrder(3, None)]
    assert dict(rated) == ({} if crashes else {"eve?hang=1": [example.RatedOrder(4, None)]})


def test_replies_come_from_another_program(world: World) -> None:
    """Its requests are committed with the epoch; a record without a reply is given up."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    requests, replies = world.topic("requests"), world.topic("replies")

    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(source, key=str, value=str)
        answers = builder.stream(replies, key=bytes, value=str)
        patient = RequestReply(topic=requests, timeout=timedelta(minutes=10))
        hasty = RequestReply(
            topic=requests,
            timeout=timedelta(seconds=1),
            on_timeout=lambda record, _error: f"{record.value} alone",
        )
        parts = orders.split(name="by").branch(lambda key, _v: key == "lost", name="lost")
        branches = parts.default_branch()
        found = branches["default"].request_reply(
            answers, lambda order, reply: f"{order} {reply}", patient, name="ask"
        )
        lost = branches["lost"].request_reply(answers, lambda o, r: o + r, hasty, name="lose")
        found.merge(lost).to(sink, key=str, value=str)

    app, watcher = world.app(build)
    sent = [(f"k{n % 7}", f"o{n}") for n in range(40)]
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        world.send(source, [*sent, ("lost", "o40")])
        world.until(lambda: len(world.rows(requests)) == 41, "all is asked", app)
        world.until(lambda: len(world.rows(sink)) == 1, "one is given up", app)
    assert by_key(world, sink) == {"lost": ["o40 alone"]}
    assert watcher.counter("request_timeouts:lose") == 1
    app, watcher = world.app(build)
    with app:  # what is parked outlives the application
        for row in reversed(world.rows(requests)):
            answer = f"!{(row.value or b'').decode()}"
            world.send_with_headers(replies, None, answer, list(row.headers.items()))
        world.until(lambda: len(world.rows(sink)) == 41, "all goes on", app)
    wanted: dict[str, list[str]] = defaultdict(list, lost=["o40 alone"])
    for key, order in sent:
        wanted[key].append(f"{order} !{order}")
    assert {key: sorted(values) for key, values in by_key(world, sink).items()} == {
        key: sorted(values) for key, values in wanted.items()
    }


@pytest.mark.slow
def test_lanes_look_for_results_where_the_driver_cannot(
    world: World, service: HttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster, whose workers share no disk with the driver."""
    monkeypatch.setattr(SparkEngine, "_shares_disk", False)
    source, sink = world.topic("in"), world.topic("out")
    rules = AsyncOptions(timeout=PATIENT)
    app, watcher = world.app(enriching(asking(service.url), source, sink, rules))
    sent = {f"k{n}": [f"a{n}?held=1", f"b{n}"] for n in range(10)}
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        for nth in range(2):
            world.send(source, [(key, paths[nth]) for key, paths in sent.items()])
        world.until(lambda: watcher.counter("parked:ask") == 20, "all is parked", app)
        assert app._life is not None
        engine: Any = app._life.engine
        left = calls_root(engine._program)
        service.let_go()
        world.until(lambda: len(world.rows(sink)) == 20, "all is answered", app)
    assert by_key(world, sink) == answers_of(sent)
    shutil.rmtree(left)


@pytest.mark.slow
def test_calls_whose_worker_is_killed_are_made_again(world: World, service: HttpService) -> None:
    """By the same idempotency key; results are neither lost nor doubled, and in order."""
    source, sink = world.topic("in"), world.topic("out")
    rules = AsyncOptions(capacity=20, timeout=PATIENT)
    app, watcher = world.app(enriching(asking(service.url), source, sink, rules))
    sent = {f"k{n}": [f"a{n}?held=1", f"b{n}?delay=0.3"] for n in range(20)}
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        for nth in range(2):
            world.send(source, [(key, paths[nth]) for key, paths in sent.items()])
        world.until(lambda: len(service.asked) == 20, "calls are made", app)
        world.until(lambda: watcher.counter("parked:ask") == 40, "all is parked", app)
        assert kill_workers() > 0
        service.let_go()
        world.until(lambda: len(world.rows(sink)) == 40, "all is answered", app)

    assert by_key(world, sink) == answers_of(sent)
    assert watcher.counter("calls_made_again:ask") >= 20
    assert len(service.asked) == 40
    assert service.asked.total() >= 40 + 20


@pytest.mark.slow
@pytest.mark.crash
def test_an_application_that_is_killed_takes_up_what_is_parked(
    world: World, service: HttpService, tmp_path: Path
) -> None:
    """SIGKILL to all its processes: each record has one result, in the order of its key."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    environment = {
        "FAULTS_PREFIX": world.name,
        "FAULTS_URL": service.url,
        "MUSTELA__APPLICATION_ID": world.name,
        "MUSTELA__BOOTSTRAP_SERVERS": world.broker.bootstrap_servers,
        "MUSTELA__STATE_DIR": str(tmp_path / "state"),
        "MUSTELA__KEY_GROUPS": "8",
        "FAULTS_SPARK": f'{{"spark.master": "local[2]", "spark.local.dir": "{tmp_path}/spark"}}',
    }
    sent: dict[str, list[str]] = defaultdict(list)
    numbers = itertools.count()

    def send(count: int, how: str) -> None:
        rows = [(f"k{n % 10}", f"v{n}?{how}") for n in itertools.islice(numbers, count)]
        for key, path in rows:
            sent[key].append(path.partition("?")[0].upper())
        world.send(source, rows)

    def kill_with_calls() -> None:
        app = ChildApp("asking", tmp_path / "killed", environment)
        try:
            send(10, "delay=0.01")
            total = sum(map(len, sent.values()))
            app.wait_for("results", lambda: len(world.rows(sink)) == total)
            epochs, before = app.epochs(), len(service.asked)
            send(20, "held=1")
            app.wait_for("calls", lambda: len(service.asked) == before + 10)
            app.wait_for("an epoch", lambda: app.epochs() > epochs)
        finally:
            app.kill()

    kill_with_calls()
    service.let_go()
    app = ChildApp("asking", tmp_path / "last", environment)
    try:
        total = sum(map(len, sent.values()))
        app.wait_for("all results", lambda: len(world.rows(sink)) >= total)
        assert app.stop() == 0
    finally:
        app.kill()
    assert by_key(world, sink) == dict(sent)
    assert len(service.asked) == total
    assert service.asked.total() > total
