"""Records through every kind of join, and what Kafka Streams makes of them.

A script is text: ``La@3`` sends the value ``a`` to the left side at time 3, ``R-@4`` deletes what
the right side holds, ``Lq:a@5`` says the key, ``L~a@6`` has none. The key is ``k`` if none is said.
What is told is text too: ``3:a+x@4`` is the value ``a+x`` with the time 4, written for record 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from mustela import Joined, JoinWindows, Materialized, Stores, StreamsBuilder
from mustela.topology.graph import TopologyGraph
from tests.conformance.script import Sent

__all__ = ["NAMES", "script_of", "shown", "topology_of"]

_SCRIPTS = {
    "tables": """L-@1 R-@2 La@3 Rx@4 Lb@5 Ry@2 L-@6 R-@7 L-@8 Lc@9 Rz@6 R-@4 Ld@3 Rw@12 L-@5 R-@13
        Le@14 Rv@11 Lf@10 L~g@15 R~u@15 L-@16""",
    "chain": "L-@1 R-@2 La@3 Rx@4 Lb@5 Ry@6 L-@7 R-@8 Lc@9 Rz@10 R-@11 L-@12 R-@13 Rw@14 Ld@15",
    "foreign": """Lp:a1@1 Ra:x@2 Lq:a2@3 Ra:y@4 Lp:b3@5 Rb:z@6 Lp:7@7 Lp:a4@8 Ra:-@9 Lq:b5@4
        Rb:w@5 Lp:-@10 Lp:-@11 Lq:c6@12 Rc:-@13 Rc:u@14 Lq:8@15 Lq:9@16 Lq:-@17 Rb:-@18 L~b6@19
        Lr:b7@20 Lr:b7@21 Rb:t@22 R~s@23""",
    "lookup": """L1@1 Rx@2 L2@3 L-@4 Ry@5 L3@4 R-@7 L4@8 L5@6 Rz@6 L6@7 L7@9 Rw@12 L8@12 L9@10
        L~a@13 R~v@14 Lb@15 Lc@40 Rd@30 Ld@31 Le@60""",
    "streams": """L1@0 R1@3 L2@7 R2@2 L3@20 R3@14 L4@15 R4@31 L5@26 L-@27 R~5@28 L~6@29 L7@40 R6@33
        R7@47 L8@47 Lq:9@48 R8@42 L10@80 Rq:9@70 R10@120 L11@111""",
    "self": "L1@0 L2@3 L3@8 Lq:4@8 L5@5 L-@9 L~6@9 L7@20 L8@13 L9@40 Lq:10@44 L11@40",
}
_KINDS = ("inner", "left", "outer")
_KEPT = ("plain", "stored", "left-versioned", "right-versioned", "both-versioned")
_WINDOWS = ("5,5,0", "5,5,3", "0,6,0", "6,0,2", "-2,8,1")

NAMES = [
    *(f"tables {kind} {kept}" for kind in _KINDS for kept in _KEPT),
    *(f"chain {kind} {other}" for kind in _KINDS for other in _KINDS),
    *(f"foreign {kind} {kept}" for kind in _KINDS[:2] for kept in _KEPT if kept != "stored"),
    *(
        f"lookup {kind} {kept}"
        for kind in _KINDS[:2]
        for kept in ("plain", "versioned", "grace-2", "grace-6")
    ),
    *(f"streams {kind} {windows}" for kind in _KINDS for windows in _WINDOWS),
    *(f"self inner {windows}" for windows in _WINDOWS[:3]),
]
"""What is joined, how, and how it is kept or for how long it waits: before, after, grace."""


def script_of(name: str) -> list[Sent]:
    """Return the records of a join.

    Kafka Streams fails on a record without a key that is to wait, so none of those has to.
    """
    sent = [_sent(word) for word in _SCRIPTS[name.split()[0]].split()]
    return [record for record in sent if record.key is not None or "grace" not in name]


def _sent(word: str) -> Sent:
    found = re.fullmatch(r"([LR])(~|\w+:)?([\w-]+)@(\d+)", word)
    assert found is not None, word
    topic, key, value, time = found.groups()
    named = None if key == "~" else (key or "k:")[:-1]
    return Sent(topic, named, None if value == "-" else value, int(time))


def shown(rows: Iterable[tuple[int, Any, Any, int]]) -> str:
    """Return rows as text: the number of the record, key, value and time of each."""
    return " ".join(
        f"{number}:{'' if key == 'k' else (key or '~') + ':'}{value or '-'}@{time}"
        for number, key, value, time in rows
    )


def pair(left: str | None, right: str | None) -> str:
    """Join two values."""
    return f"{left or 'null'}+{right or 'null'}"


def topology_of(name: str) -> TopologyGraph:
    """Return the topology of a join."""
    what, kind, how = name.split()
    builder = StreamsBuilder()
    joined = _MAKERS[what](builder, kind, how)
    (joined.to_stream() if what in {"tables", "chain", "foreign"} else joined).to("out")
    return builder.build()


def _join(left: Any, kind: str) -> Callable[..., Any]:
    verb = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
    return getattr(left, verb)


def _table(builder: StreamsBuilder, topic: str, *, history: int | None = None) -> Any:
    if history is None:
        return builder.table(topic, key=str, value=str)
    span = timedelta(milliseconds=history)
    supplier = Stores.persistent_versioned_key_value_store(topic, history_retention=span)
    return builder.table(topic, key=str, value=str, materialized=Materialized(supplier=supplier))


def _two_tables(builder: StreamsBuilder, kept: str) -> tuple[Any, Any]:
    left = 1000 if kept in {"left-versioned", "both-versioned"} else None
    right = 1000 if kept in {"right-versioned", "both-versioned"} else None
    return _table(builder, "L", history=left), _table(builder, "R", history=right)


def _tables(builder: StreamsBuilder, kind: str, kept: str) -> Any:
    left, right = _two_tables(builder, kept)
    stored = {"store": "joined"} if kept == "stored" else {}
    return _join(left, kind)(right, pair, value=str, **stored)


def _chain(builder: StreamsBuilder, kind: str, other: str) -> Any:
    left, right = _two_tables(builder, "plain")
    return _join(_join(left, kind)(right, pair, value=str), other)(right, pair, value=str)


def _foreign(builder: StreamsBuilder, kind: str, kept: str) -> Any:
    left, right = _two_tables(builder, kept)
    return _join(left, kind)(right, pair, foreign_key=_letter, value=str)


def _letter(value: str) -> str | None:
    return None if value[0].isdigit() else value[0]


def _lookup(builder: StreamsBuilder, kind: str, kept: str) -> Any:
    stream = builder.stream("L", key=str, value=str)
    table = _table(builder, "R", history=None if kept == "plain" else 50)
    waits = Joined[Any, Any, Any]()
    if kept.startswith("grace"):
        waits = Joined[Any, Any, Any](grace=timedelta(milliseconds=int(kept[6:])))
    return _join(stream, kind)(table, pair, value=str, joined=waits)


def _streams(builder: StreamsBuilder, kind: str, windows: str) -> Any:
    return _of_streams(builder, kind, windows, "R")


def _self(builder: StreamsBuilder, kind: str, windows: str) -> Any:
    return _of_streams(builder, kind, windows, "L")


def _of_streams(builder: StreamsBuilder, kind: str, windows: str, topic: str) -> Any:
    left = builder.stream("L", key=str, value=str)
    right = left if topic == "L" else builder.stream(topic, key=str, value=str)
    before, after, grace = (timedelta(milliseconds=int(span)) for span in windows.split(","))
    spans = JoinWindows(before=before, after=after, grace=grace)
    return _join(left, kind)(right, pair, windows=spans, value=str)


_MAKERS: dict[str, Callable[[StreamsBuilder, str, str], Any]] = {
    "tables": _tables,
    "chain": _chain,
    "foreign": _foreign,
    "lookup": _lookup,
    "streams": _streams,
    "self": _self,
}
