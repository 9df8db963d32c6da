"""Kafka's own tools as commands."""

from __future__ import annotations

import os

import pytest

from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela_dev.broker.tools import TOOLS
from mustela_dev.commands import tools


def test_every_tool_that_asks_a_broker_exists() -> None:
    """The list of those that are given one names only tools that are offered."""
    assert set(TOOLS) >= tools._ASK_A_BROKER


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bootstrap-server", "a:1", "--list"],
        ["--bootstrap-server=a:1", "--list"],
        ["--bootstrap-controller", "a:1", "--list"],
        ["--help"],
        [],
    ],
)
def test_a_tool_that_was_told_is_left_alone(arguments: list[str]) -> None:
    """A broker that the user names wins; help needs none."""
    assert tools.with_broker("kafka-topics", arguments, lambda: "b:2") == arguments


def test_an_unknown_tool_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the tools that there are."""
    assert main(["kafka-nonsense", "--list"]) == ExitCode.USAGE
    assert "kafka-consumer-groups" in capsys.readouterr().err


def test_a_tool_replaces_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the terminal, Java's environment, and the broker of the settings."""
    ran: list[list[str]] = []

    def become(path: str, command: list[str], environment: dict[str, str]) -> None:
        assert path == command[0]
        assert environment["LC_ALL"] == "C.UTF-8"
        ran.append(command)
        raise KeyboardInterrupt

    monkeypatch.setenv("MUSTELA__BOOTSTRAP_SERVERS", "there:1234")
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(
        "mustela_dev.broker.tools.tool_command", lambda name, args, request: ["/java", name, *args]
    )
    assert main(["kafka-topics", "--list"]) == ExitCode.INTERRUPTED
    assert ran == [["/java", "kafka-topics", "--bootstrap-server", "there:1234", "--list"]]
