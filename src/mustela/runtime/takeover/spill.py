"""Rows of old changelogs by key group, on disk: more of them may come than memory holds."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from mustela.plan.keygroups import key_groups_of
from mustela.runtime.takeover.bearers import Bearer, OldRow

__all__ = ["Spill"]

_BATCH_ROWS: Final = 10_000
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]]).decode


class Spill:
    """The rows of one store, as its old application would restore them.

    Args:
        bearer: Knows the record key of a row, and whether all rows count or the last of each key.
        key_groups: Number of key groups.

    Attributes:
        times: Up to when event time had come in each partition, by its rows.

    Example:
        >>> from mustela.serdes.primitives import StrSerde
        >>> from mustela.state.interfaces import StoreSpec
        >>> from mustela.topology.node import Node
        >>> spec = StoreSpec(name="s", kind="key_value", key_serde=StrSerde())
        >>> bearer = Bearer(spec, Node(name="n"))
        >>> with Spill(bearer, 1) as spill:
        ...     spill.add([OldRow(b"a", b"1", 5), OldRow(b"b", b"2", 6), OldRow(b"a", None, 7)])
        ...     [row.key for row in spill.rows(0)], spill.times
        ([b'b'], {0: 7})
    """

    def __init__(self, bearer: Bearer, key_groups: int) -> None:
        self._bearer = bearer
        self._key_groups = key_groups
        self._place = tempfile.TemporaryDirectory(prefix="mustela-migrate-")
        self._rows = sqlite3.connect(Path(self._place.name) / "rows", isolation_level=None)
        self._rows.execute("PRAGMA journal_mode=OFF")
        self._rows.execute("PRAGMA synchronous=OFF")
        self._rows.execute(
            "CREATE TABLE rows (grp INT, key BLOB, number INT, value BLOB, time INT, headers BLOB,"
            " part INT, PRIMARY KEY (grp, key, number)) WITHOUT ROWID"
        )
        self._number = 0
        self.times: dict[int, int] = {}

    def add(self, rows: Iterable[OldRow]) -> None:
        """Add rows, in the order of the changelog."""
        coming = iter(rows)
        while some := list(islice(coming, _BATCH_ROWS)):
            keys = [self._bearer.record_key(row.key) for row in some]
            groups = key_groups_of(keys, self._key_groups, suffix=self._bearer.suffix)
            self._rows.execute("BEGIN")
            for group, row in zip(groups, some, strict=True):
                self._put(group, row)
                time = self._bearer.time_of(row)
                if time > self.times.get(row.partition, -1):
                    self.times[row.partition] = time
            self._rows.execute("COMMIT")

    def _put(self, group: int, row: OldRow) -> None:
        number = 0
        if self._bearer.keeps_all:
            self._number = number = self._number + 1
        elif row.value is None:
            self._rows.execute("DELETE FROM rows WHERE grp=? AND key=?", (group, row.key))
            return
        packed: Any = _pack(list(row.headers)) if row.headers else None
        values = (group, row.key, number, row.value, row.timestamp, packed, row.partition)
        self._rows.execute("INSERT OR REPLACE INTO rows VALUES (?,?,?,?,?,?,?)", values)

    def rows(self, group: int) -> Iterator[OldRow]:
        """Yield the rows of a key group: by key, or in the order of the changelog if all count."""
        order = "number" if self._bearer.keeps_all else "key"
        found = self._rows.execute(
            f"SELECT key, value, time, headers, part FROM rows WHERE grp=? ORDER BY {order}",
            (group,),
        )
        for key, value, time, packed, partition in found:
            headers = () if packed is None else tuple(_unpack(packed))
            yield OldRow(key, value, time, headers, partition)

    def count(self) -> int:
        """Return how many rows there are."""
        return int(self._rows.execute("SELECT count(*) FROM rows").fetchone()[0])

    def close(self) -> None:
        """Delete them."""
        self._rows.close()
        self._place.cleanup()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete the rows."""
        self.close()
