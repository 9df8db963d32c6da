"""The headers of what windows tell: those of the record that changed them, if one did."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import (
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.windows import EmitStrategy
from tests.epochs import ms


@pytest.mark.parametrize("event_time", ["stream-time", "watermark"])
@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows(size=ms(10), grace=ms(0)),
        SlidingWindows(time_difference=ms(10), grace=ms(0)),
        SessionWindows(inactivity_gap=ms(10), grace=ms(0)),
    ],
    ids=["time", "sliding", "session"],
)
def test_only_updates_have_the_headers_of_a_record(
    windows: Any, final: bool, event_time: str
) -> None:
    """A window that closes does so because time has passed, whichever record told of that."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    if final:
        grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
    grouped.count().to_stream(lambda window, _count: window.key).to("out", key=str, value=int)
    settings = {"event_time": event_time, "emit": "every"}
    with TopologyTestDriver(builder.build(), settings=settings) as driver:
        pipe = driver.create_input_topic("in").pipe_input
        pipe("a", "x", timestamp=100, headers=(("n", b"0"),))
        pipe("b", "x", timestamp=500, headers=(("n", b"1"),))
        rows = driver.create_output_topic("out").read_records_to_list()
    headers = {row.key: dict(row.headers) for row in rows}
    assert headers == ({"a": {}} if final else {"a": {"n": b"0"}, "b": {"n": b"1"}})
