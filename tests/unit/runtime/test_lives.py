"""The lives of an application: hooks, what follows errors, restarts and their limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from mustela import App
from mustela.clock import ManualClock
from mustela.config.lifetime import RestartSettings, StallSettings
from mustela.errors import DataError, EnvironmentFault, MustelaError, UsageError
from mustela.events import Failed, Listener, Said, UncaughtAnswer
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.runtime.app import AppStateError
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.events import AppState
from mustela.runtime.hook_kinds import HookKindError
from mustela.runtime.life.commit_watch import CommitWatch
from mustela.runtime.life.hooks import HookError, Hooks
from mustela.runtime.life.lives import Lives
from mustela.runtime.life.standing import HISTORY_MAX, Standing
from mustela.runtime.life.uncaught import Uncaught
from mustela.runtime.listeners import Listeners
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.indicators import DuplicateIndicatorError, Indicators
from tests.told import state_changed
from tests.unit.runtime.fakes import FakeAdmin, FakeSink, world_of
from tests.unit.runtime.plans import settings_for, word_count_plan

NO_PAUSE = RestartSettings(max=2, within=timedelta(seconds=60), pause=timedelta(0))
LOST = EnvironmentFault("the broker is lost")


class Told(Listener):
    """What listeners were told."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.errors: list[BaseException] = []

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def on_error(self, error: BaseException) -> None:
        self.errors.append(error)

    @property
    def answers(self) -> list[UncaughtAnswer]:
        return [event.answer for event in self.events if isinstance(event, Failed)]


class Stage:
    """An application whose lives are told how to end."""

    def __init__(self, *ends: BaseException | Callable[[], None] | None) -> None:
        self.told, self.clock = Told(), ManualClock()
        self.standing = Standing(self.clock, [self.told])
        self.hooks, self.uncaught = Hooks(), Uncaught(self.standing, self.clock)
        self.lives = Lives(self.standing, self.hooks, self.uncaught, lambda: NO_PAUSE)
        self.ends = list(ends)
        self.lived = 0

    def live(self) -> None:
        self.lived += 1
        end = self.ends.pop(0)
        self.standing.set(AppState.RUNNING)
        self.lives.started()
        try:
            if isinstance(end, BaseException):
                raise end
            if end is not None:
                end()
        except MustelaError as error:
            self.lives.ending(error)
            raise
        self.standing.ask_to_stop() if end is None else None
        self.lives.ending(None)

    def run(self) -> BaseException | None:
        return self.lives.run(lambda: self)


def test_a_standby_that_was_replaced_waits_again() -> None:
    """No handler is asked, and no restart is counted; without `standby` it ends with the error."""
    fenced = FencedError("another instance took over")
    stage = Stage(fenced, None)
    stage.lives = Lives(
        stage.standing, stage.hooks, stage.uncaught, lambda: NO_PAUSE, is_standby=lambda: True
    )
    assert stage.run() is None
    assert (stage.lived, stage.told.answers) == (2, [])
    alone = Stage(fenced)
    assert alone.run() is fenced
    assert alone.lived == 1


def test_hooks_run_once_each_around_all_lives() -> None:
    """Before the start, when epochs can run, before the drain, and as the last thing."""
    stage = Stage(LOST, None)
    stage.uncaught.handler = lambda _error: "restart"
    seen: list[str] = []
    for moment in ("start", "started", "stop", "stopped"):
        stage.hooks.add(moment, lambda moment=moment: seen.append(moment))
    assert stage.run() is None
    assert stage.lived == 2
    assert seen == ["start", "started", "stop", "stopped"]


def test_a_start_hook_that_raises_keeps_the_application_from_starting() -> None:
    """With an error that names it; what was prepared before it is cleared by the other hooks."""
    stage, seen = Stage(), list[str]()

    def connect() -> None:
        msg = "no route"
        raise ConnectionError(msg)

    stage.hooks.add("start", connect)
    stage.hooks.add("stopped", lambda: seen.append("cleared"))
    error = stage.run()
    assert isinstance(error, HookError)
    assert "connect of on_start raised ConnectionError: no route" in error.what
    assert (stage.lived, seen) == (0, ["cleared"])


def test_stop_hooks_all_run_and_their_error_is_the_end_of_a_run_that_had_none() -> None:
    """An application that has stopped as it should still says what was not cleared."""
    stage, seen = Stage(None), list[str]()

    def flush() -> None:
        msg = "no"
        raise OSError(msg)

    stage.hooks.add("stop", flush)
    stage.hooks.add("stop", lambda: seen.append("next"))
    error = stage.run()
    assert isinstance(error, HookError)
    assert "flush of on_stop" in error.what
    assert seen == ["next"]


@pytest.mark.parametrize("hook", [7, lambda error: error])
def test_what_cannot_be_called_as_a_hook_is_refused_where_it_is_written(hook: Any) -> None:
    """Not when the application stops."""
    with pytest.raises(HookKindError):
        App("a").on_stop(hook)


def test_a_coroutine_function_is_refused_and_its_fix_helps() -> None:
    """It would never be awaited."""
    seen: list[str] = []

    async def connect() -> None:
        seen.append("connected")

    hooks = Hooks()
    with pytest.raises(HookKindError, match="coroutine function") as raised:
        hooks.add("start", connect)
    assert "asyncio.run" in str(raised.value.fix)
    import asyncio

    hooks.add("start", lambda: asyncio.run(connect()))
    hooks.run("start")
    assert seen == ["connected"]


def test_without_a_handler_an_error_ends_the_application() -> None:
    """And listeners see it."""
    stage = Stage(LOST)
    assert stage.run() is LOST
    assert stage.told.answers == [UncaughtAnswer.SHUTDOWN]


def test_restarts_are_bounded_and_the_bound_is_forgotten_with_time() -> None:
    """The third within a minute is refused; one a while later is not."""
    stage = Stage(LOST, EnvironmentFault("2"), EnvironmentFault("3"))
    stage.uncaught.handler = lambda _error: UncaughtAnswer.REPLACE_THREAD
    error = stage.run()
    assert (str(error).splitlines()[0], stage.lived) == ("3", 3)
    stage.clock.advance(61_000)
    answer = stage.uncaught.answer(EnvironmentFault("4"), NO_PAUSE)
    assert answer is UncaughtAnswer.RESTART


@pytest.mark.parametrize("name", ["SHUTDOWN_CLIENT", "SHUTDOWN_APPLICATION"])
def test_both_ways_to_shut_down_end_this_instance(name: str) -> None:
    """Kafka Streams' names are answers; the application ends with the error, after one life."""
    stage = Stage(LOST, EnvironmentFault("2"))
    stage.uncaught.handler = lambda _error: UncaughtAnswer[name]
    assert stage.run() is LOST
    assert stage.lived == 1
    assert stage.told.answers == [UncaughtAnswer.SHUTDOWN]


def test_pauses_before_restarts_double_up_to_a_limit() -> None:
    """A broker that is away is not asked as fast as possible."""
    limits = RestartSettings(max=9, pause=timedelta(seconds=1), pause_max=timedelta(seconds=5))
    stage = Stage()
    stage.uncaught.handler = lambda _error: "restart"
    pauses: list[float] = []
    for n in range(4):
        stage.uncaught.answer(EnvironmentFault(f"{n}"), limits)
        pauses.append(stage.uncaught.pause_s(limits))
    assert pauses == [1, 2, 4, 5]


@pytest.mark.parametrize("error", [FencedError("x"), UsageError("x")])
def test_nobody_is_asked_about_what_no_restart_mends(error: MustelaError) -> None:
    """Another instance runs, or the program is wrong."""
    stage, asked = Stage(error), list[object]()
    stage.uncaught.handler = lambda found: asked.append(found) or "restart"
    assert stage.run() is error
    assert not asked


@pytest.mark.parametrize("answer", [None, "again", 3])
def test_a_handler_without_an_answer_shuts_down(answer: Any) -> None:
    """And it is said what is wrong with it."""
    stage = Stage(LOST)
    stage.uncaught.handler = lambda _error: answer
    assert stage.run() is LOST
    assert any("handler" in event.text for event in stage.told.events if isinstance(event, Said))


def test_a_restart_that_was_asked_for_is_another_life_and_a_stop_after_it_is_the_end() -> None:
    """Whoever asks last is right."""
    stage = Stage(None)
    stage.ends = [stage.standing.ask_to_restart, stage.standing.ask_to_restart, None]
    assert stage.run() is None
    assert stage.lived == 3
    stage = Stage()

    def restart_and_stop() -> None:
        stage.standing.ask_to_restart()
        stage.standing.ask_to_stop()

    stage.ends.append(restart_and_stop)
    assert stage.run() is None
    assert stage.lived == 1


def test_the_history_has_an_end() -> None:
    """An application that pauses every minute does not fill memory."""
    standing = Standing(ManualClock(5_000), [])
    for _ in range(HISTORY_MAX):
        standing.set(AppState.PAUSED)
        standing.set(AppState.RUNNING)
    assert len(standing.history) == HISTORY_MAX
    assert standing.history[-1].before is AppState.PAUSED
    assert standing.history[-1].at.timestamp() == 5


def test_a_listener_that_raises_is_logged_and_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not each time: it may be called for every epoch."""

    class Broken(Listener):
        def on_event(self, event: object) -> None:
            raise KeyError(event)

    told = Told()
    listeners = Listeners([Broken(), told])
    with caplog.at_level(logging.ERROR, "mustela.listeners"):
        for _ in range(50):
            listeners.on_event(Said(text="hello"))
    assert len(told.events) == 50
    assert [record.getMessage()[:40] for record in caplog.records] == [
        "the listener Broken raised KeyError: Sai"
    ] * 2
    assert "(10 times now)" in caplog.records[1].getMessage()


class Fails:
    """An engine that fails on one record, until it is left out."""

    cores = 1

    def __init__(self, offset: int) -> None:
        self.error = DataError(
            "step 'parse' failed",
            fields={"step": "parse", "topic": "lines", "partition": 0, "offset": offset},
        )
        self.orders: list[EpochOrder] = []

    def __getattr__(self, _name: str) -> Any:
        return lambda *_given, **_named: None

    def arrivals(self) -> Iterable[Any]:
        return ()

    def run(self, order: EpochOrder, _begun: object = None) -> Any:
        self.orders.append(order)
        raise self.error


def loop_over(engine: Any, tmp_path: Any, answer: UncaughtAnswer, asked: list[bool]) -> Any:
    clock = ManualClock(1_000_000)
    admin = FakeAdmin(partitions={"lines": 1, "counts": 1}, ends={TopicPartition("lines", 0): 7})
    told: Any = Told()

    def uncaught(_error: BaseException, /, *, may_skip: bool = False) -> UncaughtAnswer:
        asked.append(may_skip)
        return answer

    loop = Coordinator(
        settings_for(tmp_path),
        word_count_plan(),
        engine,
        clock=clock,
        listener=told,
        world=world_of(admin, clock=clock, sink=FakeSink(commit=[])),
        uncaught=uncaught,
    )
    loop.prepare()
    return loop


def test_a_record_that_a_handler_skips_is_left_out_of_the_next_run(tmp_path: Any) -> None:
    """And counted at its step."""
    engine, asked = Fails(3), list[bool]()
    loop = loop_over(engine, tmp_path, UncaughtAnswer.SKIP_RECORD, asked)
    loop.run_once()
    loop.run_once()
    first, second = engine.orders
    assert not first.left_out
    (span,) = second.left_out
    assert (span.partition, span.first, span.last, span.counted) == (
        0,
        3,
        3,
        "failed_records:parse",
    )
    assert asked == [True, True]


def test_an_error_of_a_record_that_was_read_before_cannot_skip_it(tmp_path: Any) -> None:
    """A parked call fails long after: leaving the record out would change nothing, for ever."""
    engine, asked = Fails(-1), list[bool]()
    loop = loop_over(engine, tmp_path, UncaughtAnswer.SHUTDOWN, asked)
    with pytest.raises(DataError):
        loop.run_once()
    assert asked == [False]


def test_an_answer_to_skip_what_cannot_be_skipped_shuts_down() -> None:
    """In place of running the same epoch for ever."""
    stage = Stage()
    stage.uncaught.handler = lambda _error: UncaughtAnswer.SKIP_RECORD
    assert stage.uncaught.answer(LOST, NO_PAUSE) is UncaughtAnswer.SHUTDOWN
    again = DataError("x")
    assert stage.uncaught.answer(again, NO_PAUSE, may_skip=True) is UncaughtAnswer.SKIP_RECORD


@pytest.mark.parametrize(
    ("action", "interrupted", "left"), [("report", 0, []), ("fail", 1, []), ("exit", 0, [3])]
)
def test_commits_that_stall_are_told_once_and_acted_on(
    action: Any, interrupted: int, left: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    """A commit makes it good again; the next stall is another one."""
    clock, said, calls, codes = ManualClock(), list[str](), list[int](), list[int]()
    board = StatusBoard(clock)
    board.on_event(state_changed(AppState.RUNNING))
    settings = StallSettings(after=timedelta(seconds=10), action=action)
    watch = CommitWatch(board, settings, said.append, lambda: calls.append(1), codes.append)
    clock.advance(9_000)
    watch.look()
    assert not said
    clock.advance(2_000)
    watch.look()
    watch.look()
    assert len(said) == 1
    assert "nothing was committed for 11 s" in said[0]
    assert (len(calls), codes) == (interrupted, left)
    assert (watch.error is None) == (action != "fail")
    assert ("stall.action is exit" in capfd.readouterr().err) == (action == "exit")
    board.progress = clock.monotonic()
    watch.look()
    clock.advance(11_000)
    watch.look()
    assert len(said) == 2


@pytest.mark.parametrize(
    ("found", "is_up", "why"),
    [
        (None, True, ""),
        (True, True, ""),
        (False, False, "it says so"),
        ("the pool is empty", False, "the pool is empty"),
        (ConnectionError("no route"), False, "ConnectionError: no route"),
    ],
)
def test_an_indicator_says_what_it_returns_or_raises(found: Any, is_up: bool, why: str) -> None:
    """And is not asked again at once."""
    asked: list[int] = []

    def check() -> Any:
        asked.append(1)
        if isinstance(found, Exception):
            raise found
        return found

    clock = ManualClock()
    indicators = Indicators(clock)
    indicators.add("db", check)
    for _ in range(3):
        answer = indicators.ask()["db"]
        assert (answer.is_up, answer.why) == (is_up, why)
    assert len(asked) == 1
    clock.advance(1_001)
    assert indicators.ask()["db"].failed == (0 if is_up else 2)
    assert len(asked) == 2


def test_two_indicators_of_one_name_are_refused_and_two_names_are_fine() -> None:
    """As the fix says."""
    app = App("a")
    app.health("db")(lambda: True)
    with pytest.raises(DuplicateIndicatorError) as raised:
        app.health("db")(lambda: True)
    assert '@app.health("db")' in str(raised.value.fix)
    app.health("cache")(lambda: True)


def test_an_application_that_has_not_started_cannot_restart() -> None:
    """One that has ended can."""
    app = App("a")
    with pytest.raises(AppStateError):
        app.restart()


def test_clean_up_deletes_the_state_of_this_application_alone(tmp_path: Any) -> None:
    """Not a link's target, and nothing of others."""
    for name in ("a", "b"):
        (tmp_path / name / "1f").mkdir(parents=True)
    app = App("a", state_dir=tmp_path)
    app.clean_up()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    (tmp_path / "a").symlink_to(tmp_path / "b")
    app.clean_up()
    assert (tmp_path / "b" / "1f").is_dir()
