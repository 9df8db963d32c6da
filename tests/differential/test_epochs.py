"""Whatever records share an epoch, a row has the headers of the record that made it.

The differential test makes an epoch of each record, so records that mix up in one are seen here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, seed, settings

from mustela import TopologyTestDriver
from tests.differential.campaign import ANY_HEALTH
from tests.differential.draw import OPERATORS, STATELESS, Example, examples
from tests.differential.sides import SETTINGS, as_record, as_row, of_mustela, sinks_of
from tests.differential.steps import build

SEED = int(os.environ.get("MUSTELA_DIFFERENTIAL_SEED", "1"))
EXAMPLES = 10

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() | STATELESS.keys()))
def test_a_row_has_its_headers_whatever_is_in_its_epoch(operator: str) -> None:
    """The last row of each key, where it is the one that records give one by one."""

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=ANY_HEALTH,
    )
    @given(example=examples((operator,)))
    def same(example: Example) -> None:
        alone = of_mustela(example)
        if len(alone) < len(example.inputs):
            return  # a full buffer stops the application
        last = {
            (sink, row.key): row for rows in alone for sink, some in enumerate(rows) for row in some
        }
        for place, row in _in_epochs(example):
            one = last.get((place, row.key))
            if one is not None and one[:3] == row[:3]:
                assert row.headers == one.headers

    same()


def _in_epochs(example: Example) -> Iterator[tuple[int, Any]]:
    """Yield sink and row of each key's last row; neighbours of one topic are one epoch."""
    with TopologyTestDriver(
        build(example.steps), settings=SETTINGS, initial_wall_clock=0
    ) as driver:
        sinks = sinks_of(example, driver)
        for topic, inputs in groupby(example.inputs, lambda given: given.topic):
            with driver.epoch():
                driver.create_input_topic(topic).pipe_record_list(map(as_record, inputs))
        for place, sink in enumerate(sinks):
            rows = {row.key: row for row in map(as_row, sink.read_records_to_list())}
            yield from ((place, row) for row in rows.values())
