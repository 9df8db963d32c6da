"""A pytest plugin that notes which public methods each passing test calls."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mustela
from tests.public import public_names

__all__ = ["Trace"]

# Classes that are given by the library and not made by users, with the modules they are in.
_MODULES = {
    "FixedKeyProcessorContext": "mustela.api.context",
    "KeyValueStore": "mustela.state.kinds.key_value",
    "ProcessorContext": "mustela.api.context",
    "ProcessorMetrics": "mustela.api.metrics",
    "Schedule": "mustela.kernel.processors.punctuation",
    "SessionStore": "mustela.state.kinds.session_store",
    "StoreBuilder": "mustela.api.stores",
    "TestInputTopic": "mustela.testing.topics",
    "TestOutputTopic": "mustela.testing.topics",
    "Topology": "mustela.dsl.topology_builder",
    "VersionedKeyValueStore": "mustela.state.kinds.versioned_store",
    "WindowStore": "mustela.state.kinds.window_store",
}


_INSIDE = str(Path(mustela.__file__).parent / "dsl" / "traced.py")


class Trace:
    """Wraps the named methods and collects the tests that call them.

    Args:
        names: ``Class.method``, ``Class.method[Other]``, ``Class(option)``, ``Class()``.

    Attributes:
        tests: Ids of passing tests by name.
        missing: Names that the library does not have.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)
        self.missing: set[str] = set()
        self.breadth: dict[str, int] = {}
        self._called: set[str] = set()
        self._wrapped: set[tuple[type, str]] = set()
        for name in sorted(set(names)):
            head = name.partition("(")[0].partition("[")[0]
            owner, _, method = head.partition(".")
            try:
                self._wrap(_class(owner), method or "__init__", name)
            except AttributeError:
                self.missing.add(name)

    def _wrap(self, cls: type, method: str, name: str) -> None:
        if method == "__init__" and issubclass(cls, tuple):
            method = "__new__"
        owner = next((base for base in cls.__mro__ if method in vars(base)), None)
        if owner is None:
            raise AttributeError(name)
        if owner is object or (owner, method) in self._wrapped:
            return
        self._wrapped.add((owner, method))
        found = vars(owner)[method]
        if isinstance(found, property):
            assert found.fget is not None
            setattr(owner, method, property(self._noting(found.fget, method)))
        elif isinstance(found, classmethod | staticmethod):
            kind = type(found)
            noting = self._noting(found.__func__, method, owner=cls.__name__)
            setattr(owner, method, kind(noting))
        else:
            setattr(owner, method, self._noting(found, method))

    def _noting(
        self, function: Callable[..., Any], method: str, owner: str | None = None
    ) -> Callable[..., Any]:
        signature = inspect.signature(function)
        constructor = method in {"__init__", "__new__"}

        @functools.wraps(function)
        def noting(*positional: Any, **keywords: Any) -> Any:
            result = function(*positional, **keywords)
            options = _given(signature, positional, keywords)
            first = positional[0] if positional else None
            cls = owner or (first if isinstance(first, type) else type(first)).__name__
            title = cls if constructor else f"{cls}.{method}"
            self._called.add(f"{title}()" if constructor else title)
            self._called.update(f"{title}({option})" for option in options)
            if not constructor and len(positional) > 1:
                self._called.add(f"{title}[{type(positional[1]).__name__}]")
            return result

        # To the DSL, which looks for the user's line, this is code of its own.
        inside: Any = noting
        inside.__code__ = inside.__code__.replace(co_filename=_INSIDE)
        return inside

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep what a test has called if it passed."""
        report = yield
        if report.when == "setup":
            self._called.clear()
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            test = item.nodeid.partition("[")[0]
            self.breadth[test] = max(len(self._called), self.breadth.get(test, 0))
            for name in self._called:
                self.tests[name].add(test)
        return report

    def chosen(self, name: str, most: int) -> list[str]:
        """Return the tests of a name that call the fewest other things; examples come last."""
        known = self.tests.get(name, set())
        order = sorted(known, key=lambda t: (not t.startswith("tests/"), self.breadth[t], t))
        return order[:most]


def _given(
    signature: inspect.Signature, positional: tuple[Any, ...], keywords: dict[str, Any]
) -> set[str]:
    """Return the names of the arguments of a call that has passed.

    Verbs of the DSL take options by position, too, which their signatures do not say.
    """
    try:
        given = signature.bind(*positional, **keywords).arguments
    except TypeError:
        return set(keywords)
    return {*given, *given.get("keywords", ())}


def _class(name: str) -> type:
    module = _MODULES.get(name)
    return getattr(import_module(module), name) if module else public_names()[name]
