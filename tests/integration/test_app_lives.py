"""Lives after lives: restarts, uncaught errors, clean-up and stalls, on a broker and Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.events import AppState, Failed, Listener, UncaughtAnswer
from tests.integration.app_world import World
from tests.patience import SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


class Failures(Listener):
    """Keeps what was not simply tried again."""

    def __init__(self) -> None:
        self.found: list[tuple[str, UncaughtAnswer]] = []

    def on_event(self, event: Any) -> None:
        if isinstance(event, Failed):
            self.found.append((getattr(event.error, "code", ""), event.answer))


def counting(source: str, sink: str, mapper: Callable[[str], str] | None = None) -> Any:
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str)
        lines = lines if mapper is None else lines.map_values(mapper, name="mapped")
        lines.group_by_key().count(store="counts").to_stream().to(sink)

    return build


def test_an_application_restarts_with_and_without_its_local_state(world: World) -> None:
    """In one process and one App; clean-up deletes what the changelog brings back."""
    source, sink = world.topic("in"), world.topic("out")
    app, watcher = world.app(counting(source, sink))
    seen: list[str] = []
    app.on_start(lambda: seen.append("start"))
    app.on_stopped(lambda: seen.append("stopped"))
    world.send(source, [("a", "1"), ("b", "1")])
    app.start()
    assert app.wait_until_caught_up(SOON)
    assert app.restart(SOON)
    world.send(source, [("a", "2")])
    assert app.wait_until_caught_up(SOON)
    assert app.close(SOON)
    states = [change.state for change in app.history]
    again = [AppState.STARTING, AppState.RESTORING, AppState.RUNNING, AppState.DRAINING]
    assert states == [*again, *again, AppState.STOPPED]
    assert seen == ["start", "stopped"]
    home = world.directory / "state" / world.name
    assert any(home.iterdir())
    app.clean_up()
    assert not home.exists()
    assert app.restart(SOON)
    world.send(source, [("a", "3"), ("b", "3")])
    assert app.wait_until_caught_up(SOON)
    assert app.close(SOON)
    assert watcher.errors == []
    assert world.numbers(sink) == {"a": 3, "b": 2}
    assert seen == ["start", "stopped"] * 2


def test_a_handler_skips_the_record_that_a_function_cannot_handle(world: World) -> None:
    """The others are counted, exactly once, and the application never stopped."""
    source, sink = world.topic("in"), world.topic("out")

    def parse(value: str) -> str:
        return str(int(value))

    app, watcher = world.app(counting(source, sink, parse))
    failures = Failures()
    app.add_listener(failures)

    @app.uncaught_exception_handler
    def handle(error: BaseException) -> UncaughtAnswer:
        assert "invalid literal" in str(error)
        return UncaughtAnswer.SKIP_RECORD

    world.send(source, [("a", "1"), ("a", "one"), ("b", "2"), ("b", "two"), ("a", "3")])
    with app:
        assert app.wait_until_caught_up(SOON)
    assert world.numbers(sink) == {"a": 2, "b": 1}
    assert failures.found == [("PROCESSING", UncaughtAnswer.SKIP_RECORD)] * 2
    assert AppState.DRAINING not in watcher.states[:-2]
    assert watcher.counter("failed_records:mapped") == 2


def test_a_handler_restarts_in_place_what_passes_and_no_more_often_than_it_may(
    world: World, tmp_path: Path
) -> None:
    """A function that fails until its file is there: then all is counted once."""
    source, sink = world.topic("in"), world.topic("out")
    mended = str(tmp_path / "mended")

    def needs(value: str) -> str:
        from pathlib import Path

        if not Path(mended).exists():
            raise FileNotFoundError(mended)
        return value

    app, watcher = world.app(
        counting(source, sink, needs), restart={"max": 2, "pause": 0, "within": "1h"}
    )
    failures = Failures()
    app.add_listener(failures)
    asked: list[BaseException] = []

    @app.uncaught_exception_handler
    def handle(error: BaseException) -> str:
        asked.append(error)
        if len(asked) == 2:
            Path(mended).touch()
        return "restart"

    world.send(source, [("a", "1"), ("b", "1")])
    with app:
        assert app.wait_until_caught_up(SOON)
        assert watcher.states.count(AppState.STARTING) == 3
        Path(mended).unlink()
        world.send(source, [("a", "2")])
        assert app.wait(SOON)
        assert app.state is AppState.FAILED
        assert app.error is asked[2]
        app._error = None  # seen: the block is to end without it
    answers = [answer for _, answer in failures.found]
    assert answers == [*[UncaughtAnswer.RESTART] * 2, UncaughtAnswer.SHUTDOWN]
    assert world.numbers(sink) == {"a": 1, "b": 1}


def test_commits_that_stall_fail_the_application_and_a_restart_in_place_goes_on(
    world: World, tmp_path: Path
) -> None:
    """A function that hangs: its worker is killed, and the record is counted once."""
    source, sink = world.topic("in"), world.topic("out")
    hung = str(tmp_path / "hung")

    def hang(value: str) -> str:
        import time
        from pathlib import Path

        if value == "slow" and not Path(hung).exists():
            Path(hung).touch()
            time.sleep(600)
        return value

    stall = {"after": timedelta(seconds=5), "action": "fail"}
    app, watcher = world.app(counting(source, sink, hang), stall=stall, restart={"pause": 0})
    failures = Failures()
    app.add_listener(failures)
    app.uncaught_exception_handler(lambda _error: UncaughtAnswer.RESTART)
    with app:
        assert app.wait_until_caught_up(SOON)
        world.send(source, [("a", "slow"), ("a", "quick")])
        assert app.wait_until_caught_up(SOON)
    assert failures.found == [("COMMIT_STALLED", UncaughtAnswer.RESTART)]
    assert any("nothing was committed for" in text for text in watcher.said)
    assert world.numbers(sink) == {"a": 2}
