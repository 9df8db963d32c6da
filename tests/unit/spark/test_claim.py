"""Whether a task may still send rows."""

from __future__ import annotations

import pytest

from mustela.connectors.kafka.errors import TransactionFenced
from mustela.runtime.record.epoch_delta import delta_between, encode_epoch_delta
from mustela.runtime.record.epoch_record import encode_epoch_record
from mustela.spark.claim import CLAIM_EVERY_S, ClaimCheck, claimed_by
from tests.unit.runtime.test_epoch_delta import a_record


def test_every_kind_of_row_says_who_wrote_it() -> None:
    """A whole record and a delta."""
    record = a_record()
    assert claimed_by(encode_epoch_record(record)) == record.incarnation
    delta = delta_between(record, record)
    assert delta is not None
    assert claimed_by(encode_epoch_delta(delta)) == record.incarnation


def test_a_task_that_stood_still_sees_who_took_over() -> None:
    """Until then nothing is asked; afterwards once for a while."""
    now, asked = [0.0], list[float]()
    row = encode_epoch_record(a_record())

    def last_row() -> bytes:
        asked.append(now[0])
        return row

    mine = ClaimCheck(claimed_by(row), last_row, clock=lambda: now[0])
    older = ClaimCheck(claimed_by(row) - 1, last_row, clock=lambda: now[0])
    mine.look()
    older.look()
    assert asked == []
    now[0] = CLAIM_EVERY_S
    mine.look()
    mine.look()
    assert asked == [CLAIM_EVERY_S]
    with pytest.raises(TransactionFenced):
        older.look()
