"""The admin server of a real application: asked while it runs, is stuck, pauses and restores."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mustela import App, StreamsBuilder
from mustela.admin.access import Access, access_file, read_access
from mustela.admin.client import find_server
from mustela.admin.endpoints import endpoints, json_answer
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.cli.status import from_kafka
from mustela.cli.watching import picture
from mustela.events import AppState, Event, Listener, Restoring
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, SOON, looks

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

READ = [
    endpoint.path
    for endpoint in endpoints(lambda _watched, _query: json_answer({}))
    if endpoint.method == "GET"
]


class Gate:
    """A file that a function of the user's waits for."""

    def __init__(self, directory: Path) -> None:
        self.begun, self.go = directory / "begun", directory / "go"

    def counting(self, source: str, sink: str):
        begun, go = str(self.begun), str(self.go)

        def slow(value: str) -> str:
            import time
            from pathlib import Path

            if value == "slow":
                Path(begun).touch()
                deadline = time.monotonic() + 300
                while not Path(go).exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
            return value

        def build(builder: StreamsBuilder) -> None:
            lines = builder.stream(source, key=str, value=str).map_values(slow, name="slowly")
            counted = lines.group_by_key().count(store="counts")
            counted.to_stream().to(sink, key=str, value=int)

        return build


class Operator:
    """Asks an application's admin server, with the token of this user's file."""

    def __init__(self, app: App) -> None:
        access = read_access(access_file(app.settings))
        assert access is not None
        self.access: Access = access

    def _ask(self, method: str, path: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.access.tokens.operate}"}
        url = f"{self.access.address}{path}"
        return httpx.request(method, url, headers=headers, timeout=PATIENCE_S)

    def get(self, path: str) -> Any:
        answer = self._ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def text(self, path: str) -> str:
        return self._ask("GET", path).text

    def status(self, path: str) -> int:
        return self._ask("GET", path).status_code

    def post(self, path: str) -> int:
        return self._ask("POST", path).status_code

    def reads_all(self) -> None:
        """See that every endpoint answers: 503 is for health alone."""
        for path in READ:
            status = self.status(path)
            assert status == 200 or (status == 503 and path.startswith("/health/")), (path, status)

    def metric(self, name: str) -> float:
        """Return the value of a metric without labels, or with all its labels as written."""
        for line in self._ask("GET", "/metrics").text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(name)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.go.touch()


def heard_of_clients(world: World, app: App, operator: Operator, source: str) -> None:
    """See that librdkafka's statistics of the driver's and the workers' clients arrive."""
    name = 'mustela_kafka_client_total{client="%s",event="bytes_%s"}'
    wanted = [name % ("producer", "sent"), name % ("consumer", "received")]

    def heard() -> bool:
        world.send(source, [("b", "2", 2_000)], partition=0)
        world.drain(app)
        text = operator.text("/metrics")
        return all(one in text and operator.metric(one) > 0 for one in wanted)

    world.until(heard, "clients tell of themselves", app)


def test_an_application_shows_what_it_does_while_it_runs_and_is_stuck(
    world: World, gate: Gate
) -> None:
    """A function that hangs is seen: the phase, the worker, the step, and the line in Python."""
    source, sink = world.topic("in", partitions=2), world.topic("out")
    kafka, stall = {"statistics.interval.ms": 50}, {"after": "300ms"}
    app, _ = world.app(
        gate.counting(source, sink), admin={"enabled": True}, kafka=kafka, stall=stall
    )
    app.start()
    world.until(lambda: app.state is AppState.RUNNING, "it runs", app)
    operator = Operator(app)
    world.send(source, [("a", "1", 1_000), ("b", "2", 2_000)], partition=0)
    world.drain(app)
    operator.reads_all()
    world.until(lambda: operator.status("/health/ready") == 200, "it is ready", app)
    world.until(lambda: operator.get("/offsets")["lag"] == 0, "nothing waits", app)
    held_by = operator.get("/watermarks")["held_by"]
    assert held_by == [{"topic": source, "partition": 1}]
    assert operator.metric("mustela_records_read_total") == 2
    assert operator.metric(f'mustela_input_records_total{{input="{source}"}}') == 2
    assert operator.metric('mustela_processes{role="jvm"}') >= 1
    assert operator.metric('mustela_step_records_in_total{step="slowly"}') == 2
    assert operator.metric('mustela_step_records_out_total{step="slowly"}') == 2
    assert operator.metric("mustela_end_to_end_seconds_count") >= 1
    heard_of_clients(world, app, operator, source)
    newest = operator.get("/debug/barriers")["recent"][0]
    assert newest["outcome"] == "committed"
    assert [phase["phase"] for phase in newest["phases"]][-1] == "commit-sent"

    world.send(source, [("a", "slow", 3_000)], partition=0)
    world.until(gate.begun.exists, "the function hangs", app)
    world.until(lambda: operator.status("/health/live") == 503, "it is down", app)
    operator.reads_all()
    flight = operator.get("/debug/barriers")["in_flight"]
    assert (flight["phase"], flight["epoch"]) == ("running", newest["epoch"] + 1)
    world.until(
        lambda: operator.get("/debug/barriers")["stuck_phase"] == "running", "it is stuck", app
    )
    assert operator.metric("mustela_epoch_in_flight_seconds") > 0
    at_it = [w for w in operator.get("/debug/threads")["workers"] if w["step"] == "slowly"]
    assert at_it, operator.get("/debug/threads")["workers"]
    assert at_it[0]["record"].startswith("offset ")
    assert any("in slow" in line for line in at_it[0]["stack"])

    gate.go.touch()
    world.until(lambda: operator.status("/health/live") == 200, "it lives again", app)
    world.drain(app)
    assert operator.post("/shutdown") == 202
    assert app.wait(SOON)
    app.close()
    assert app.error is None
    assert not access_file(app.settings).exists()
    assert world.numbers(sink)["a"] == 2


def test_a_paused_application_reads_nothing_until_it_is_resumed(world: World, gate: Gate) -> None:
    """From outside and from the program; what came meanwhile is read then."""
    source, sink = world.topic("in"), world.topic("out")
    app, watcher = world.app(gate.counting(source, sink), admin={"enabled": True})
    app.start()
    world.until(lambda: app.state is AppState.RUNNING, "it runs", app)
    operator = Operator(app)
    assert operator.post("/pause") == 202
    world.until(lambda: app.state is AppState.PAUSED, "it is paused", app)
    operator.reads_all()
    assert operator.status("/health/live") == 200
    assert operator.status("/health/ready") == 503
    world.send(source, [("a", "1")])
    epochs = len(watcher.epochs)
    assert not app.wait_until_caught_up(SOON / 100)
    world.until(lambda: operator.get("/offsets")["lag"] == 1, "what waits is told", app)
    assert len(watcher.epochs) == epochs
    assert operator.status("/health/live") == 200
    assert operator.post("/resume") == 202
    world.drain(app)
    app.pause()
    world.until(lambda: app.state is AppState.PAUSED, "it is paused", app)
    assert app.close(SOON)
    assert app.error is None
    assert world.numbers(sink) == {"a": 1}
    audit = [text for text in watcher.said if text.startswith("admin: POST")]
    assert len(audit) == 2
    assert audit[0].endswith("with the scope operate: 202")


class HeldRestore(Listener):
    """Holds a restore when it begins, until it is let go."""

    def __init__(self) -> None:
        self.here, self.go = threading.Event(), threading.Event()

    def on_event(self, event: Event) -> None:
        if isinstance(event, Restoring):
            self.here.set()
            assert self.go.wait(PATIENCE_S)


def test_a_restore_is_seen_from_outside(world: World, gate: Gate, tmp_path: Path) -> None:
    """Not ready, with how far each store is; then ready."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [(key, "v") for key in "abcabc"])
    world.run(gate.counting(source, sink))
    app, _ = world.app(
        gate.counting(source, sink), admin={"enabled": True}, state_dir=tmp_path / "elsewhere"
    )
    held = HeldRestore()
    app.add_listener(held)
    app.start()
    operator = Operator(app)
    operator.reads_all()
    try:
        assert held.here.wait(PATIENCE_S)
        operator.reads_all()
        assert operator.status("/health/live") == 200
        answer = httpx.get(f"{operator.access.address}/health/ready", timeout=PATIENCE_S)
        assert answer.status_code == 503
        told = answer.json()
        assert (told["status"], told["restore"]["key_groups"]) == ("restoring", 4)
        assert told["restore"]["stores"].keys() == {"counts"}
    finally:
        held.go.set()
    world.until(lambda: operator.status("/health/ready") == 200, "it is ready", app)
    restored = operator.get("/state")["restore"]
    assert restored["key_groups_done"] == 4
    assert restored["stores"]["counts"]["records"] >= 3
    assert operator.metric('mustela_store_rows{store="counts"}') == 3
    assert operator.metric('mustela_store_bytes{store="counts"}') >= 4096
    app.close()
    assert app.error is None


def test_the_command_line_tells_of_an_application_with_a_server_and_without(
    world: World, gate: Gate
) -> None:
    """From Kafka alone: whether it lives, its epoch, its lag; before, while and after it runs."""
    source, sink = world.topic("in"), world.topic("out")
    app, _ = world.app(gate.counting(source, sink), lease={"interval": "200ms"})
    unknown = from_kafka(app.settings, listen=True)
    assert (unknown["state"], unknown["epoch"], unknown["lag"]) == ("unknown", None, None)
    asked = ["status", world.name, "-b", world.broker.bootstrap_servers]
    assert main(asked) == ExitCode.NEVER_RAN
    world.send(source, [("a", "1"), ("b", "2")])
    app.start()
    world.drain(app)
    assert main(asked) == ExitCode.OK
    assert find_server(app.settings) is None
    running = from_kafka(app.settings, listen=True)
    assert (running["state"], running["pid"], running["lag"]) == ("running", os.getpid(), 0)
    assert running["epoch"] >= 1
    picture(running, from_kafka(app.settings, listen=False))
    app.pause()
    for state in looks(lambda: from_kafka(app.settings, listen=True)["state"]):
        if state == "paused":
            break
    assert state == "paused"
    app.close()
    world.send(source, [("c", "3")])
    stopped = from_kafka(app.settings, listen=True)
    assert (stopped["state"], stopped["lag"]) == ("stopped", 1)
    assert main(asked) == ExitCode.STOPPED
    assert [one["lag"] for one in stopped["partitions"]] == [1]
