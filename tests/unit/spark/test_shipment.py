"""The program on its way to the workers."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mustela.api.handlers import read_handler
from mustela.dsl.builder import StreamsBuilder
from mustela.plan.epoch import Program
from mustela.planner.planner import plan
from mustela.spark.shipment import UnpicklableFunctionError, import_path, ship
from tests.unit.plan.test_epoch import program

pytestmark = pytest.mark.slow


def program_with(build: Callable[[StreamsBuilder], None]) -> Program:
    builder = StreamsBuilder()
    build(builder)
    return replace(program(), plan=plan(builder.build()))


def test_functions_of_the_users_travel_by_value() -> None:
    """Also those that are made in a function and hold something of it."""
    suffix = "!"

    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).map_values(lambda v: v + suffix, name="s").to(
            "o", value=str
        )

    again = ship(program_with(build)).unpack()
    assert [step.name for step in again.plan.stages[0].steps] == ["s", "s.to.o"]


def test_a_function_that_cannot_travel_is_named_with_its_step_and_line() -> None:
    """And the reason that pickle gives."""
    lock = threading.Lock()

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        good = stream.map_values(str.upper, name="good")
        good.map_values(lambda value: (lock, value)[1], name="locked").to("out", value=str)

    with pytest.raises(UnpicklableFunctionError) as caught:
        ship(program_with(build))
    assert caught.value.fields["step"] == "locked"
    text = str(caught.value)
    assert "test_shipment.py" in text
    assert "lock" in text


def test_a_handler_that_cannot_travel_is_named() -> None:
    """That of a step by the step, that of the application by its setting."""
    lock = threading.Lock()

    def handler(_error: Exception, _record: object, _context: object) -> str:
        with lock:
            return "continue"

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.map_values(str.upper, name="upper", on_error=handler).to("out", value=str)

    with pytest.raises(UnpicklableFunctionError) as caught:
        ship(program_with(build))
    assert caught.value.fields["step"] == "upper"
    kernel = {"processing_handler": read_handler(handler, verb="setting", role="handler")}
    with pytest.raises(UnpicklableFunctionError, match="setting processing_handler"):
        ship(replace(program(), kernel=kernel))


def test_something_else_that_cannot_travel_is_an_error_too() -> None:
    """No step is to blame then."""
    with pytest.raises(UnpicklableFunctionError, match="the program"):
        ship(replace(program(), kernel={"lock": threading.Lock()}))


PROGRAM = """
import sys
from mustela.spark.shipment import Shipment
from pathlib import Path
shipment = Shipment("x", Path(sys.argv[1]).read_bytes(), tuple(sys.argv[2:]))
print([step.name for step in shipment.unpack().plan.stages[0].steps])
"""


@pytest.mark.parametrize("told", [True, False])
def test_a_worker_finds_the_modules_that_the_driver_finds(
    told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process imports them by the driver's path; without it the module is named."""
    (tmp_path / "beside_the_script.py").write_text("def shout(text):\n    return text.upper()\n")
    monkeypatch.syspath_prepend(tmp_path)
    beside = importlib.import_module("beside_the_script")

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.map_values(beside.shout, name="shout").to("out", value=str)

    shipment = ship(program_with(build), import_path())
    assert str(tmp_path) in shipment.path
    packed = tmp_path / "packed"
    packed.write_bytes(shipment.data)
    path = shipment.path if told else ("/nowhere",)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(packed), *path],
        capture_output=True,
        text=True,
        check=False,
    )
    if told:
        assert "shout" in done.stdout, done.stderr
    else:
        assert "No module named 'beside_the_script'" in done.stderr
        assert "put beside_the_script next to the program" in done.stderr
        assert "code:  PROGRAM_NOT_LOADED" in done.stderr
