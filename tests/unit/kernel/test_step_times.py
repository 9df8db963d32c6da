"""The time in each step of a stage, as its task measures it."""

from __future__ import annotations

from itertools import count

from mustela.kernel.core.options import KernelOptions
from mustela.kernel.stage import StageRunner
from mustela.plan.batch import Batch, Origins
from mustela.plan.measured import Measured
from mustela.plan.plan import Stage, Step
from mustela.serdes.primitives import StrSerde
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode
from mustela.topology.stateless import MapValuesNode


def test_a_task_measures_the_time_in_each_step() -> None:
    """Once for each batch, with the clock it is given; without one it measures nothing."""
    lines = SourceNode(name="lines", topics=("lines",), key=StrSerde(), value=StrSerde())
    loud = MapValuesNode(name="loud", parents=("lines",), mapper=str.upper)
    sink = SinkNode(name="out", parents=("loud",), topic="out", key=StrSerde(), value=StrSerde())
    steps = (
        Step(name="loud", inputs=("lines",), node=loud),
        Step(name="out", inputs=("loud",), node=sink),
    )
    stage = Stage(index=0, sources=(lines,), steps=steps)
    ticks = count()
    for options, expected in (
        (KernelOptions(timer=lambda: float(next(ticks))), {"loud": 1.0, "out": 1.0}),
        (KernelOptions(), {}),
    ):
        runner = StageRunner(stage, topics=("lines",), options=options)
        runner.run({"lines": Batch(["k"], ["v"], Origins([1000]))})
        measured = Measured()
        runner.measure(measured)
        assert measured.seconds == expected
