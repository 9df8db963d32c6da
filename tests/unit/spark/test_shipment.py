"""The program on its way to the workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mustela.dsl.builder import StreamsBuilder
from mustela.plan.epoch import Program
from mustela.planner.planner import plan
from mustela.spark.shipment import UnpicklableFunctionError, ship
from tests.unit.plan.test_epoch import program


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


def test_something_else_that_cannot_travel_is_an_error_too() -> None:
    """No step is to blame then."""
    with pytest.raises(UnpicklableFunctionError, match="the program"):
        ship(replace(program(), kernel={"lock": threading.Lock()}))
