"""Kafka's own command line tools, as commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mustela_dev.commands.jars import jar_request

if TYPE_CHECKING:
    from mustela.config.clients import Role
    from mustela.config.settings import Settings

__all__ = ["kafka_tool", "with_broker", "with_security"]

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
_OWN_CONFIG: dict[str, tuple[str, Role]] = {
    "kafka-cluster": ("--config", "admin"),
    "kafka-console-consumer": ("--consumer.config", "consumer"),
    "kafka-console-producer": ("--producer.config", "producer"),
    "kafka-consumer-perf-test": ("--consumer.config", "consumer"),
    "kafka-leader-election": ("--admin.config", "admin"),
}
_COMMAND_CONFIG: tuple[str, Role] = ("--command-config", "admin")
_CONFIG_FLAGS = (
    "--command-config",
    "--command.config",
    "--consumer.config",
    "--consumer-config",
    "--producer.config",
    "--producer-config",
    "--admin.config",
)


def kafka_tool(name: str, arguments: Sequence[str]) -> int:
    """Become the tool; it takes over this process, its input and its output.

    Raises:
        UnknownToolError: If Kafka has no such tool.
        ToolSecurityError: If the security settings cannot be translated for the tool.
        EnvironmentFault: If Java or its jars are not available.
    """
    from mustela.cli.settings import loose_settings
    from mustela_dev.broker.tools import tool_command

    request = jar_request()
    told = with_broker(name, arguments, lambda: loose_settings().bootstrap_servers)
    command = tool_command(name, with_security(name, told, loose_settings), request=request)
    environment = dict(os.environ)
    if request.java is not None:
        environment = request.java.environment(environment)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)


def with_broker(name: str, arguments: Sequence[str], servers: Callable[[], str]) -> list[str]:
    """Add the broker of the settings to the arguments of a tool that needs one and names none.

    Example:
        >>> with_broker("kafka-topics", ["--list"], lambda: "localhost:9092")
        ['--bootstrap-server', 'localhost:9092', '--list']
        >>> with_broker("kafka-storage", ["random-uuid"], lambda: "localhost:9092")
        ['random-uuid']
    """
    told = any(argument.startswith(_NAMES_A_BROKER) for argument in arguments)
    if not _asks(name, arguments) or told:
        return list(arguments)
    return _joined(name, arguments, ["--bootstrap-server", servers()])


def with_security(
    name: str, arguments: Sequence[str], settings: Callable[[], Settings]
) -> list[str]:
    """Pass the security settings to a tool, if it connects to the settings' broker.

    Nothing is passed to a tool that is given its own file, or that connects to other brokers, which
    must not learn the password.

    Raises:
        ToolSecurityError: If the security settings cannot be translated for the tool.

    Example:
        >>> from mustela.config.settings import Settings
        >>> plain = Settings.load(application_id="a")
        >>> with_security("kafka-topics", ["--list"], lambda: plain)
        ['--list']
    """
    flag, role = _OWN_CONFIG.get(name, _COMMAND_CONFIG)
    flags = {flag, *_CONFIG_FLAGS}
    told = any(argument.partition("=")[0] in flags for argument in arguments)
    if not _asks(name, arguments) or told:
        return list(arguments)
    from mustela.config.clients import client_properties
    from mustela_dev.commands.toolsecurity import java_security, nameless_file, properties_text

    loaded = settings()
    brokers = _brokers(arguments)
    if brokers and not brokers & set(loaded.bootstrap_servers.split(",")):
        return list(arguments)
    properties = java_security(client_properties(loaded, role), flag)
    if not properties:
        return list(arguments)
    return _joined(name, arguments, [flag, nameless_file(properties_text(properties))])


def _asks(name: str, arguments: Sequence[str]) -> bool:
    """Return whether the tool will connect to a broker."""
    return bool(arguments) and name in _ASK_A_BROKER and not set(_ONLY_SAYS) & set(arguments)


def _brokers(arguments: Sequence[str]) -> set[str]:
    """Return the brokers that the arguments name."""
    found: set[str] = set()
    for place, argument in enumerate(arguments):
        flag, _, value = argument.partition("=")
        if flag in _NAMES_A_BROKER:
            found.update((value or "".join(arguments[place + 1 : place + 2])).split(","))
    return found


def _joined(name: str, arguments: Sequence[str], more: Sequence[str]) -> list[str]:
    # This tool has subcommands, and takes the broker after them.
    return [*arguments, *more] if name == "kafka-cluster" else [*more, *arguments]
