"""Kafka's own command line tools, as commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from mustela.cli.jars import jar_request

__all__ = ["kafka_tool", "with_broker"]

_ASK_A_BROKER = {
    "kafka-acls",
    "kafka-broker-api-versions",
    "kafka-cluster",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-consumer-groups",
    "kafka-consumer-perf-test",
    "kafka-delete-records",
    "kafka-features",
    "kafka-get-offsets",
    "kafka-groups",
    "kafka-leader-election",
    "kafka-log-dirs",
    "kafka-metadata-quorum",
    "kafka-streams-groups",
    "kafka-topics",
    "kafka-transactions",
}
_NAMES_A_BROKER = ("--bootstrap-server", "--bootstrap-controller", "--broker-list")
_ONLY_SAYS = ("--help", "--version")


def kafka_tool(name: str, arguments: Sequence[str]) -> int:
    """Become the tool; it takes over this process, its input and its output.

    Raises:
        UnknownToolError: If Kafka has no such tool.
        EnvironmentFault: If its Java or its jars cannot be had.
    """
    from mustela.broker.tools import tool_command

    request = jar_request()
    command = tool_command(name, with_broker(name, arguments, _servers), request=request)
    environment = dict(os.environ)
    if request.java is not None:
        environment = request.java.environment(environment)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)


def with_broker(name: str, arguments: Sequence[str], servers: Callable[[], str]) -> list[str]:
    """Name the broker of the settings to a tool that asks one and was told none.

    Example:
        >>> with_broker("kafka-topics", ["--list"], lambda: "localhost:9092")
        ['--bootstrap-server', 'localhost:9092', '--list']
        >>> with_broker("kafka-storage", ["random-uuid"], lambda: "localhost:9092")
        ['random-uuid']
    """
    told = any(argument.startswith(_NAMES_A_BROKER) for argument in arguments)
    only_says = any(argument in _ONLY_SAYS for argument in arguments)
    if name not in _ASK_A_BROKER or told or only_says or not arguments:
        return list(arguments)
    named = ["--bootstrap-server", servers()]
    # This one has commands of its own, and takes the broker behind them.
    return [*arguments, *named] if name == "kafka-cluster" else [*named, *arguments]


def _servers() -> str:
    from mustela.cli.settings import loose_settings

    return loose_settings().bootstrap_servers
