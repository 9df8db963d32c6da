"""Regrouping a table: one change of a row becomes changes of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

from mustela.kernel.core.changes import latest_only
from mustela.kernel.core.each import call_each, keep_mask
from mustela.kernel.core.encode import encode_column, failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.records.stateless import all_pairs, check_pair
from mustela.kernel.tables.table import call_present
from mustela.plan.batch import Batch
from mustela.topology.table_group import TableGroupNode

__all__ = ["TableGroupOperator"]

_NOWHERE = (None, None)


class _Places(NamedTuple):
    """The group and value of each row, as columns; all None for a row in no group."""

    key_bytes: list[bytes | None]
    groups: list[Any]
    values: list[Any]

    def select(self, mask: Sequence[int]) -> _Places:
        """Return the rows whose mask is true."""
        return _Places(*(list(compress(column, mask)) for column in self))


class TableGroupOperator(KeyedOperator[TableGroupNode]):
    """Emits changes by group: what leaves a group comes before what joins one."""

    def open(self) -> None:
        """Choose the serde of the groups."""
        self.use_key_serde(self.node.key)

    def process_one(self, batch: Batch) -> Batch:
        """Map the new and the old value of each change, and check whether the group is the same."""
        batch = latest_only(batch)
        assert batch.olds is not None, self.step.name
        news, failed = self._places(batch, batch.values)
        olds = batch.olds
        if failed:  # the handler has already decided about a row that failed
            olds = list(olds)
            for row in failed:
                olds[row] = None
        gone, more = self._places(batch, olds)
        if failed or more:
            mask = keep_mask(len(batch), sorted({*failed, *more}))
            batch, news, gone = batch.select(mask), news.select(mask), gone.select(mask)
        return _by_group(batch, news, gone)

    def _places(self, batch: Batch, values: list[Any]) -> tuple[_Places, list[int]]:
        """Return the group of each value, and the rows on which the mapper failed."""
        count = len(values)
        if values.count(None) == count:
            nothing: list[Any] = [None] * count
            return _Places(nothing, nothing, nothing), []
        mapper = self.node.mapper
        on_failure = failing(batch, self.user_failures(mapper))
        pairs, failed = call_present(mapper, (batch.keys, values), values, on_failure)
        if None in pairs:
            pairs = [_NOWHERE if pair is None else pair for pair in pairs]
        if not all_pairs(pairs):
            _, wrong = call_each(check_pair, (pairs,), on_failure)
            for row in wrong:
                pairs[row] = _NOWHERE
            failed = sorted({*failed, *wrong})
        groups = [pair[0] for pair in pairs]
        mapped = [pair[1] for pair in pairs]
        key_bytes, unencodable = encode_column(self._key, groups, batch, self.encode_failures())
        if None in mapped:
            pairs_of_bytes = zip(key_bytes, mapped, strict=True)
            key_bytes = [None if value is None else key for key, value in pairs_of_bytes]
        return _Places(key_bytes, groups, mapped), failed + unencodable


def _by_group(batch: Batch, news: _Places, gone: _Places) -> Batch:
    """Return the changes of the groups; one change for a row that stays in its group."""
    rows: list[int] = []
    groups: list[Any] = []
    values: list[Any] = []
    olds: list[Any] = []
    key_bytes: list[bytes] = []
    for row, (place, group, value, left, left_group, old) in enumerate(
        zip(*news, *gone, strict=True)
    ):
        if left is not None and left != place:
            rows.append(row)
            groups.append(left_group)
            values.append(None)
            olds.append(old)
            key_bytes.append(left)
        if place is not None:
            rows.append(row)
            groups.append(group)
            values.append(value)
            olds.append(old if left == place else None)
            key_bytes.append(place)
    if batch.rows is not None:
        rows = [batch.rows[row] for row in rows]
    return Batch(groups, values, batch.origins, rows=rows, olds=olds, key_bytes=key_bytes)
