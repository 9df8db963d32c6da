"""Functions that are one expression run over columns, with exactly the results of calls."""

from __future__ import annotations

import itertools
import linecache
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import StreamsBuilder
from mustela.kernel.core.each import call_each
from mustela.plan.expression import Expression
from mustela.planner.explain import explain
from mustela.planner.expressions import expression_of
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.testing import TopologyTestDriver

LIMIT = 10
_FILES = itertools.count()


@dataclass
class Order:
    total: Any
    city: Any


def of_text(text: str, **names: Any) -> Callable[..., Any]:
    """A lambda from a file of its own, in which nothing else stands."""
    name = f"<expression {next(_FILES)}>"
    linecache.cache[name] = (len(text), None, [text + "\n"], name)
    return eval(compile(text, name, "eval"), {"LIMIT": LIMIT, **names})


def scaled(factor: int) -> Callable[[str, Order], Any]:
    """A lambda with a closure."""
    return lambda _key, order: order.total * factor + LIMIT if order.city else -factor


CITIES = {"r": "rome"}


class Noisy(dict[Any, Any]):
    """A dictionary that notes what it is asked for."""


NOISY = Noisy()


def known() -> Callable[[Any], Any]:
    """A lambda that looks into a dictionary of its closure."""
    names = {1: "one"}
    return lambda value: names.get(value)


def total_of(order: Order) -> Any:
    """A function of one line, with a docstring."""
    return order.total


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda key, value: value, "value"),
        (lambda key, value: (value["id"], key), "(value['id'], key)"),
        (lambda value: value.name.strip().lower().split(","), None),
        (lambda value: f"{value.total:>8} of {value.city!r}", None),
        (lambda value: round(value * 0.9, ndigits=2), None),
        (lambda key, value: value[1:3] if 0 < len(value) <= LIMIT else None, None),
        (lambda value: {"id": value["id"], "all": [value, -1, not value]}, None),
        (lambda key, value, context: f"to-{CITIES.get(value, 'other')}", None),
        (known(), "names.get(value)"),
        (scaled(3), "order.total * factor + LIMIT if order.city else -factor"),
        (total_of, "order.total"),
    ],
)  # fmt: skip
def test_it_is_recognized_in_its_file(function: FunctionType, text: str | None) -> None:
    """Attributes, items, arithmetic, comparisons, methods of text, harmless builtins."""
    found = expression_of(function)
    assert found is not None
    assert text is None or found.text == text


def _several_lines(value: int) -> int:
    doubled = value * 2
    return doubled + 1


def _hides_len() -> Callable[[Any], Any]:
    len = print
    return lambda value: len(value)


@pytest.mark.parametrize(
    "function",
    [
        lambda value: print(value),
        lambda value: value.pop(),
        lambda value: value.total(),
        lambda value: value.get("total"),
        lambda value: NOISY.get(value),
        lambda CITIES: CITIES.get("r"),
        lambda value: [one + 1 for one in value],
        lambda value: (kept := value) and kept,
        lambda value: (yield value),
        lambda value: (lambda: value),
        lambda value: max(*value),
        lambda value, more=1: value + more,
        lambda *values: values,
        lambda key: 1,
        _several_lines,
        _hides_len(),
        str.split,
        Order,
    ],
)  # fmt: skip
def test_what_may_have_effects_or_is_no_expression_is_called(function: Any) -> None:
    """So are functions written in C, which need no help."""
    assert expression_of(function) is None


def test_two_lambdas_of_one_line_are_told_apart() -> None:
    """By the code that they compile to."""
    pair = (lambda value: value + 1, lambda value: value + 2)
    found = [expression_of(one) for one in pair]
    assert [one.text for one in found if one is not None] == ["value + 1", "value + 2"]


def test_a_file_that_was_edited_since_is_not_believed() -> None:
    """Its text compiles to something else."""
    function = of_text("lambda value: value + 1")
    name = function.__code__.co_filename
    linecache.cache[name] = (0, None, ["lambda value: value + 2\n"], name)
    assert expression_of(function) is None
    linecache.cache[name] = (0, None, ["lambda value: value + True\n"], name)
    assert expression_of(function) is None


def test_globals_and_closures_are_read_when_it_runs() -> None:
    """As by a call."""
    function = of_text("lambda value: value + LIMIT")
    found = expression_of(function)
    assert found is not None
    function.__globals__["LIMIT"] = 100
    assert found.column([[1, 2]]) == [101, 102]


def test_it_survives_pickle_without_its_source() -> None:
    """The text travels; the file need not be where it arrives."""
    found = expression_of(total_of)
    assert found is not None
    copy = pickle.loads(pickle.dumps(found))
    assert copy.column([[Order(3, "a")]]) == [3] == [copy(Order(3, "a"))]


def test_a_row_that_raises_is_found_by_calls() -> None:
    """Its error has the user's own line; each other row has its result."""
    found = expression_of(total_of)
    assert found is not None
    errors: dict[int, Exception] = {}
    results, failed = call_each(found, ([Order(1, ""), None, Order(3, "")],), errors.__setitem__)
    assert (results, failed) == ([1, None, 3], [1])
    trace = errors[1].__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    assert trace.tb_frame.f_code is total_of.__code__


_OPERATORS = ["+", "-", "*", "//", "%", "/", "<", "<=", "==", "!=", ">=", "and", "or", "in", "is"]
_CALLS = ["len({})", "str({})", "abs({})", "bool({})", "round({})", "{}.upper()", "{}.split('a')"]
_CALLS += ["(not {})", "(-{})", "{}[0]", "{}[:1]"]
_LEAVES = [
    "f'{key}-{value.total!r:>4}'",
    "key",
    "value",
    "value.total",
    "value.city",
    "LIMIT",
    "1",
    "0",
    "2.5",
    "'ab'",
    "None",
]


def test_a_debugger_sees_each_call() -> None:
    """Breakpoints in a lambda are met; the results are the same."""
    found = expression_of(total_of)
    assert found is not None
    calls: list[str] = []
    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: calls.append(f"{event} {frame.f_code.co_name}"))
    try:
        results, _ = call_each(found, ([Order(1, ""), Order(3, "")],), lambda *_: None)
    finally:
        sys.settrace(before)
    assert results == [1, 3]
    assert calls.count("call total_of") == 2


def _trees() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(_LEAVES)

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators, calls = st.sampled_from(_OPERATORS), st.sampled_from(_CALLS)
        return st.one_of(
            st.builds("({} {} {})".format, inner, operators, inner),
            st.builds("({} if {} else {})".format, inner, inner, inner),
            st.builds("({}, {})".format, inner, inner),
            st.builds(lambda form, one: form.format(f"({one})"), calls, inner),
        )

    return st.recursive(leaves, grow, max_leaves=8)


_VALUES = st.one_of(st.none(), st.integers(-9, 9), st.floats(-2, 2), st.text("aB", max_size=3))


def _outcome(compute: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "gave", repr(compute())
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be the same
        return "raised", (type(error), str(error))


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=150)
@given(
    text=_trees(),
    rows=st.lists(st.tuples(st.text("ab", max_size=2), _VALUES, _VALUES), min_size=1, max_size=5),
)
def test_any_expression_gives_what_calls_give(text: str, rows: list[tuple[Any, Any, Any]]) -> None:
    """Row by row the same value of the same type, or the same error."""
    function = of_text(f"lambda key, value: {text}")
    found = expression_of(function)
    if found is None:
        assert not {"key", "value"} & set(function.__code__.co_varnames) or "value" not in text
        return
    keys = [key for key, _, _ in rows]
    values = [Order(total, city) for _, total, city in rows]
    told: dict[int, tuple[str, Any]] = {}

    def on_failure(row: int, error: Exception) -> None:
        told[row] = "raised", (type(error), str(error))

    results, failed = call_each(found, (keys, values), on_failure)
    for row, (key, value, result) in enumerate(zip(keys, values, results, strict=True)):
        got = told[row] if row in failed else ("gave", repr(result))
        assert got == _outcome(lambda key=key, value=value: function(key, value))


def _program() -> StreamsBuilder:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    large = orders.filter(lambda _key, order: order["total"] >= LIMIT)
    cities = large.map_values(lambda order: order["city"].upper())
    cities.select_key(lambda _key, city: city).to("cities", key=str, value=str)
    return builder


def test_explain_tells_what_is_inlined_and_what_is_called() -> None:
    """And a rule of the planner switches it off."""
    told = explain(plan(_program().build()))
    assert "inlined order['total'] >= LIMIT" in told
    assert "inlined order['city'].upper()" in told
    off = PlanOptions(rules_off=frozenset({"inline_expressions"}))
    assert "calls <lambda>" in explain(plan(_program().build(), options=off))


def test_a_program_gives_the_same_rows_either_way() -> None:
    """Bad rows go to the handler alone."""
    with TopologyTestDriver(
        _program().build(), settings={"processing_handler": "continue"}
    ) as driver:
        topic = driver.create_input_topic("orders")
        for order in ({"total": 20, "city": "oslo"}, {"total": 3}, {"city": "x"}, {"total": 99}):
            topic.pipe_input("k", order)
        rows = driver.create_output_topic("cities").read_key_values_to_list()
    assert rows == [("OSLO", "OSLO")]


def test_a_step_with_an_expression_still_is_a_function() -> None:
    """Whoever calls it for one row may."""
    step = next(
        step
        for stage in plan(_program().build()).stages
        for step in stage.steps
        if isinstance(getattr(step.node, "predicate", None), Expression)
    )
    predicate: Any = step.node.predicate  # pyright: ignore[reportAttributeAccessIssue]
    assert predicate("k", {"total": 10}) is True
