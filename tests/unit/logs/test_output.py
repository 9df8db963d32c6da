"""Lines of a log: their form, their order, and whose logging it is."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from mustela.logs.form import bind
from mustela.logs.options import LogOptions
from mustela.logs.output import REPEATED_S, LogOutput, Relay, Repeats
from tests.bare_logging import bare_logging

OPTIONS = LogOptions(application_id="shop")


@contextmanager
def output_of(options: LogOptions = OPTIONS, **more: Any) -> Iterator[None]:
    with bare_logging() as root:
        output = LogOutput(options, **more)
        try:
            yield
        finally:
            output.close()
        assert root.handlers == []


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_has_time_level_logger_event_and_then_where(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same four first, whoever writes the line."""
    with output_of(place=lambda: {"lane": 1, "step": "priced"}):
        logging.getLogger("my.orders").warning("no price for %s", "pear", extra={"amount": 3})
    (row,) = rows(capsys)
    assert list(row) == ["timestamp", "level", "logger", "event", "app", "lane", "step", "amount"]
    assert row["timestamp"].endswith("Z")
    del row["timestamp"]
    assert row == {
        "level": "warning",
        "logger": "my.orders",
        "event": "no price for pear",
        "app": "shop",
        "lane": 1,
        "step": "priced",
        "amount": 3,
    }


def test_an_exception_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A collector of logs takes each line for an event."""
    with output_of():
        try:
            raise ValueError("bad price")
        except ValueError:
            logging.getLogger("my").exception("cannot go on")
    (row,) = rows(capsys)
    assert row["exception"].startswith("Traceback")
    assert row["exception"].endswith("ValueError: bad price")


def test_levels_are_for_all_or_for_a_logger_and_those_below_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kafka's clients tell of warnings alone, unless they are named."""
    with output_of(LogOptions(application_id="shop", loggers=(("my.orders", "debug"),))):
        logging.getLogger("my.orders.deep").debug("1")
        logging.getLogger("my.others").debug("2")
        logging.getLogger("my.others").info("3")
        logging.getLogger("mustela.kafka").info("4")
    assert [row["event"] for row in rows(capsys)] == ["1", "3"]
    assert logging.getLogger("my.orders").level == logging.NOTSET


def test_structlog_of_the_program_comes_out_in_the_same_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With its context variables; a program that configures structlog keeps what it has."""
    with output_of(), structlog.contextvars.bound_contextvars(customer=7):
        structlog.get_logger("my.orders").info("sold", amount=2)
    (row,) = rows(capsys)
    assert (row["event"], row["amount"], row["customer"], row["app"]) == ("sold", 2, 7, "shop")


def test_people_get_lines_without_braces(capsys: pytest.CaptureFixture[str]) -> None:
    """The console form has the same facts."""
    with output_of(LogOptions(application_id="shop", console=True)):
        logging.getLogger("my").info("sold", extra={"amount": 2})
    line = capsys.readouterr().err
    assert "sold" in line
    assert "amount=2" in line
    assert "app=shop" in line
    assert "{" not in line


def test_a_warning_of_python_is_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A library's warning has a form of its own otherwise; afterwards it has it again."""
    before = warnings.showwarning
    with output_of(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("old name", DeprecationWarning, "x.py", 1)
    (row,) = rows(capsys)
    assert (row["logger"], row["level"]) == ("py.warnings", "warning")
    assert "old name" in row["event"]
    assert warnings.showwarning is before


def test_facts_are_bound_to_the_thread_that_says_so() -> None:
    """Another thread has none of them."""
    from contextvars import copy_context

    from mustela.logs.form import LineFormatter

    def line() -> dict[str, Any]:
        record = logging.LogRecord("my", logging.INFO, "", 0, "x", (), None)
        return json.loads(LineFormatter(OPTIONS).format(record))

    def inside() -> dict[str, Any]:
        bind(epoch=4)
        return line()

    assert copy_context().run(inside)["epoch"] == 4
    assert "epoch" not in line()


def test_what_cannot_be_shown_does_not_lose_its_line() -> None:
    """Nor does a fact with the name of one of the first four hide it."""
    from mustela.logs.form import LineFormatter

    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no")

    record = logging.LogRecord("my", logging.INFO, "", 0, "x", (), None)
    record.__dict__.update(thing=Bad(), event="mine", raw=b"\xff\x00", level=3)
    row = json.loads(LineFormatter(OPTIONS).format(record))
    assert row["event"] == "x"
    assert row["event_"] == "mine"
    assert row["level_"] == 3
    assert row["thing"] == "<Bad that cannot be shown: RuntimeError>"
    assert row["raw"] == "\\xff\x00"


def test_a_kafka_client_that_says_the_same_is_heard_once_in_a_while() -> None:
    """What differs in numbers alone is the same; the next line says how many there were."""
    repeats = Repeats()

    def record(text: str, at: float, name: str = "mustela.kafka") -> logging.LogRecord:
        made = logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)
        made.created = at
        return made

    assert repeats.filter(record("Connect to 10.0.0.1:9092 failed", 100))
    assert not repeats.filter(record("Connect to 10.0.0.2:9092 failed", 101))
    assert repeats.filter(record("SSL handshake failed", 101))
    assert repeats.filter(record("same", 101, "my"))
    assert repeats.filter(record("same", 101, "my"))
    later = record("Connect to 10.0.0.1:9092 failed", 100 + REPEATED_S)
    assert repeats.filter(later)
    assert later.__dict__["repeated"] == 1


def test_what_other_processes_print_takes_the_form_of_the_log() -> None:
    """Lines of a log keep their facts; any other text becomes the event of one."""
    relay = Relay(OPTIONS, "spark.stderr")
    line = (
        '{"timestamp":"2026-01-02T03:04:05.678Z","level":"warning",'
        '"logger":"org.apache.spark.X","event":"slow","exception":""}'
    )
    assert json.loads(relay.line(line, "now")) == {
        "timestamp": "2026-01-02T03:04:05.678Z",
        "level": "warning",
        "logger": "org.apache.spark.X",
        "event": "slow",
        "app": "shop",
    }
    for text in ('{"a": 1}', "{broken", "Traceback (most recent call last):", ""):
        row = json.loads(relay.line(text, "now"))
        assert (row["event"], row["logger"], row["timestamp"]) == (text, "spark.stderr", "now")
    people = Relay(LogOptions(application_id="shop", console=True), "spark.stderr")
    assert people.line("printed by a function", "now") == "printed by a function"
    assert "slow" in people.line(line, "now")


def test_the_form_follows_the_terminal_unless_the_settings_say() -> None:
    """auto: console on a terminal, JSON elsewhere."""
    from mustela.config.settings import Settings

    class Terminal:
        def isatty(self) -> bool:
            return True

    def made(form: str, stream: Any) -> LogOptions:
        values = {"application_id": "a", "log": {"format": form}}
        return LogOptions.of(Settings.load(values, environ={}), stream)

    assert made("auto", Terminal()).console
    assert not made("json", Terminal()).console
    assert not made("auto", None).console
    assert made("console", None).console
    assert not made("console", None).colors


def test_workers_do_not_import_what_the_driver_draws_with() -> None:
    """structlog, which loads rich, takes as long as the rest of a worker together."""
    import subprocess

    code = (
        "import sys, mustela.logs.output, mustela.logs.form as f;"
        "from mustela.logs.options import LogOptions as O;"
        "mustela.logs.output.LogOutput(O(application_id='a'));"
        "print([m for m in ('structlog', 'rich', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
