"""mustela batch: what is typed wrong; that it runs is in tests/integration/test_batch.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.cli.batch import BatchArgumentError, _read_input, batch


@pytest.mark.parametrize("text", ["orders", "=x", "orders=", "orders=a,b", "orders=a,colour=b"])
def test_an_input_that_is_typed_wrong_is_answered_by_an_example(text: str) -> None:
    """The example can be typed."""
    with pytest.raises(BatchArgumentError, match="is not TOPIC=PATH") as refused:
        _read_input(text)
    example = (refused.value.fix or "").rpartition(" ")[2]
    topic, given = _read_input(example)
    assert (topic, given.data, given.key, given.timestamp) == (
        *("orders", "orders.parquet"),
        *("customer", "at"),
    )


def test_results_are_not_mixed_with_what_is_there(tmp_path: Path) -> None:
    """A directory that holds something is refused before anything runs."""
    (tmp_path / "old").touch()
    with pytest.raises(BatchArgumentError, match="is not empty"):
        batch("nowhere:app", input=["a=b"], output=tmp_path)
