"""A combiner that told strings apart as objects meets a key of another type."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, strategies as st

from mustela.plan.batch import Batch
from mustela.state.interfaces import StoreSpec
from mustela.topology.aggregate import AggregateNode
from tests.unit.kernel.stages import ANY, batch, out_batch, runner

COUNT = AggregateNode(name="count", kind="count", store=StoreSpec(name="counts"), key=ANY)
SUM = AggregateNode(
    name="sum",
    kind="reduce",
    store=StoreSpec(name="sums"),
    key=ANY,
    adder=lambda left, right: left + right,
    associative=True,
)
KEYS = st.one_of(st.sampled_from(["a", "b", "c"]), st.sampled_from([1, True, 1.0, b"a"]))


def totals(joined: Batch) -> Counter[Any]:
    found: Counter[Any] = Counter()
    sent = joined.key_bytes
    assert sent is not None
    for data, value in zip(sent, joined.values, strict=True):
        found[data] += value
    return found


@given(st.lists(st.lists(KEYS, max_size=6), max_size=6))
def test_keys_of_many_types_are_counted_and_summed_by_their_bytes(chunks: list[list[Any]]) -> None:
    """Whatever batches come first, 1, True and 1.0 stay three keys and no record is lost."""
    expected: Counter[Any] = Counter(ANY.serialize(key) for chunk in chunks for key in chunk)
    for node in (COUNT, SUM):
        stage = runner(node, role="combine")
        for chunk in chunks:
            stage.run({"in": batch([(key, 1) for key in chunk])})
        stage.finish()
        joined = out_batch(stage.take_output())
        assert len(joined) == 0 if not expected else totals(joined) == expected
