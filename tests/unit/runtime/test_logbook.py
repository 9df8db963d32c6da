"""What an application writes to its log, and when it touches the logging of the process."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mustela import App
from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.errors import EnvironmentFault
from mustela.plan.epoch import TaskReport
from mustela.runtime.events import AppState, EpochDone, Restoring, Said
from mustela.runtime.life.life import Life
from mustela.runtime.logbook import Logbook
from tests.bare_logging import bare_logging
from tests.told import state_changed


def settings(**log: Any) -> Settings:
    return Settings.load({"application_id": "shop", "log": log}, environ={})


def epoch(number: int, records: int = 10, lag: int = 0, **more: Any) -> EpochDone:
    made: dict[str, Any] = {"seconds": 0.25, "job_seconds": 0.2, "watermark": -1, "counters": {}}
    made |= {"reports": (), **more}
    return EpochDone(epoch=number, records=records, lag=lag, **made)


@pytest.fixture
def book(caplog: pytest.LogCaptureFixture) -> Logbook:
    caplog.set_level(logging.DEBUG)
    made = Logbook(ManualClock(0))
    made.open(settings())
    return made


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_states_are_told_at_info_and_an_error_at_error(
    book: Logbook, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for each; a start that restores nothing says nothing of it."""
    book.on_event(state_changed(AppState.RUNNING))
    book.on_event(Restoring(done=0, groups=4, records={}))
    book.on_event(Restoring(done=1, groups=4, records={"totals": 9}))
    book.on_event(Said(text="waits"))
    book.on_event(state_changed(AppState.FAILED))
    assert told(caplog) == [
        ("INFO", "shop is running"),
        ("INFO", "restored 1 of 4 key groups, 9 records"),
        ("INFO", "waits"),
        ("ERROR", "shop ended with an error"),
    ]
    assert {record.__dict__["app"] for record in caplog.records} == {"shop"}


def test_a_retry_says_why(book: Logbook, caplog: pytest.LogCaptureFixture) -> None:
    """With the error's code and its evidence, each in one line."""
    error = EnvironmentFault("died", evidence={"spark": "because", "name": "a\nb"}, why="it is old")
    book.on_error(error)
    book.on_error(ValueError("bad"))
    assert told(caplog) == [
        ("WARNING", "retrying after an error: died"),
        ("WARNING", "retrying after an error: ValueError('bad')"),
    ]
    facts = caplog.records[0].__dict__
    assert facts["code"] == "ENVIRONMENT"
    assert (facts["spark"], facts["name_"], facts["why"]) == ("because", "a", "it is old")


def test_an_epoch_is_a_line_at_debug(book: Logbook, caplog: pytest.LogCaptureFixture) -> None:
    """At info it would be a flood."""
    book.on_event(epoch(3, lag=2, watermark=1_000))
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", "epoch 3 is committed")
    assert record.__dict__["lag"] == 2
    assert record.__dict__["watermark"] == "1970-01-01T00:00:01.000+00:00"
    caplog.clear()
    caplog.set_level(logging.INFO)
    book.on_event(epoch(4))
    assert caplog.records == []


def test_what_happened_is_summed_up_every_so_often(caplog: pytest.LogCaptureFixture) -> None:
    """With what was dropped, what is slow, and the retries; never when nothing happened."""
    caplog.set_level(logging.INFO)
    clock = ManualClock(0)
    book = Logbook(clock)
    book.open(settings(summary_every="10s"))
    reports = [
        TaskReport(stage=0, task=0, seconds={"source": 1.5, "waited": 0.5}),
        TaskReport(stage=1, task=1, seconds={"lane": 3.0, "waited": 1.0, "wait": 9.0}),
    ]
    reports[1].measured.seconds.update({"total": 0.5, "enrich": 1.25})
    counters = {"dropped_late:hourly": 2, "late:daily": 1, "dead_letters:parse": 3}
    book.on_event(epoch(7, 100, counters=counters, reports=reports))
    book.on_event(epoch(8, 50, lag=5, seconds=4.0, job_seconds=3.0))
    book.on_error(EnvironmentFault("gone"))
    book.look()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    clock.advance(10_000)
    book.look()
    facts = caplog.records[-1].__dict__
    assert caplog.records[-1].getMessage() == "150 records in 2 epochs, 5 waiting"
    assert (facts["records_per_second"], facts["lag"], facts["retries"]) == (15.0, 5, 1)
    assert facts["dropped"] == {"late:hourly": 2, "late:daily": 1}
    assert facts["dead_letters"] == {"parse": 3}
    assert facts["slow"] == (
        "epoch 8 took 4 s, its job 3; lane 1 of stage 1 worked most: 2 s, 1.25 of it in step"
        " 'enrich'"
    )
    clock.advance(60_000)
    book.look()
    assert len(caplog.records) == 2


def test_what_was_not_summed_up_is_told_before_the_end(
    book: Logbook, caplog: pytest.LogCaptureFixture
) -> None:
    """A short run tells what it did, too."""
    caplog.set_level(logging.INFO)
    book.on_event(epoch(1, 1))
    book.on_event(state_changed(AppState.DRAINING))
    book.on_event(epoch(2))
    book.close()
    assert told(caplog) == [
        ("INFO", "shop is draining"),
        ("INFO", "1 record in 1 epoch, 0 waiting"),
        ("INFO", "10 records in 1 epoch, 0 waiting"),
    ]


# -- whose logging it is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configure", "runs", "own", "takes"),
    [
        ("auto", True, False, True),
        ("auto", True, True, False),
        ("auto", False, False, False),
        ("always", False, True, True),
        ("never", True, False, False),
    ],
)
def test_the_logging_of_a_process_is_taken_over_only_where_that_is_wanted(
    configure: str, runs: bool, own: bool, takes: bool
) -> None:
    """run() of a program without logging of its own; never of one that only starts it."""
    mine = [logging.NullHandler()] if own else []
    with bare_logging(*mine) as root:
        book = Logbook(ManualClock(0))
        book.runs = runs
        book.open(settings(configure=configure))
        try:
            assert (len(root.handlers) > len(mine), book.options is not None) == (takes, takes)
        finally:
            book.close()
        assert root.handlers == mine


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    """An application whose life is short: it starts, and ends."""
    monkeypatch.setattr(Life, "live", lambda _life: None)
    made = App("shop", bootstrap_servers="127.0.0.1:1")
    made.topology(lambda builder: builder.stream("in").to("out"))
    return made


def test_a_program_that_uses_the_library_keeps_its_logging(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    """start() adds no handler, sets no level, and writes not a line."""
    with bare_logging() as root:
        level = root.level
        app.start()
        assert app.wait()
        app.close()
        assert (root.handlers, root.level) == ([], level)
    assert capsys.readouterr().err == ""


def test_run_writes_to_standard_error_and_gives_the_logging_back(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON lines, for nothing here is a terminal."""
    with bare_logging() as root:
        app.run()
        assert root.handlers == []
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(row["event"], row["state"]) for row in rows] == [
        ("shop is starting", "starting"),
        ("shop is stopped", "stopped"),
    ]
