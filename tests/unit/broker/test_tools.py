"""Kafka's tools, with a stand-in for Java."""

from __future__ import annotations

import pytest

from mustela_dev.broker.tools import (
    ToolFailedError,
    UnknownToolError,
    run_tool,
    tool_command,
    tool_line,
)
from tests.unit.broker.conftest import StandIn


def test_a_tool_gets_its_arguments_and_input(stand_in: StandIn) -> None:
    """What it prints comes back, in any letters."""
    request = stand_in('for last; do :; done; echo "$last"; cat').jars
    assert run_tool("kafka-topics", ["--list", "größe"], request=request, stdin="é") == "größe\né"


def test_a_tool_that_fails_is_an_error_with_its_words(stand_in: StandIn) -> None:
    """The error says which tool, its exit code and what it printed."""
    request = stand_in("echo 'no such group' >&2; exit 3").jars
    with pytest.raises(ToolFailedError) as caught:
        run_tool("kafka-consumer-groups", ["--describe"], request=request)
    assert caught.value.what == "kafka-consumer-groups ended with 3"
    assert caught.value.evidence["says"] == "no such group"


def test_a_tool_that_takes_too_long_is_ended(stand_in: StandIn) -> None:
    """A tool waits for a broker that is gone for minutes."""
    request = stand_in("exec sleep 1000").jars
    with pytest.raises(ToolFailedError, match=r"took more than 0\.2 s"):
        run_tool("kafka-topics", ["--list"], request=request, timeout_s=0.2)


def test_an_unknown_tool_is_refused() -> None:
    """Before any jar is looked for; the error lists those there are."""
    with pytest.raises(UnknownToolError) as caught:
        tool_command("kafka-nonsense", [])
    assert "kafka-topics" in caught.value.evidence["known"]


def test_the_line_to_type_is_quoted_for_the_shell() -> None:
    """So that it can be copied as it is printed."""
    line = tool_line("kafka-consumer-groups", ["--describe", "--group", "word count"])
    assert line == "mustela kafka-consumer-groups --describe --group 'word count'"
