"""Calls to a real HTTP service from a running application: parked, resumed, made again."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from mustela import (
    AsyncCall,
    AsyncOptions,
    RequestReply,
    Retry,
    StreamsBuilder,
    TopologyTestDriver,
)
from mustela.runtime.events import AppState
from mustela.spark.engine import SparkEngine
from tests.faults.process import ChildApp
from tests.integration.app_world import Watcher, World
from tests.integration.http_service import HttpService
from tests.unit.examples.programs import load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(300)]
pytest_plugins = ["tests.integration.app_fixture"]


@pytest.fixture
def service() -> Iterator[HttpService]:
    with HttpService() as made:
        yield made


def asking(url: str) -> Callable[..., str]:
    """Return a plain function that asks the service for a value's path."""

    def ask(path: str, call: AsyncCall) -> str:
        headers = {"Idempotency-Key": call.idempotency_key}
        request = urllib.request.Request(f"{url}/{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
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


def longest(watcher: Watcher) -> float:
    """Return the longest time that a commit took, without the first epochs."""
    return max(epoch.seconds for epoch in watcher.epochs[1:])


def test_slow_failing_and_hanging_answers_hold_nobody_up_but_their_key(
    world: World, service: HttpService
) -> None:
    """Each key's results are in order, each record has one, and epochs go on meanwhile."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    rules = AsyncOptions(
        retry=Retry(attempts=3, initial=timedelta(milliseconds=20)),
        timeout=timedelta(seconds=3),
        on_failure=lambda record, error: f"{record.key} {error.fields['cause']}",
    )
    app, watcher = world.app(enriching(asking(service.url), source, sink, rules))
    sent = {
        "slow": [f"slow{n}?delay=0.7" for n in range(3)],
        "flaky": [f"flaky{n}?fail=2" for n in range(3)],
        "broken": ["broken?fail=9"],
        "hangs": ["hang?hang=1", "behind"],
        **{f"k{n}": [f"a{n}?delay=0.05", f"b{n}", f"c{n}?delay=0.1"] for n in range(30)},
    }
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        world.send(source, [("warm", "up")])
        world.until(lambda: len(world.rows(sink)) == 1, "it is warm", app)
        for nth in range(3):
            world.send(source, [(key, p[nth]) for key, p in sent.items() if nth < len(p)])
        total = 1 + sum(map(len, sent.values()))
        world.until(lambda: len(world.rows(sink)) == total, "all is answered", app)

    wanted = {key: [p.partition("?")[0].upper() for p in paths] for key, paths in sent.items()}
    wanted |= {"warm": ["UP"], "broken": ["broken HTTPError"]}
    wanted["hangs"] = ["hangs TimeoutError", "BEHIND"]
    assert by_key(world, sink) == wanted
    assert watcher.counter("parked:ask") > 0
    assert watcher.counter("call_retries:ask") == 3 * 2 + 2 + 2
    assert longest(watcher) < 2.5
    assert service.most_at_once > 10


def test_epochs_are_committed_while_calls_are_being_made(world: World) -> None:
    """One call is held until all others are answered and committed, epoch by epoch."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    gate, patient = threading.Event(), AsyncOptions(timeout=timedelta(minutes=2))

    def answer(path: str) -> str:
        if path == "gate":
            gate.wait(120)
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


def python_workers() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        parent = process.parent()
        if parent is not None and "mustela.spark.daemon" in " ".join(parent.cmdline()):
            found.append(process)
    return found


@pytest.mark.parametrize("crashes", [False, True])
def test_the_example_rates_orders_whatever_the_service_does(
    monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    """Quick, slow, failing once, failing for ever, and hanging: each order comes out once."""
    example = load("enrich_over_http")
    with HttpService(lambda path: json.dumps({"rating": path[-3:]})) as service:
        monkeypatch.setattr(example, "URL", service.url)
        with TopologyTestDriver(example.app, crash_after_every_record=crashes) as driver:
            orders = driver.create_input_topic("orders")
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
    app, watcher = world.app(enriching(asking(service.url), source, sink, AsyncOptions()))
    sent = {f"k{n}": [f"a{n}?delay=0.5", f"b{n}"] for n in range(10)}
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        for nth in range(2):
            world.send(source, [(key, paths[nth]) for key, paths in sent.items()])
        world.until(lambda: len(world.rows(sink)) == 20, "all is answered", app)
    wanted = {key: [p.partition("?")[0].upper() for p in paths] for key, paths in sent.items()}
    assert by_key(world, sink) == wanted
    assert watcher.counter("parked:ask") > 0
    shutil.rmtree(Path(tempfile.gettempdir()) / f"mustela-{os.getuid()}-calls")


@pytest.mark.slow
def test_calls_whose_worker_is_killed_are_made_again(world: World, service: HttpService) -> None:
    """By the same idempotency key; results are neither lost nor doubled, and in order."""
    source, sink = world.topic("in"), world.topic("out")
    app, watcher = world.app(
        enriching(asking(service.url), source, sink, AsyncOptions(capacity=20))
    )
    sent = {f"k{n}": [f"a{n}?delay=1", f"b{n}?delay=0.3"] for n in range(20)}
    with app:
        world.until(lambda: app.state is AppState.RUNNING, "the application runs", app)
        for nth in range(2):
            world.send(source, [(key, paths[nth]) for key, paths in sent.items()])
        world.until(lambda: len(service.asked) >= 20, "calls are made", app)
        world.until(lambda: watcher.counter("parked:ask") >= 20, "calls are parked", app)
        for worker in python_workers():
            worker.kill()
        world.until(lambda: len(world.rows(sink)) == 40, "all is answered", app)

    wanted = {key: [p.partition("?")[0].upper() for p in paths] for key, paths in sent.items()}
    assert by_key(world, sink) == wanted
    assert watcher.counter("calls_made_again:ask") > 0
    assert len(service.asked) == 40
    assert service.asked.total() > 40


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

    def send(count: int, delay: float) -> None:
        rows = [(f"k{n % 10}", f"v{n}?delay={delay}") for n in itertools.islice(numbers, count)]
        for key, path in rows:
            sent[key].append(path.partition("?")[0].upper())
        world.send(source, rows)

    def kill_with_calls() -> None:
        app = ChildApp("asking", tmp_path / "killed", environment)
        try:
            send(10, 0.01)
            total = sum(map(len, sent.values()))
            app.wait_for("results", lambda: len(world.rows(sink)) == total)
            epochs, before = app.epochs(), len(service.asked)
            send(20, 1.5)
            app.wait_for("calls", lambda: len(service.asked) > before + 5)
            app.wait_for("an epoch", lambda: app.epochs() > epochs)
        finally:
            app.kill()

    kill_with_calls()
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
