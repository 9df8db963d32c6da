"""mustela reset: where to begin, as it is typed."""

from __future__ import annotations

import pytest

from mustela.cli.repairing import BadOffsetsError, Goal, offsets_given
from mustela.cli.reset import Start


@pytest.mark.parametrize(
    "typed", ["", "lines", "lines-0", "lines=4", "lines-x=4", "-0=4", "a-0=-1"]
)
def test_an_offset_has_a_topic_and_a_partition(typed: str) -> None:
    """Anything else is refused, with an example."""
    with pytest.raises(BadOffsetsError, match="TOPIC-PARTITION=OFFSET"):
        offsets_given([typed])


def test_one_place_to_begin_is_named() -> None:
    """Or none, unless state is to be kept: then nothing would change."""
    assert Start().goal() is None
    assert Start(to_latest=True, keep_state=True).goal() == Goal("latest")
    assert Start(to_offsets=["a-0=1"], keep_state=True).goal() is None
    wrong = [
        Start(to_earliest=True, to_latest=True),
        Start(to_earliest=True, to_offsets=["a-0=1"]),
        Start(keep_state=True),
    ]
    for start in wrong:
        with pytest.raises(BadOffsetsError):
            start.goal()
