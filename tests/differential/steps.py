"""Builds a Mustela topology from its description, step by step; java/Steps.java does it in Java."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import mustela as m
from mustela import StreamsBuilder, windows
from mustela.topology.graph import TopologyGraph
from tests.differential import functions as f
from tests.differential.processors import Fixed, Free

__all__ = ["Step", "build"]

Step = dict[str, Any]
"""One step: ``id``, ``op``, ``in`` (ids of the steps it reads), and what the operator needs."""


def build(steps: Sequence[Step]) -> TopologyGraph:
    """Return the topology of a description."""
    return _Build().topology(steps)


def _ms(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


class _Build:
    def __init__(self) -> None:
        self._builder = StreamsBuilder()
        self._made: dict[str, Any] = {}

    def topology(self, steps: Sequence[Step]) -> TopologyGraph:
        for step in steps:
            make: Callable[..., Any] = getattr(self, f"_{step['op']}")
            self._made[step["id"]] = make(step, *(self._made[i] for i in step.get("in", ())))
        return self._builder.build()

    def _stored(self, step: Step) -> dict[str, Any]:
        """Return the options of a store: none, or a name of its own."""
        if step.get("versioned") is not None:
            supplier = m.Stores.persistent_versioned_key_value_store(
                _store(step), history_retention=_ms(step["versioned"])
            )
            return {"materialized": m.Materialized(supplier=supplier)}
        store = _store(step) if step.get("store") else None
        if step.get("retention") is not None:
            kept = _ms(step["retention"])
            return {"materialized": m.Materialized(store=store, retention=kept)}
        return {} if store is None else {"store": store}

    # --- sources and sinks ------------------------------------------------------------------------

    def _stream(self, step: Step) -> Any:
        return self._builder.stream(step["topic"], key=str, value=str)

    def _table(self, step: Step) -> Any:
        return self._builder.table(step["topic"], key=str, value=str, **self._stored(step))

    def _global_table(self, step: Step) -> Any:
        stored = self._stored(step)
        return self._builder.global_table(step["topic"], key=str, value=str, **stored)

    def _to(self, step: Step, stream: Any) -> None:
        stream.to(step["topic"], key=str, value=str)

    # --- steps of streams -------------------------------------------------------------------------

    def _filter(self, step: Step, stream: Any) -> Any:
        return stream.filter(partial(f.holds, step["f"]), name=step["id"])

    def _filter_not(self, step: Step, stream: Any) -> Any:
        return stream.filter_not(partial(f.holds, step["f"]), name=step["id"])

    def _map_values(self, step: Step, stream: Any) -> Any:
        return stream.map_values(partial(f.map_value, step["f"], None), name=step["id"])

    def _map_values_with_key(self, step: Step, stream: Any) -> Any:
        return stream.map_values_with_key(partial(f.map_value, step["f"]), name=step["id"])

    def _map(self, step: Step, stream: Any) -> Any:
        return stream.map(partial(f.map_pair, step["f"]), name=step["id"])

    def _flat_map(self, step: Step, stream: Any) -> Any:
        return stream.flat_map(partial(f.flat_pairs, step["f"]), name=step["id"])

    def _flat_map_values(self, step: Step, stream: Any) -> Any:
        return stream.flat_map_values(partial(f.flat_values, step["f"]), name=step["id"])

    def _select_key(self, step: Step, stream: Any) -> Any:
        return stream.select_key(partial(f.map_key, step["f"]), name=step["id"])

    def _merge(self, step: Step, left: Any, right: Any) -> Any:
        return left.merge(right, name=step["id"])

    def _repartition(self, step: Step, stream: Any) -> Any:
        return stream.repartition(key=str, value=str, name=step["id"])

    def _split(self, step: Step, stream: Any) -> Any:
        split = stream.split(name=step["id"])
        for number, name in enumerate(step["predicates"]):
            split = split.branch(partial(f.holds, name), name=str(number))
        parts = split.default_branch(name="rest")
        (part,) = (part for name, part in parts.items() if name.endswith(str(step["branch"])))
        return part

    def _process_values(self, step: Step, stream: Any) -> Any:
        kept = self._kept(step)
        return stream.process_values(
            partial(Fixed, step["f"], kept.name), stores=[kept], name=step["id"]
        )

    def _process(self, step: Step, stream: Any) -> Any:
        kept = self._kept(step)
        return stream.process(partial(Free, step["f"], kept.name), stores=[kept], name=step["id"])

    def _kept(self, step: Step) -> Any:
        """Return the store of a processor."""
        supplier = m.Stores.persistent_key_value_store(_store(step))
        return m.Stores.key_value_store_builder(supplier, key=str, value=str)

    def _to_table(self, step: Step, stream: Any) -> Any:
        return stream.to_table(key=str, value=str, **self._stored(step))

    # --- aggregations -----------------------------------------------------------------------------

    def _grouped(self, step: Step, stream: Any) -> Any:
        if step.get("by") is None:
            return stream.group_by_key(key=str, value=str)
        return stream.group_by(partial(f.map_key, step["by"]), key=str, value=str)

    def _aggregate(self, step: Step, stream: Any) -> Any:
        grouped = self._grouped(step, stream)
        window = step.get("window")
        session = False
        if window is not None:
            session = window["type"] == "session"
            grouped = grouped.windowed_by(_windows(window))
            if step.get("emit") == "close":
                grouped = grouped.emit_strategy(windows.EmitStrategy.on_window_close())
        return self._folded(step, grouped, session=session)

    def _folded(self, step: Step, grouped: Any, *, session: bool) -> Any:
        stored = self._stored(step)
        adder = partial(_adder, step.get("f", ""))
        match step["kind"]:
            case "count":
                return grouped.count(**stored).map_values(str, value=str)
            case "reduce":
                return grouped.reduce(partial(_reducer, step["f"]), value=str, **stored)
            case _ if session:
                return grouped.aggregate(_start, adder, _merger, value=str, **stored)
            case _:
                return grouped.aggregate(_start, adder, value=str, **stored)

    def _cogroup(self, step: Step, *streams: Any) -> Any:
        first, *others = (self._grouped(step, stream) for stream in streams)
        cogrouped = first.cogroup(partial(_adder, step["f"]))
        for number, other in enumerate(others, start=1):
            cogrouped = cogrouped.cogroup(other, partial(_signed, number))
        window = step.get("window")
        stored = self._stored(step)
        if window is None:
            return cogrouped.aggregate(_start, value=str, **stored)
        windowed = cogrouped.windowed_by(_windows(window))
        if window["type"] == "session":
            return windowed.aggregate(_start, _merger, value=str, **stored)
        return windowed.aggregate(_start, value=str, **stored)

    # --- steps of tables --------------------------------------------------------------------------

    def _to_stream(self, step: Step, table: Any) -> Any:
        return table.to_stream(name=step["id"])

    def _to_stream_key(self, step: Step, table: Any) -> Any:
        return table.to_stream(partial(f.map_key, step["f"]), name=step["id"])

    def _table_filter(self, step: Step, table: Any) -> Any:
        return table.filter(partial(f.holds, step["f"]), **self._stored(step))

    def _table_filter_not(self, step: Step, table: Any) -> Any:
        return table.filter_not(partial(f.holds, step["f"]), **self._stored(step))

    def _table_map_values(self, step: Step, table: Any) -> Any:
        mapper = partial(f.map_value, step["f"], None)
        return table.map_values(mapper, value=str, **self._stored(step))

    def _table_map_values_with_key(self, step: Step, table: Any) -> Any:
        mapper = partial(f.map_value, step["f"])
        return table.map_values_with_key(mapper, value=str, **self._stored(step))

    def _transform_values(self, step: Step, table: Any) -> Any:
        mapper = partial(f.map_value, step["f"])
        return table.transform_values(mapper, value=str, **self._stored(step))

    def _table_aggregate(self, step: Step, table: Any) -> Any:
        grouped = table.group_by(partial(f.map_pair, step["f"]), key=str, value=str)
        stored = self._stored(step)
        adder, subtractor = partial(_adder, step["g"]), partial(_subtractor, step["g"])
        match step["kind"]:
            case "count":
                return grouped.count(**stored).map_values(str, value=str)
            case "reduce":
                return grouped.reduce(
                    partial(_reducer, step["g"]),
                    partial(_unreducer, step["g"]),
                    value=str,
                    **stored,
                )
            case _:
                return grouped.aggregate(_start, adder, subtractor, value=str, **stored)

    def _suppress_time(self, step: Step, table: Any) -> Any:
        return table.suppress(m.Suppressed.until_time_limit(_ms(step["limit"]), _buffer(step)))

    def _suppress_window(self, step: Step, table: Any) -> Any:
        return table.suppress(m.Suppressed.until_window_closes(_buffer(step)))

    # --- joins ------------------------------------------------------------------------------------

    def _stream_join(self, step: Step, left: Any, right: Any) -> Any:
        windows = m.JoinWindows(
            before=_ms(step["before"]), after=_ms(step["after"]), grace=_ms(step["grace"])
        )
        join = getattr(left, _METHODS[step["how"]])
        options = m.StreamJoined(key=str, value=str, other_value=str)
        return join(right, f.join, windows=windows, value=str, stream_joined=options)

    def _stream_table_join(self, step: Step, stream: Any, table: Any) -> Any:
        grace = step.get("grace")
        options = m.Joined(
            key=str, value=str, other_value=str, grace=None if grace is None else _ms(grace)
        )
        return getattr(stream, _METHODS[step["how"]])(table, f.join, value=str, joined=options)

    def _global_join(self, step: Step, stream: Any, table: Any) -> Any:
        mapper = partial(f.map_key, step["f"])
        return getattr(stream, _METHODS[step["how"]])(
            table, f.join, foreign_key_with_key=mapper, value=str
        )

    def _table_join(self, step: Step, left: Any, right: Any) -> Any:
        join = getattr(left, _METHODS[step["how"]])
        return join(right, f.join, value=str, **self._stored(step))

    def _fk_join(self, step: Step, left: Any, right: Any) -> Any:
        extractor = partial(f.foreign_key, step["f"])
        join = getattr(left, _METHODS[step["how"]])
        return join(right, f.join, foreign_key=extractor, value=str, **self._stored(step))


_METHODS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def _store(step: Step) -> str:
    return f"store-{step['id']}"


def _buffer(step: Step) -> windows.BufferConfig:
    buffer = windows.BufferConfig.unbounded()
    if step.get("max_records") is not None:
        buffer = buffer.with_max_records(step["max_records"])
    if step.get("max_bytes") is not None:
        buffer = buffer.with_max_bytes(step["max_bytes"])
    early = step.get("when_full") == "early"
    return buffer.emit_early_when_full() if early else buffer


def _windows(window: dict[str, Any]) -> Any:
    match window["type"]:
        case "time":
            return m.TimeWindows(
                size=_ms(window["size"]),
                advance=_ms(window["advance"]),
                grace=_ms(window["grace"]),
            )
        case "sliding":
            return m.SlidingWindows(time_difference=_ms(window["diff"]), grace=_ms(window["grace"]))
        case "session":
            return m.SessionWindows(inactivity_gap=_ms(window["gap"]), grace=_ms(window["grace"]))
        case _:
            start = datetime.fromtimestamp(0, UTC) + _ms(window["start"])
            return windows.UnlimitedWindows(start=start)


def _start() -> str:
    return "0"


def _adder(name: str, key: Any, value: Any, total: Any) -> Any:
    return f.add(name, key, value, total)


def _subtractor(name: str, key: Any, value: Any, total: Any) -> Any:
    return f.subtract(name, key, value, total)


def _reducer(name: str, total: Any, value: Any) -> Any:
    return f.add(name, None, value, total)


def _unreducer(name: str, total: Any, value: Any) -> Any:
    return f.subtract(name, None, value, total)


def _merger(_key: Any, left: Any, right: Any) -> Any:
    return f.merge(left, right)


def _signed(number: int, _key: Any, value: Any, total: Any) -> Any:
    return f"{f.null(total)}/{number}/{f.null(value)}"
