"""Draws topologies around a pair of stateful operators, and records for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hypothesis import strategies as st

from tests.differential.contents import Asked
from tests.differential.steps import Step

__all__ = [
    "OPERATORS",
    "STATELESS",
    "WITHOUT_ORDER",
    "Example",
    "Input",
    "NamedHeaders",
    "Operator",
    "examples",
]

Kind = Literal["stream", "table", "windowed"]
_Draw = st.DrawFn

# Some divergences come with any null key or late record, and end a comparison.
_KEYS = [st.sampled_from("abcab"), st.sampled_from(["a", "b", "c", "a", "b", None])]
_VALUES = st.sampled_from(["1", "2", "3", "12", "a1", "b2", "c", "b", "a23", None])
_PAUSES = [
    st.sampled_from([0, 1, 1, 2, 3, 5, 8, 12, 30]),
    st.sampled_from([0, 1, 1, 2, 3, 5, 8, 12, 30, -1, -3, -8, -20]),
]
_FIRST_TIMES = st.sampled_from([0, 5, 40, 1000])
_INPUTS_MAX = 16
_LONG_MS = 86_400_000
# Keys that streams come to have, so that a join finds rows whatever made its keys.
_FIRST_LETTERS = "abc1A2B03Cxn"
_ROWS = st.one_of(
    st.lists(st.sampled_from(_FIRST_LETTERS), unique=True, max_size=12),
    st.permutations(_FIRST_LETTERS),
)
_ROW_VALUES = st.sampled_from(["1", "12", "a1", "b2", "c", "a23"])
# A buffer that lets rows go on early, and one that stops the application, but not too soon: a row
# counts for 100 bytes beside its key, value and headers.
_EARLY = st.fixed_dictionaries(
    {
        "max_records": st.sampled_from([None, None, 1, 2]),
        "max_bytes": st.sampled_from([0, 102, 104, 111, 208, 220, 330]),
        "when_full": st.just("early"),
    }
)
_STRICT = st.sampled_from(
    [{}] * 5 + [{"max_records": 3}, {"max_bytes": 330}, {"max_records": 4, "max_bytes": 420}]
)
_BLIND = {"to_stream", "to_stream_key"}
_JUMPS = st.sampled_from([50, 50, 80, 0, 15, 25, 1100])
_HEADERS = st.sampled_from(
    [(), (("n", "#"),), (("n", "#"), ("n", "+")), (("", "#"), ("gone", None), ("empty", ""))]
)
_LETTERS = st.sampled_from("abc")
_ENDINGS = st.sampled_from(["1", "12", "2", "3", ""])


NamedHeaders = tuple[tuple[str, str | None], ...]
"""Headers, their values as texts."""


class Input(NamedTuple):
    """A record to pipe."""

    topic: str
    key: str | None
    value: str | None
    timestamp: int
    headers: NamedHeaders = ()


@dataclass(frozen=True)
class Example:
    """A topology with its records.

    Attributes:
        steps: The description of the topology.
        inputs: What is piped, record by record.
        operators: The stateful operators in it, in order.
        tapped: The same topology with a sink more for what each of the operators gives.
        asked: What the stores are asked for at the end.
    """

    steps: tuple[Step, ...]
    inputs: tuple[Input, ...]
    operators: tuple[str, ...]
    tapped: tuple[Step, ...]
    asked: Asked


@dataclass(frozen=True)
class Operator:
    """A stateful operator.

    Attributes:
        inputs: What each of its inputs must be.
        output: What comes out.
        step: Draws the step, but for ``id`` and ``in``.
    """

    inputs: tuple[Kind, ...]
    output: Kind
    step: Callable[[_Draw], Step]


def _small(draw: _Draw, *values: int) -> int:
    return draw(st.sampled_from(values))


def _store(draw: _Draw) -> bool:
    return draw(st.booleans())


def _fold(draw: _Draw) -> Step:
    """Draw what an aggregation of a stream does."""
    return {
        "op": "aggregate",
        "kind": draw(st.sampled_from(["count", "reduce", "aggregate"])),
        "f": draw(st.sampled_from(["concat", "concat", "drop_3", "last"])),
        "by": draw(st.sampled_from([None, None, "by_value", "one", "upper"])),
        "store": _store(draw),
    }


def _tumbling(draw: _Draw) -> Step:
    size = _small(draw, 5, 10)
    return {"type": "time", "size": size, "advance": size, "grace": _small(draw, 0, 3, 20)}


def _hopping(draw: _Draw) -> Step:
    return {
        "type": "time",
        "size": 10,
        "advance": _small(draw, 3, 5),
        "grace": _small(draw, 0, 3, 20),
    }


def _sliding(draw: _Draw) -> Step:
    return {"type": "sliding", "diff": _small(draw, 3, 4, 10), "grace": _small(draw, 0, 3, 20)}


def _session(draw: _Draw) -> Step:
    return {"type": "session", "gap": _small(draw, 2, 6), "grace": _small(draw, 0, 3, 20)}


_WINDOWS = (_tumbling, _tumbling, _hopping, _hopping, _sliding, _session)


def _unlimited(draw: _Draw) -> Step:
    return {"type": "unlimited", "start": _small(draw, 0, 6)}


def _folded(draw: _Draw, window: Step, emit: str = "update") -> Step:
    """Draw what an aggregation of a windowed stream does."""
    step = {**_fold(draw), "window": window, "emit": emit}
    return {**step, **_retention(draw, window, emit)}


def _retention(draw: _Draw, window: Step, emit: str = "update") -> Step:
    """Draw how long windows are kept, None for no longer than they take records.

    Kafka Streams loses windows that are told when they close, and that time jumps over, if they are
    kept no longer; and a session that is kept longer is told once more when it is closed.
    """
    if window["type"] == "unlimited" or (window["type"], emit) == ("session", "close"):
        return {}
    if emit == "close":
        return {"retention": _LONG_MS}
    span = window.get("size") or window.get("gap") or 2 * window["diff"]
    least = span + window["grace"]
    return {"retention": draw(st.sampled_from([None, least, least + 1, least + 9]))}


def _windowed(window: Callable[[_Draw], Step], emit: str = "update") -> Operator:
    def step(draw: _Draw) -> Step:
        return _folded(draw, window(draw), emit)

    return Operator(("stream",), "windowed", step)


def _cogroup(window: Callable[[_Draw], Step] | None = None) -> Operator:
    def step(draw: _Draw) -> Step:
        drawn = {**_fold(draw), "op": "cogroup"}
        del drawn["kind"]
        if window is None:
            return drawn
        drawn["window"] = window(draw)
        return {**drawn, **_retention(draw, drawn["window"])}

    return Operator(("stream", "stream"), "windowed" if window else "table", step)


def _regroup(draw: _Draw) -> Step:
    return {
        "op": "table_aggregate",
        "kind": draw(st.sampled_from(["count", "reduce", "aggregate"])),
        "f": draw(st.sampled_from(["swap", "same_value", "by_value", "one", "upper_tag"])),
        "g": draw(st.sampled_from(["concat", "drop_3", "last"])),
        "store": _store(draw),
    }


def _kept(op: str, *functions: str) -> Callable[[_Draw], Step]:
    return lambda draw: {
        "op": op,
        "f": draw(st.sampled_from(functions)),
        "store": _store(draw),
    }


def _stream_join(how: str) -> Operator:
    def step(draw: _Draw) -> Step:
        before, after = draw(st.sampled_from([(5, 5), (0, 10), (10, 0), (0, 0), (3, 12)]))
        grace = _small(draw, 0, 4, 20)
        return {"op": "stream_join", "how": how, "before": before, "after": after, "grace": grace}

    return Operator(("stream", "stream"), "stream", step)


def _fixed(inputs: tuple[Kind, ...], output: Kind, **step: Any) -> Operator:
    return Operator(inputs, output, lambda _draw: dict(step))


def _with_store(inputs: tuple[Kind, ...], output: Kind, **step: Any) -> Operator:
    return Operator(inputs, output, lambda draw: {**step, "store": _store(draw)})


def _processor(op: str) -> Callable[[_Draw], Step]:
    return lambda draw: {"op": op, "f": draw(st.sampled_from(["running", "both", "first"]))}


def _suppress_time(draw: _Draw) -> Step:
    limit = _small(draw, 0, 3, 10, 1000)
    return {"op": "suppress_time", "limit": limit, **draw(_EARLY | _STRICT)}


def _suppress_window(draw: _Draw) -> Step:
    return {"op": "suppress_window", **draw(_STRICT)}


def _global(how: str) -> Callable[[_Draw], Step]:
    keys = ["by_value", "same", "upper", "initial"]
    return lambda draw: {
        "op": "global_join",
        "how": how,
        "f": draw(st.sampled_from(keys)),
        "global": True,
    }


def _foreign(how: str) -> Callable[[_Draw], Step]:
    return lambda draw: {
        "op": "fk_join",
        "how": how,
        "f": draw(st.sampled_from(["initial", "initial", "always"])),
        "store": _store(draw),
    }


def _versioned_join(*, grace: bool) -> Callable[[_Draw], Step]:
    return lambda draw: {
        "op": "stream_table_join",
        "how": draw(st.sampled_from(["inner", "left"])),
        "versioned_inputs": {1: _small(draw, 10, 30)},
        **({"grace": _small(draw, 0, 2, 6)} if grace else {}),
    }


def _versioned_tables(draw: _Draw) -> Step:
    sides = draw(st.sampled_from([(0,), (1,), (0, 1)]))
    return {
        "op": draw(st.sampled_from(["table_join", "fk_join"])),
        "how": draw(st.sampled_from(["inner", "left"])),
        "f": "always",
        "store": True,
        "versioned_inputs": dict.fromkeys(sides, 1000),
    }


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "repartition": _fixed(("stream",), "stream", op="repartition"),
        "process_values": Operator(("stream",), "stream", _processor("process_values")),
        "process": Operator(("stream",), "stream", _processor("process")),
        "to_table": _with_store(("stream",), "table", op="to_table"),
        "aggregate": Operator(("stream",), "table", _fold),
        "tumbling": _windowed(_tumbling),
        "hopping": _windowed(_hopping),
        "sliding": _windowed(_sliding),
        "session": _windowed(_session),
        "unlimited": _windowed(_unlimited),
        "tumbling_final": _windowed(_tumbling, "close"),
        "hopping_final": _windowed(_hopping, "close"),
        "sliding_final": _windowed(_sliding, "close"),
        "session_final": _windowed(_session, "close"),
        "cogroup": _cogroup(),
        "cogroup_hopping": _cogroup(_hopping),
        "cogroup_sliding": _cogroup(_sliding),
        "cogroup_session": _cogroup(_session),
        "table_filter": Operator(
            ("table",), "table", _kept("table_filter", "even", "key_a", "has_1")
        ),
        "table_filter_not": Operator(
            ("table",), "table", _kept("table_filter_not", "even", "key_a", "has_1")
        ),
        "table_map_values": Operator(
            ("table",), "table", _kept("table_map_values", "tag", "drop_2", "length")
        ),
        "table_map_values_with_key": Operator(
            ("table",), "table", _kept("table_map_values_with_key", "with_key", "drop_2")
        ),
        "transform_values": Operator(
            ("table",), "table", _kept("transform_values", "fill", "with_key", "drop_2")
        ),
        "table_aggregate": Operator(("table",), "table", _regroup),
        "suppress_time": Operator(("table",), "table", _suppress_time),
        "suppress_window": Operator(("windowed",), "windowed", _suppress_window),
        "stream_join_inner": _stream_join("inner"),
        "stream_join_left": _stream_join("left"),
        "stream_join_outer": _stream_join("outer"),
        "self_join": Operator(
            ("stream",),
            "stream",
            lambda draw: {
                **_stream_join(draw(st.sampled_from(["inner", "left", "outer"]))).step(draw),
                "self": True,
            },
        ),
        "stream_table_inner": _fixed(
            ("stream", "table"), "stream", op="stream_table_join", how="inner"
        ),
        "stream_table_left": _fixed(
            ("stream", "table"), "stream", op="stream_table_join", how="left"
        ),
        "global_inner": Operator(("stream",), "stream", _global("inner")),
        "global_left": Operator(("stream",), "stream", _global("left")),
        "table_join_inner": _with_store(("table", "table"), "table", op="table_join", how="inner"),
        "table_join_left": _with_store(("table", "table"), "table", op="table_join", how="left"),
        "table_join_outer": _with_store(("table", "table"), "table", op="table_join", how="outer"),
        "fk_inner": Operator(("table", "table"), "table", _foreign("inner")),
        "fk_left": Operator(("table", "table"), "table", _foreign("left")),
        "versioned_stream_table": Operator(
            ("stream", "table"), "stream", _versioned_join(grace=False)
        ),
        "versioned_grace": Operator(("stream", "table"), "stream", _versioned_join(grace=True)),
        "versioned_table_join": Operator(("table", "table"), "table", _versioned_tables),
    }
)
"""The stateful operators by name."""

WITHOUT_ORDER = {"self_join"}
"""Operators that read one step twice: what they give for one record has no order that counts, so
nothing is drawn behind them."""


@dataclass
class _Sketch:
    """A topology while it is drawn."""

    draw: _Draw
    steps: list[Step] = field(default_factory=list[Step])
    topics: list[str] = field(default_factory=list[str])
    tables: list[str] = field(default_factory=list[str])
    sinks: int = 0

    def add(self, step: Step, *inputs: str) -> str:
        """Add a step and return its id."""
        name = f"s{len(self.steps)}"
        self.steps.append({**step, "id": name, **({"in": list(inputs)} if inputs else {})})
        return name

    def topic(self, *, table: bool = False) -> str:
        """Add a topic; that of a table gets rows before all others get anything."""
        name = f"t{len(self.topics)}"
        self.topics.append(name)
        if table:
            self.tables.append(name)
        return name

    def source(self, kind: Kind, versioned: int | None = None) -> str:
        """Add a topic, and what makes of it what is wanted."""
        topic = self.topic(table=kind == "table")
        if kind == "table" and self.draw(st.booleans()):
            store = {"versioned": versioned} if versioned else {"store": _store(self.draw)}
            return self.add({"op": "table", "topic": topic, **store})
        stream = self.stateless(self.add({"op": "stream", "topic": topic}))
        return self.turned("stream", stream, kind, versioned)

    def turned(self, kind: Kind, name: str, wanted: Kind, versioned: int | None = None) -> str:
        """Make a stream a table, and the like."""
        if kind == wanted and versioned is None:
            return name
        if kind == "table":
            mapper = self.draw(st.sampled_from([None, "same", "upper"]))
            step = {"op": "to_stream_key", "f": mapper} if mapper else {"op": "to_stream"}
            name = self.stateless(self.add(step, name))
        elif kind == "windowed":
            mapper = self.draw(st.sampled_from(["same", "initial", "initial"]))
            name = self.stateless(self.add({"op": "to_stream_key", "f": mapper}, name))
        if wanted == "stream":
            return name
        if wanted == "windowed":
            window = self.draw(st.sampled_from(_WINDOWS))
            return self.add(_folded(self.draw, window(self.draw)), name)
        options = {"versioned": versioned} if versioned else {"store": _store(self.draw)}
        return self.add({"op": "to_table", **options}, name)

    def stateless(self, name: str) -> str:
        """Add a few stateless steps to a stream, or none."""
        for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 2]))):
            which = self.draw(st.sampled_from(sorted(STATELESS)))
            name = self.add(self.draw(STATELESS[which]), name)
        if self.draw(st.sampled_from([False] * 9 + [True])):
            other = self.add({"op": "stream", "topic": self.topic()})
            name = self.add({"op": "merge"}, name, other)
        return name

    def operator(self, which: str, given: tuple[Kind, str] | None) -> tuple[Kind, str]:
        """Add an operator that reads what is given, and topics of its own."""
        if which in STATELESS:
            name = self.turned(*given, "stream") if given else self.source("stream")
            return "stream", self.add(self.draw(STATELESS[which]), name)
        operator = OPERATORS[which]
        step = operator.step(self.draw)
        versioned: dict[int, int] = step.pop("versioned_inputs", {})
        place = self.draw(st.integers(0, len(operator.inputs) - 1))
        inputs: list[str] = []
        for number, kind in enumerate(operator.inputs):
            if given is not None and number == place:
                inputs.append(self.turned(*given, kind, versioned.get(number)))
            elif kind == "windowed":
                inputs.append(self.turned("stream", self.source("stream"), "windowed"))
            else:
                inputs.append(self.source(kind, versioned.get(number)))
        if step.pop("self", False):
            inputs *= 2
        if step.pop("global", False):
            table = {"op": "global_table", "topic": self.topic(table=True)}
            inputs.append(self.add({**table, "store": _store(self.draw)}))
        return operator.output, self.add(step, *inputs)

    def count_what_is_shared(self) -> None:
        """Bound buffers by bytes only where no step may see the old values in them.

        Kafka Streams always counts those, Mustela where it has to keep them.
        """
        readers = [(step["op"], name) for step in self.steps for name in step.get("in", ())]
        for place, step in enumerate(self.steps):
            seen = any(name == step["id"] and op not in _BLIND for op, name in readers)
            if seen and step.get("max_bytes") is not None:
                bound = step.get("max_records") or 2
                self.steps[place] = {**step, "max_records": bound, "max_bytes": None}

    def sink(self, kind: Kind, name: str) -> None:
        """Write to a topic of its own."""
        if kind == "windowed":
            name = self.add({"op": "to_stream_key", "f": "same"}, name)
        elif kind == "table":
            name = self.add({"op": "to_stream"}, name)
        self.add({"op": "to", "topic": f"o{self.sinks}"}, name)
        self.sinks += 1


def _one(op: str, *functions: str) -> st.SearchStrategy[Step]:
    return st.sampled_from(functions).map(lambda function: {"op": op, "f": function})


STATELESS: Mapping[str, st.SearchStrategy[Step]] = MappingProxyType(
    {
        "filter": _one("filter", "even", "key_a", "has_1"),
        "filter_not": _one("filter_not", "even", "key_a", "has_1"),
        "map_values": _one("map_values", "tag", "fill", "drop_2"),
        "map_values_with_key": _one("map_values_with_key", "with_key"),
        "map": _one("map", "swap", "upper_tag"),
        "flat_map": _one("flat_map", "twice", "letters"),
        "flat_map_values": _one("flat_map_values", "twice", "letters"),
        "select_key": _one("select_key", "by_value", "upper", "one"),
        "split": st.fixed_dictionaries(
            {
                "op": st.just("split"),
                "predicates": st.lists(
                    st.sampled_from(["even", "key_a", "has_1"]), min_size=1, max_size=2
                ),
                "branch": st.sampled_from(["0", "rest"]),
            }
        ),
    }
)
"""The steps without a store, which also stand between the operators of each topology."""


@st.composite
def examples(draw: _Draw, operators: tuple[str, ...]) -> Example:
    """Draw a topology in which each of the operators reads what the one before it gives."""
    sketch = _Sketch(draw)
    results: list[tuple[Kind, str]] = []
    for number, which in enumerate(operators):
        results.append(sketch.operator(which, results[-1] if results else None))
        if number == len(operators) - 1 or draw(st.booleans()):
            sketch.sink(*results[-1])
    sketch.count_what_is_shared()
    steps, inputs = tuple(sketch.steps), tuple(_headed(draw, sketch, len(operators)))
    for result in results:
        sketch.sink(*result)
    return Example(steps, inputs, operators, tuple(sketch.steps), _asked(draw, inputs))


def _asked(draw: _Draw, inputs: tuple[Input, ...]) -> Asked:
    """Draw a range of keys and a span of time; single keys and moments are all that matter."""
    low, high = draw(st.sampled_from("00Aab")), draw(st.sampled_from("xxCb1"))
    moments = sorted({near for record in inputs for near in _around(record.timestamp)})
    first, last = sorted([draw(st.sampled_from(moments)), draw(st.sampled_from(moments))])
    return Asked(low, high, first, last, sorted(_FIRST_LETTERS), moments)


def _around(time: int) -> Iterator[int]:
    """Yield a time, the one before it, and the starts of windows that hold it."""
    yield from {max(0, near) for near in (time - 1, time, time - time % 5)}


def _headed(draw: _Draw, sketch: _Sketch, operators: int) -> Iterator[Input]:
    """Draw records with headers that tell them apart, or with none."""
    for number, record in enumerate(_inputs(draw, sketch, operators)):
        names = draw(_HEADERS)
        headers = ((name, value and value + str(number)) for name, value in names)
        yield record._replace(headers=tuple(headers))


def _inputs(draw: _Draw, sketch: _Sketch, operators: int) -> Iterator[Input]:
    """Draw rows for the tables, records as they come, and rounds that carry the time on."""
    now = draw(_FIRST_TIMES)
    for topic in sketch.tables:
        for key in draw(_ROWS):
            yield Input(topic, key, draw(_ROW_VALUES), now)
    keys, pauses = draw(st.sampled_from(_KEYS)), draw(st.sampled_from(_PAUSES))
    for _ in range(draw(st.integers(1, _INPUTS_MAX))):
        now = max(0, now + draw(pauses))
        yield Input(draw(st.sampled_from(sketch.topics)), draw(keys), draw(_VALUES), now)
    # In a round each topic gets a record of one key and time, and what is made of its value is
    # alike too, so that they meet. What closes with time tells it on only when it is told itself:
    # each operator of the chain may need a round more.
    for _ in range(draw(st.sampled_from([0, *range(operators, operators + 4)]))):
        now += draw(_JUMPS)
        key, letter = draw(_LETTERS), draw(_LETTERS)
        for topic in draw(st.permutations(sketch.topics)):
            yield Input(topic, key, letter + draw(_ENDINGS), now)
