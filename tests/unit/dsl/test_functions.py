"""User functions are checked when the topology is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mustela.api.errors import FunctionError, InitializerError
from mustela.dsl.builder import StreamsBuilder
from mustela.dsl.kstream import KStream

BY_VALUE = ["map_values", "flat_map_values"]
BY_KEY_AND_VALUE = [
    *("map", "flat_map", "map_values_with_key", "flat_map_values_with_key", "select_key"),
    *("filter", "filter_not", "peek", "foreach", "group_by"),
]


@pytest.fixture
def lines() -> KStream[str, str]:
    return StreamsBuilder().stream("lines", key=str, value=str)


def none() -> None: ...
def one(a: Any) -> Any: ...
def two(a: Any, b: Any) -> Any: ...
def three(a: Any, b: Any, c: Any) -> Any:
    return a, b, c


def any_number(*values: Any) -> Any: ...
def with_default(a: Any, b: Any = None) -> Any: ...
def keyword_only(a: Any, *, b: Any) -> Any: ...


class Callme:
    def __call__(self, value: Any) -> Any: ...


@pytest.mark.parametrize("verb", BY_VALUE)
@pytest.mark.parametrize(
    "function",
    [
        one,
        any_number,
        with_default,
        len,
        str.split,
        int,
        Callme(),
        partial(two, 1),
    ],
)
def test_what_takes_a_value_is_accepted(
    lines: KStream[str, str], verb: str, function: Callable[..., Any]
) -> None:
    """Any callable will do that can be called with the value."""
    getattr(lines, verb)(function)


@pytest.mark.parametrize("verb", BY_KEY_AND_VALUE)
@pytest.mark.parametrize("function", [two, any_number, with_default, print, max, partial(three, 1)])
def test_what_takes_key_and_value_is_accepted(
    lines: KStream[str, str], verb: str, function: Callable[..., Any]
) -> None:
    """Any callable will do that can be called with key and value."""
    getattr(lines, verb)(function)


@pytest.mark.parametrize("verb", BY_VALUE)
@pytest.mark.parametrize("function", [none, two, keyword_only, lambda: 1, Callme])
def test_a_wrong_arity_fails_where_it_is_written(
    lines: KStream[str, str], verb: str, function: Callable[..., Any]
) -> None:
    """Not in a worker, an hour later."""
    with pytest.raises(FunctionError) as caught:
        getattr(lines, verb)(function)
    assert caught.value.fields["verb"] == verb
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


@pytest.mark.parametrize("verb", BY_KEY_AND_VALUE)
@pytest.mark.parametrize("function", [none, one, three, lambda value: value])
def test_a_wrong_arity_fails_for_pairs_too(
    lines: KStream[str, str], verb: str, function: Callable[..., Any]
) -> None:
    """Verbs that look at the key say so."""
    with pytest.raises(FunctionError):
        getattr(lines, verb)(function)


def test_the_fix_names_the_verb_that_fits(lines: KStream[str, str]) -> None:
    """A mapper of two arguments wants the key; one of one argument does not."""
    with pytest.raises(FunctionError, match="use map_values_with_key"):
        lines.map_values(two)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FunctionError, match="use flat_map_values,"):
        lines.flat_map_values_with_key(one)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FunctionError, match="lambda key, value: "):
        lines.filter(one)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("verb", [*BY_VALUE, *BY_KEY_AND_VALUE])
def test_a_value_is_not_a_function(lines: KStream[str, str], verb: str) -> None:
    """Something that cannot be called is refused."""
    with pytest.raises(FunctionError, match="not 'upper'"):
        getattr(lines, verb)("upper")


@pytest.mark.parametrize(
    ("value", "fix"),
    [([], "list"), ({}, "dict"), (set(), "set"), (0, "int"), ("", "str"), (7, "lambda: 7")],
)
def test_an_initializer_is_a_function(lines: KStream[str, str], value: object, fix: str) -> None:
    """A value would be shared by all keys."""
    with pytest.raises(InitializerError) as caught:
        lines.group_by_key().aggregate(value, three)  # type: ignore[arg-type]  # pyright: ignore
    assert caught.value.fix == f"pass {fix}"


def test_an_initializer_takes_no_arguments(lines: KStream[str, str]) -> None:
    """It is called before there is anything to give it."""
    with pytest.raises(FunctionError, match="no arguments"):
        lines.group_by_key().aggregate(one, three)  # pyright: ignore


def test_functions_of_an_aggregation_are_checked(lines: KStream[str, str]) -> None:
    """Adder and merger have an arity of their own."""
    grouped = lines.group_by_key()
    with pytest.raises(FunctionError, match=r"\(key, value, aggregate\)"):
        grouped.aggregate(list, two)  # pyright: ignore
    with pytest.raises(FunctionError, match=r"\(key, left, right\)"):
        grouped.aggregate(list, three, merger=two)  # pyright: ignore
    with pytest.raises(FunctionError, match=r"\(aggregate, value\)"):
        grouped.reduce(three)  # pyright: ignore


def test_functions_of_tables_and_sinks_are_checked(lines: KStream[str, str]) -> None:
    """No verb trusts its function unseen."""
    table = lines.group_by_key().count()
    for broken in (
        lambda: table.filter(one),  # pyright: ignore
        lambda: table.filter_not(one),  # pyright: ignore
        lambda: table.map_values(two),  # pyright: ignore
        lambda: table.map_values_with_key(one),  # pyright: ignore
        lambda: table.to_stream(one),  # pyright: ignore
        lambda: lines.to(two),  # pyright: ignore
        lambda: lines.to("copies", partitioner=two),  # pyright: ignore
    ):
        with pytest.raises(FunctionError):
            broken()


async def awaited(value: Any) -> Any:
    return value


async def awaited_two(key: Any, value: Any) -> Any:
    return key, value


def yielding(value: Any) -> Any:
    yield value


def yielding_two(key: Any, value: Any) -> Any:
    yield key, value


@pytest.mark.parametrize(
    ("verb", "function", "fix"),
    [
        ("map_values", awaited, "use map_values_async, or a plain function"),
        ("map_values_with_key", awaited_two, "use map_values_async_with_key, or a plain"),
        ("filter", awaited_two, "pass a plain function"),
        ("foreach", awaited_two, "pass a plain function"),
        ("map_values", yielding, "return a value instead of yielding it"),
        ("filter", yielding_two, "return a value instead of yielding it"),
        ("peek", yielding_two, "return a value instead of yielding it"),
    ],
)
def test_what_somebody_would_have_to_await_or_iterate_is_refused(
    lines: KStream[str, str], verb: str, function: Callable[..., Any], fix: str
) -> None:
    """It would do nothing when it is called, and each coroutine and generator is true."""
    with pytest.raises(FunctionError) as caught:
        getattr(lines, verb)(function)
    assert caught.value.fix is not None
    assert caught.value.fix.startswith(fix)
    assert "getattr(lines, verb)" in str(caught.value.at)


def test_what_is_iterated_or_awaited_may_be_made_so(lines: KStream[str, str]) -> None:
    """By the steps that do it."""
    lines.flat_map_values(yielding)
    lines.flat_map(yielding_two)
    lines.flat_map_values_with_key(yielding_two)
    lines.map_values_async(awaited)
    lines.map_values_async_with_key(awaited_two)
