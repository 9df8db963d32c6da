"""Two instances of one application, and commands beside a running one, on a real broker."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mustela.admin.access import access_file, read_access
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.app import App
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.events import AppState
from mustela.runtime.life import life as life_module
from mustela.runtime.repairs.repair import Repair
from mustela.runtime.shortage import DiskFullError
from mustela.runtime.start.opening import check_before_start
from mustela_dev import DevelopmentBroker
from tests.faults.inside import await_condition
from tests.integration.no_engine import NoEngine
from tests.patience import PATIENCE_S, SOON, looks

pytestmark = pytest.mark.broker
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]

_NUMBERS = itertools.count()


@pytest.fixture
def name() -> str:
    """The application of one test."""
    return f"standby-{next(_NUMBERS)}"


@pytest.fixture
def make(
    broker: DevelopmentBroker,
    admin: KafkaAdmin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> Iterator[Callable[..., App]]:
    """Make an instance of the application; it has no engine, and nothing to read."""
    monkeypatch.setattr(life_module, "load_engine", lambda *_: NoEngine())
    monkeypatch.chdir(tmp_path)
    admin.create([TopicSpec(name=f"{name}-lines", partitions=1)])
    made: list[App] = []

    def make(**settings: Any) -> App:
        app = App(
            name,
            bootstrap_servers=broker.bootstrap_servers,
            lease={"interval": "1s"},
            topics={"create": True},
            **{"state_dir": str(tmp_path / "state"), **settings},
        )

        @app.topology
        def build(builder: StreamsBuilder) -> None:
            builder.stream(f"{name}-lines", key=str, value=str).to(f"{name}-out")

        made.append(app)
        return app

    yield make
    for app in made:
        app.close(SOON)


def await_living(app: App) -> None:
    """Wait until an instance runs."""
    assert app.wait_until(AppState.RUNNING, SOON), app.error


def test_a_standby_waits_for_the_end_of_the_one_that_runs(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    admin: KafkaAdmin,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """It does not fence it, then it goes on; no command changes what an instance runs on."""

    def reset(*options: str) -> int:
        return main(["reset", name, "--yes", *options, "-b", broker.bootstrap_servers])

    first, second = make(), make(standby=True)
    first.start()
    await_living(first)
    second.start()
    assert second.wait_until(AppState.STANDBY, SOON), second.error
    assert reset() == ExitCode.USAGE
    assert "INSTANCE_ALIVE" in capsys.readouterr().err
    assert first.state is AppState.RUNNING
    first.close(SOON)
    assert first.error is None
    assert second.wait_until(AppState.RUNNING, SOON), second.error
    second.close(SOON)
    assert second.coordinator is not None
    assert second.coordinator.state.incarnation == 2
    assert reset() == ExitCode.OK
    assert [t for t in admin.topics() if t.startswith(f"{name}-")] == [
        f"{name}-lines",
        f"{name}-out",
    ]


def test_a_standby_can_be_stopped(make: Callable[..., App]) -> None:
    """At once, and without an error."""
    first, second = make(), make(standby=True)
    first.start()
    await_living(first)
    second.start()
    assert second.wait_until(AppState.STANDBY, SOON), second.error
    assert second.close(SOON)
    assert (second.state, second.error) == (AppState.STOPPED, None)


def test_an_instance_that_was_replaced_becomes_the_standby(make: Callable[..., App]) -> None:
    """With `standby`, and in the same process; when the other has ended it goes on."""
    first, second = make(standby=True), make()
    first.start()
    await_living(first)
    first.pause()
    assert first.wait_until(AppState.PAUSED, SOON), first.error
    second.start()
    assert second.wait_until(AppState.RUNNING, SOON), second.error
    assert first.wait_until(AppState.STANDBY, SOON), first.error
    second.close(SOON)
    assert first.wait_until(AppState.RUNNING, SOON), first.error
    assert first.coordinator is not None
    assert first.coordinator.state.incarnation == 3


def test_of_three_that_start_at_the_same_moment_one_runs_and_nobody_is_fenced(
    make: Callable[..., App], tmp_path: Path
) -> None:
    """Each of them finds that no other one is alive; the lease topic chooses before the claim."""
    apps = [make(standby=True, state_dir=str(tmp_path / f"place-{n}")) for n in range(3)]
    for app in apps:
        app.start()

    def settled() -> bool:
        states = sorted(app.state.value for app in apps)
        return states == ["running", "standby", "standby"] or any(s == "failed" for s in states)

    await_condition(settled)
    (running,) = [app for app in apps if app.state is AppState.RUNNING]
    assert running.coordinator is not None
    assert running.coordinator.state.incarnation == 1
    others = [app for app in apps if app is not running]
    assert [AppState.RESTORING in states_of(app) for app in others] == [False, False]


def states_of(app: App) -> list[AppState]:
    """Return the states that an instance was in."""
    return [change.state for change in app.history]


def test_a_switch_makes_the_standby_run_and_the_other_one_wait(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """Also back again, from the command line and over HTTP; a promotion does the same unasked.

    Both ways say who runs and who waits, and refuse a switch while nobody is ready.
    """

    def ha(command: str, *options: str) -> int:
        return main(["ha", command, name, *options, "-b", broker.bootstrap_servers])

    first, second = (
        make(standby=True, state_dir=str(tmp_path / place), admin={"enabled": True})
        for place in ("one", "other")
    )
    first.start()
    await_living(first)
    assert ha("switch") == ExitCode.USAGE
    assert "NO_STANDBY" in capsys.readouterr().err
    refused = over_http(first, "POST", "/ha/switch")
    assert (refused.status_code, refused.json()["code"]) == (409, "NO_STANDBY")
    second.start()
    assert second.wait_until(AppState.STANDBY, SOON), second.error
    refused = over_http(first, "POST", "/ha/promote")
    assert (refused.status_code, refused.json()["code"]) == (409, "APP_STATE")

    def by_command(command: str, _asked: App) -> None:
        while ha(command) != ExitCode.OK:  # until the standby is ready
            assert "NO_STANDBY" in capsys.readouterr().err

    def by_http(command: str, asked: App) -> None:
        for answer in looks(lambda: over_http(asked, "POST", f"/ha/{command}")):
            if answer.status_code == 202:
                return
            assert answer.json()["code"] == "NO_STANDBY"

    for old, new, command, by in (
        (first, second, "switch", by_command),
        (second, first, "switch", by_http),
        (first, second, "promote", by_command),
        (second, first, "promote", by_http),
    ):
        by(command, old if command == "switch" else new)
        assert new.wait_until(AppState.RUNNING, SOON), new.error
        if command == "promote":  # nothing is committed here that would show it at once
            old.pause()
        assert old.wait_until(AppState.STANDBY, SOON), old.error
        old.resume()
    capsys.readouterr()
    assert ha("status", "--json") == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    assert document["running"]["incarnation"] == 5
    assert [one["memory_bytes"] > 0 for one in document["standbys"]] == [True]
    shown, waits = (over_http(app, "GET", "/ha").json() for app in (first, second))
    assert (shown["state"], waits["state"]) == ("running", "standby")
    (one,) = shown["standbys"]
    assert one["pid"] == document["standbys"][0]["pid"]


def over_http(app: App, method: str, path: str) -> httpx.Response:
    """Ask an instance's admin server with the token of its operator."""
    access = read_access(access_file(app.settings))
    assert access is not None
    headers = {"authorization": f"Bearer {access.tokens.operate}"}
    return httpx.request(method, access.address + path, headers=headers, timeout=PATIENCE_S)


def test_a_paused_instance_notices_that_another_one_took_over(make: Callable[..., App]) -> None:
    """By itself, without being resumed: whoever watches it need not wait for that."""
    first, second = make(), make()
    first.start()
    await_living(first)
    first.pause()
    assert first.wait_until(AppState.PAUSED, SOON), first.error
    second.start()
    assert second.wait_until(AppState.RUNNING, SOON), second.error
    assert first.wait_until(AppState.FAILED, SOON)
    assert isinstance(first.error, FencedError)
    assert second.state is AppState.RUNNING


def test_no_command_changes_what_a_starting_instance_looks_at(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """It says that it lives before it looks at anything: its first second is not a hole."""
    app, looks, may = make(), threading.Event(), threading.Event()

    def check(*seen: Any) -> Any:
        looks.set()
        assert may.wait(PATIENCE_S)
        return check_before_start(*seen)

    monkeypatch.setattr(life_module, "check_before_start", check)
    app.start()
    assert looks.wait(PATIENCE_S)
    for command in ("reset", "clean"):
        assert main([command, name, "--yes", "-b", broker.bootstrap_servers]) == ExitCode.USAGE
        assert "INSTANCE_ALIVE" in capsys.readouterr().err
    may.set()
    assert app.wait_until(AppState.RUNNING, SOON), app.error


def test_what_is_deleted_beside_a_start_is_not_what_runs(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    admin: KafkaAdmin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """An instance that starts between the question and the deletion is found by its lease."""
    first, second = make(), make()
    with first:
        assert first.wait_until(AppState.RUNNING, SOON), first.error
    take_over = Repair.take_over

    def late(repair: Repair) -> None:
        take_over(repair)
        second.start()
        assert second.wait_until(AppState.RUNNING, SOON), second.error

    monkeypatch.setattr(Repair, "take_over", late)
    assert main(["clean", name, "--yes", "-b", broker.bootstrap_servers]) == ExitCode.USAGE
    assert "INSTANCE_ALIVE" in capsys.readouterr().err
    assert admin.describe([f"{name}-epochs"])
    assert second.state is AppState.RUNNING


@pytest.mark.parametrize("later_ms", [0, 80])
def test_clean_and_a_start_at_the_same_time_leave_one_of_the_two(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    admin: KafkaAdmin,
    capsys: pytest.CaptureFixture[str],
    name: str,
    later_ms: int,
) -> None:
    """Either nothing was deleted, or the application began anew, or it stopped with a name."""
    first, second = make(), make()
    with first:
        assert first.wait_until(AppState.RUNNING, SOON), first.error
    starts = threading.Timer(later_ms / 1000, second.start)
    starts.start()
    code = main(["clean", name, "--yes", "-b", broker.bootstrap_servers])
    starts.join()
    told = capsys.readouterr().err
    if not second.wait_until(AppState.RUNNING, SOON):
        assert code == ExitCode.OK
        assert getattr(second.error, "code", None) == "TRANSACTION_ABORTED", second.error
        return
    assert admin.describe([f"{name}-epochs"])
    assert second.coordinator is not None
    if code == ExitCode.OK:
        assert second.coordinator.state.incarnation == 1
    else:
        assert "INSTANCE_ALIVE" in told
        assert second.coordinator.state.incarnation == 2


def test_an_instance_that_failed_is_told_from_one_that_was_stopped(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """By the exit code, for scripts, and with the code of the error, for people."""
    status = ["status", name, "-b", broker.bootstrap_servers]
    stopped, failing = make(), make()
    with stopped:
        assert stopped.wait_until(AppState.RUNNING, SOON), stopped.error
    assert main(status) == ExitCode.STOPPED

    def prepare(_self: Coordinator) -> None:
        full = "the disk is full"
        raise DiskFullError(full)

    monkeypatch.setattr(Coordinator, "prepare", prepare)
    failing.start()
    assert failing.wait_until(AppState.FAILED, SOON)
    assert main(status) == ExitCode.GONE
    assert f"{name}: its last instance failed with DISK_FULL" in capsys.readouterr().out
    assert main([*status, "--json"]) == ExitCode.GONE
    assert '"error": "DISK_FULL"' in capsys.readouterr().out


class SlowEngine(NoEngine):
    """It starts when it is told to."""

    def __init__(self) -> None:
        self.begun, self.may = threading.Event(), threading.Event()

    def start(self, _options: object) -> None:
        self.begun.set()
        assert self.may.wait(PATIENCE_S)


def test_no_command_changes_what_a_starting_instance_begins_with(
    make: Callable[..., App],
    broker: DevelopmentBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """It says that it lives before its engine starts, which takes a while."""
    app, engine = make(), SlowEngine()
    monkeypatch.setattr(life_module, "load_engine", lambda *_: engine)
    app.start()
    assert engine.begun.wait(PATIENCE_S)
    assert main(["reset", name, "--yes", "-b", broker.bootstrap_servers]) == ExitCode.USAGE
    assert "INSTANCE_ALIVE" in capsys.readouterr().err
    engine.may.set()
    assert app.wait_until(AppState.RUNNING, SOON), app.error
