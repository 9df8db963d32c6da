"""What must be alike in both forms of the hot modules, compiled and plain Python.

`tests/integration/test_compiled_form.py` runs this file, and others, in the compiled form.
"""

from __future__ import annotations

import os
import sys
import tomllib
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from mustela import JoinWindows, SessionWindows, StreamsBuilder, TopologyTestDriver
from mustela.compiled import SWITCH, form
from mustela.kernel.core.each import call_each
from mustela.kernel.core.encode import failing
from mustela.kernel.core.failures import ProcessingError
from mustela.plan.batch import Batch, Origins
from mustela.planner.planner import plan
from mustela.spark.busy import row_at
from mustela.spark.pickling import dump_by_value
from mustela.state.overlay import StoreOverlay
from tests.public import public_names

ROOT = Path(__file__).parents[3]
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mustela"][
    "compiled"
]["modules"]
NEAR = JoinWindows.of_time_difference(timedelta(seconds=10), grace=timedelta(0))
SESSIONS = SessionWindows(inactivity_gap=timedelta(seconds=10), grace=timedelta(0))


def divided(one: int, other: int) -> int:
    return one // other  # the user's line


def joined() -> StreamsBuilder:
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=int)
    right = builder.stream("right", key=str, value=int)
    left.left_join(right, lambda x, y: divided(x, y or 1), windows=NEAR, store="j", value=int).to(
        "out"
    )
    return builder


def folded(windows: SessionWindows | None) -> StreamsBuilder:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("left", key=str, value=int).group_by_key()
    if windows is not None:
        grouped = grouped.windowed_by(windows)
    grouped.reduce(divided, store="t").to_stream().to("out")
    return builder


def test_the_form_is_the_one_that_was_asked_for() -> None:
    """Or these tests would say nothing of it."""
    switch = os.environ.get(SWITCH, "")
    assert not switch or form().compiled is (switch != "0")
    assert hasattr(StoreOverlay.load, "__code__") is not form().compiled


@pytest.mark.parametrize("windows", [None, SESSIONS])
def test_an_error_names_the_users_line(windows: SessionWindows | None) -> None:
    """The loop that called it may have no frame; a traceback has its file and line anyway."""
    with TopologyTestDriver(folded(windows).build()) as driver:
        left = driver.create_input_topic("left")
        left.pipe_input("a", 4, timestamp=1)
        with pytest.raises(ProcessingError) as caught:
            left.pipe_input("a", 0, timestamp=2)
    assert str(caught.value.fields["line"]).endswith("return one // other  # the user's line")
    cause = caught.value.__cause__
    assert cause is not None
    told = "".join(traceback.format_exception(cause))
    assert "mustela/kernel/" in told
    assert "return one // other" in told


def test_a_joiner_that_fails_is_named() -> None:
    """It is called for all results of a batch at once."""
    with TopologyTestDriver(joined().build()) as driver:
        driver.create_input_topic("right").pipe_input("a", 5, timestamp=1)
        driver.create_input_topic("left").pipe_input("a", 10, timestamp=1)
        assert driver.create_output_topic("out").read_values_to_list() == [2]


def test_what_is_shipped_to_workers_has_no_class_that_may_be_compiled() -> None:
    """A compiled class cannot be pickled, and hosts may run different forms."""
    for builder in (joined(), folded(SESSIONS), folded(None)):
        data = dump_by_value(plan(builder.build()))
        assert not [name for name in MODULES if name.encode() in data]


def test_no_class_of_the_public_interface_is_compiled() -> None:
    """Users derive from them, pickle them, and look into them."""
    for name, found in public_names().items():
        if isinstance(found, type):
            assert not {one.__module__ for one in found.__mro__} & set(MODULES), name


def test_the_record_in_hand_is_known_though_its_operator_has_no_frame() -> None:
    """A hung function is told with its record: what handles its failures has the batch."""
    origins = Origins([1, 2], None, [(1, 0, 0, 7), (2, 0, 0, 8)], ("in",))
    failing_rows: Any = failing(Batch(["a", "b"], [1, 2], origins), cast("Any", None))
    told: list[str] = []

    def look(_value: int) -> None:
        told.append(row_at(sys._getframe()))

    call_each(look, ([1, 2],), failing_rows)
    assert told == ["offset 7 of in-0, key 'a'", "offset 8 of in-0, key 'b'"]
