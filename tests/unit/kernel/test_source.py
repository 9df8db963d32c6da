"""Where records enter: bytes to keys and values."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.kernel.core.failures import DeserializationError, ProcessingError
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.stage import StageRunner
from mustela.plan.batch import Batch, SourceChunk
from mustela.plan.plan import Exchange, Stage
from mustela.plan.step import Step
from mustela.serdes.json import JsonSerde
from mustela.topology.source import SourceNode
from mustela.topology.stateless import MapValuesNode
from tests.unit.kernel.stages import INT, STR, out_batch


def runner(source: SourceNode, *steps: Step, **options: Any) -> StageRunner:
    name = steps[-1].name if steps else source.name
    out = Exchange(name="out", step=name, key=source.key or STR, target=1)
    stage = Stage(index=0, sources=(source,), steps=steps, exchanges=(out,))
    return StageRunner(stage, topics=("other", "in"), options=KernelOptions(**options))


def chunk(times: list[int]) -> SourceChunk:
    return SourceChunk(
        topics=("other", "in"),
        topic_index=1,
        partition=3,
        offsets=[100 + n for n in range(len(times))],
        timestamps=times,
    )


SOURCE = SourceNode(name="in", topics=("in",), key=STR, value=INT)
ONE = (1).to_bytes(8, "big")


def test_records_are_decoded_by_the_sources_serdes() -> None:
    """Nulls stay null, and key bytes stay known."""
    stage = runner(SOURCE)
    got = stage.decode("in", chunk([5, 6]), [b"a", None], [ONE, None])
    assert (got.keys, got.values, got.timestamps) == (["a", None], [1, None], [5, 6])
    assert got.key_bytes == [b"a", None]


def test_bytes_that_another_writer_may_have_spelled_differently_are_not_the_key() -> None:
    """JSON with a space is the same key as JSON without."""
    source = SourceNode(name="in", topics=("in",), key=JsonSerde())
    stage = runner(source)
    got = stage.decode("in", chunk([5, 6]), [b'{"a":1}', b'{"a": 1}'], [b"x", b"y"])
    assert got.key_bytes is None
    stage.run({"in": got})
    assert out_batch(stage.take_output()).key_bytes == [b'{"a":1}', b'{"a":1}']


def test_known_key_bytes_are_not_made_again() -> None:
    """An exchange by the source's own serde sends what was read."""
    stage = runner(SOURCE)
    keys: list[bytes | None] = [b"a"]
    stage.run({"in": stage.decode("in", chunk([5]), keys, [ONE])})
    sent = out_batch(stage.take_output()).key_bytes
    assert sent is not None
    assert sent[0] is keys[0]


@pytest.mark.parametrize(
    ("keys", "values", "times", "told"),
    [
        ([b"a", b"\xff"], [ONE, ONE], [5, 6], "not UTF-8"),
        ([b"a", b"b"], [ONE, b"x"], [5, 6], "decode 1 bytes"),
        ([b"a", b"\xff"], [ONE, b"x"], [5, -1], "timestamp is negative: -1"),
    ],
)
def test_a_bad_record_meets_the_handler_alone(
    keys: Any, values: Any, times: list[int], told: str
) -> None:
    """Once, whatever is wrong with it; it is named, or dropped, or kept with its own bytes."""
    with pytest.raises(DeserializationError, match=told) as caught:
        runner(SOURCE).decode("in", chunk(times), keys, values)
    fields = caught.value.fields
    assert (fields["topic"], fields["partition"], fields["offset"]) == ("in", 3, 101)

    lenient = runner(SOURCE, deserialization_handler="continue")
    assert lenient.decode("in", chunk(times), keys, values).keys == ["a"]
    assert lenient.take_output().counters["failed_records:in"] == 1

    burying = runner(SOURCE, deserialization_handler="dead_letter")
    assert burying.decode("in", chunk(times), keys, values).keys == ["a"]
    letters = burying.take_output().dead_letters
    assert (letters.keys, letters.values) == ([keys[1]], [values[1]])
    headers = dict(letters.headers[0])
    assert headers["mustela.error.step"] == b"in"
    assert headers["mustela.error.code"] == b"DESERIALIZATION"
    assert headers["mustela.error.topic"] == b"in"
    assert headers["mustela.error.partition"] == b"3"
    assert headers["mustela.error.offset"] == b"101"


def test_a_dead_letter_of_a_later_step_carries_the_bytes_that_were_read() -> None:
    """Not what the steps before made of them."""
    double = MapValuesNode(name="double", mapper=lambda v: v * 2)
    fails = MapValuesNode(name="fails", mapper=lambda v: 1 // (v - 2))
    steps = (
        Step(name="double", inputs=("in",), node=double),
        Step(name="fails", inputs=("double",), node=fails),
    )
    stage = runner(SOURCE, *steps, processing_handler="dead_letter")
    stage.run({"in": stage.decode("in", chunk([5]), [b"a"], [ONE])})
    letters = stage.take_output().dead_letters
    assert (letters.keys, letters.values, letters.timestamps) == ([b"a"], [ONE], [5])
    line = dict(letters.headers[0])["mustela.error.line"]
    assert line is not None
    assert b"v: 1 // (v - 2)" in line


def test_where_a_record_came_from_is_named_through_all_steps() -> None:
    """Also behind a flat map."""
    fails = MapValuesNode(name="fails", mapper=lambda v: 1 // 0)
    stage = runner(SOURCE, Step(name="fails", inputs=("in",), node=fails))
    with pytest.raises(ProcessingError) as caught:
        stage.run({"in": stage.decode("in", chunk([5]), [b"a"], [ONE])})
    assert str(caught.value).splitlines()[0] == (
        "step 'fails' failed on a record of topic 'in': "
        "ZeroDivisionError: integer division or modulo by zero"
    )


def test_a_source_without_serdes_gives_bytes() -> None:
    """Which is what a topic holds."""
    source = SourceNode(name="in", topics=("in",))
    got: Batch = runner(source).decode("in", chunk([5]), [b"a"], [b"x"])
    assert (got.keys, got.values) == ([b"a"], [b"x"])
