"""The topics that a topology under test reads and writes, and their serdes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from mustela.api.handlers import app_handlers, may_bury
from mustela.config.handlers import handler_text
from mustela.config.settings import Settings
from mustela.plan.bound import SerdeBinder
from mustela.plan.plan import Plan
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.serdes.resolve import resolve_serde
from mustela.testing.faults import TestDriverError
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.graph import TopologyGraph
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["check_written", "reader_of", "sinks_of", "topic_serde", "why_no_letters"]

Reader = SourceNode | TableSourceNode | GlobalTableNode
"""A step that reads a topic."""

_HANDLERS = ("deserialization_handler", "processing_handler", "production_handler")


def reader_of(topology: TopologyGraph, topic: str) -> Reader:
    """Return the step that reads a topic.

    Raises:
        TestDriverError: If there is none.
    """
    readers: list[Reader] = [
        node
        for node in topology
        if isinstance(node, SourceNode | TableSourceNode | GlobalTableNode)
    ]
    found = next((node for node in readers if node.matches(topic)), None)
    if found is None:
        known = ", ".join(dict.fromkeys(name for node in readers for name in node.topics))
        msg = f"the topology does not read topic {topic!r}"
        raise TestDriverError(
            msg, evidence={"it reads": known or "no topic"}, fields={"topic": topic}
        )
    return found


def sinks_of(
    topology: TopologyGraph, topic: str, binder: SerdeBinder
) -> dict[str, tuple[Serde[Any], Serde[Any]]]:
    """Return the serdes of the sinks that may write a topic, by step.

    A sink that writes only this topic comes before those whose topic a function names: its serdes
    apply to all rows.
    """
    sinks = [node for node in topology if isinstance(node, SinkNode)]
    fixed = [node for node in sinks if node.topic == topic]
    chosen = [node for node in sinks if not isinstance(node.topic, str)]
    first = fixed[:1]
    return {
        node.name: (
            binder.serde((first[0] if first else node).key or BytesSerde(), topic, key=True),
            binder.serde((first[0] if first else node).value or BytesSerde(), topic, key=False),
        )
        for node in [*fixed, *chosen]
    }


def topic_serde(
    binder: SerdeBinder, topic: str, said: Any, known: Serde[Any] | None, *, key: bool
) -> Serde[Any]:
    """Return a topic's serde: the test's, the topology's, or bytes."""
    serde = resolve_serde(said, key=key) if said is not None else known or BytesSerde()
    return binder.serde(serde, topic, key=key)


def check_written(topic: str, topology: TopologyGraph, settings: Settings) -> None:
    """Check that a topic can have rows, or is the dead-letter topic.

    Raises:
        TestDriverError: If no step writes it.
    """
    sinks = [node for node in topology if isinstance(node, SinkNode)]
    named = sorted({node.topic for node in sinks if isinstance(node.topic, str)})
    chosen = any(not isinstance(node.topic, str) for node in sinks)
    if not chosen and topic not in named and topic != settings.dead_letter_topic:
        raise _not_written(topic, named)


def why_no_letters(topic: str, plan: Plan, settings: Settings) -> str | None:
    """Return why a dead-letter topic stays empty; None if it is not one, or can have records."""
    handlers = [f"{name} is {handler_text(getattr(settings, name))}" for name in _HANDLERS]
    if topic != settings.dead_letter_topic or plan.writes_letters:
        return None
    if any(map(may_bury, app_handlers(settings).values())):
        return None
    return f"dead letters are written where a handler says dead_letter: {', '.join(handlers)}"


def _not_written(topic: str, named: Sequence[str]) -> TestDriverError:
    fix = "read a topic that a step writes with to()"
    close = difflib.get_close_matches(topic, named, n=1)
    return TestDriverError(
        f"the topology does not write topic {topic!r}",
        evidence={"it writes": ", ".join(named) or "no topic"},
        fix=f"did you mean {close[0]!r}?" if close else fix,
        fields={"topic": topic},
    )
