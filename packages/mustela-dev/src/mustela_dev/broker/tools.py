"""Kafka's own command line tools, run from checked jars."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from mustela.errors import EnvironmentFault, UsageError
from mustela.java import find_java
from mustela_dev.broker.jars import JarRequest
from mustela_dev.broker.process import class_path

__all__ = ["TOOLS", "ToolFailedError", "UnknownToolError", "run_tool", "tool_command", "tool_line"]

TOOL_TIMEOUT_S = 120.0
TAIL_LINES = 15
HEAP_MB = 256
_TOOLS_PACKAGE = "org.apache.kafka.tools"

TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "kafka-acls": f"{_TOOLS_PACKAGE}.AclCommand",
        "kafka-broker-api-versions": f"{_TOOLS_PACKAGE}.BrokerApiVersionsCommand",
        "kafka-cluster": f"{_TOOLS_PACKAGE}.ClusterTool",
        "kafka-configs": "kafka.admin.ConfigCommand",
        "kafka-console-consumer": f"{_TOOLS_PACKAGE}.consumer.ConsoleConsumer",
        "kafka-console-producer": f"{_TOOLS_PACKAGE}.ConsoleProducer",
        "kafka-consumer-groups": f"{_TOOLS_PACKAGE}.consumer.group.ConsumerGroupCommand",
        "kafka-consumer-perf-test": f"{_TOOLS_PACKAGE}.ConsumerPerformance",
        "kafka-delete-records": f"{_TOOLS_PACKAGE}.DeleteRecordsCommand",
        "kafka-dump-log": "kafka.tools.DumpLogSegments",
        "kafka-features": f"{_TOOLS_PACKAGE}.FeatureCommand",
        "kafka-get-offsets": f"{_TOOLS_PACKAGE}.GetOffsetShell",
        "kafka-groups": f"{_TOOLS_PACKAGE}.GroupsCommand",
        "kafka-leader-election": f"{_TOOLS_PACKAGE}.LeaderElectionCommand",
        "kafka-log-dirs": f"{_TOOLS_PACKAGE}.LogDirsCommand",
        "kafka-metadata-quorum": f"{_TOOLS_PACKAGE}.MetadataQuorumCommand",
        "kafka-producer-perf-test": f"{_TOOLS_PACKAGE}.ProducerPerformance",
        "kafka-storage": "kafka.tools.StorageTool",
        "kafka-streams-groups": f"{_TOOLS_PACKAGE}.streams.StreamsGroupCommand",
        "kafka-topics": f"{_TOOLS_PACKAGE}.TopicCommand",
        "kafka-transactions": f"{_TOOLS_PACKAGE}.TransactionsCommand",
    }
)


class UnknownToolError(UsageError):
    """Kafka has no tool of that name, or it is not offered."""

    code = "KAFKA_TOOL_UNKNOWN"


class ToolFailedError(EnvironmentFault):
    """One of Kafka's tools ended with an error."""

    code = "KAFKA_TOOL_FAILED"


def tool_command(name: str, args: Sequence[str], *, request: JarRequest | None = None) -> list[str]:
    """Return the command line that runs a tool.

    The jar of the tools is fetched on first use.

    Args:
        name: The name of the script in Kafka's ``bin``, without ``.sh``.
        args: Its arguments.
        request: Where to get jars and Java.

    Raises:
        UnknownToolError: If there is no such tool.
        JavaNotFoundError: If no suitable Java is found.
        EnvironmentFault: If the jars are not available.
    """
    main = _main_class(name)
    asked = request or JarRequest()
    java = asked.java or find_java(asked.environment)
    log4j = Path(__file__).resolve().with_name("tools-log4j2.properties").as_uri()
    return [
        str(java.executable),
        f"-Xmx{HEAP_MB}m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j2.configurationFile={log4j}",
        "-cp",
        class_path(replace(asked, java=java), sets=("kafka", "kafka-tools")),
        main,
        *args,
    ]


def run_tool(
    name: str,
    args: Sequence[str],
    *,
    request: JarRequest | None = None,
    stdin: str = "",
    timeout_s: float = TOOL_TIMEOUT_S,
) -> str:
    """Run a tool and return its output. Some tools print an error and still exit with 0.

    Args:
        name: The name of the script in Kafka's ``bin``, without ``.sh``.
        args: Its arguments.
        request: Where to get jars and Java.
        stdin: Its standard input.
        timeout_s: Seconds that it may take before it is killed.

    Raises:
        UnknownToolError: If there is no such tool.
        ToolFailedError: If it ended with an error or took too long.
        EnvironmentFault: If Java or its jars are not available.
    """
    command = tool_command(name, args, request=request)
    asked = request or JarRequest()
    java = asked.java or find_java(asked.environment)
    try:
        answer = subprocess.run(
            command,
            env=java.environment(asked.environment),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as problem:
        what = f"{name} took more than {timeout_s:g} s"
        raise ToolFailedError(what, fix="check that the broker answers") from problem
    if answer.returncode != 0:
        what = f"{name} ended with {answer.returncode}"
        said = (answer.stdout + answer.stderr).strip().splitlines()[-TAIL_LINES:]
        raise ToolFailedError(what, evidence={"says": "\n".join(said)})
    return answer.stdout


def tool_line(name: str, args: Sequence[str]) -> str:
    """Return the command that a user types to run a tool through Mustela.

    Raises:
        UnknownToolError: If there is no such tool.

    Example:
        >>> tool_line("kafka-consumer-groups", ["--describe", "--group", "word count"])
        "mustela kafka-consumer-groups --describe --group 'word count'"
    """
    _main_class(name)
    return shlex.join(["mustela", name, *args])


def _main_class(name: str) -> str:
    main = TOOLS.get(name)
    if main is None:
        what = f"no Kafka tool {name!r}"
        raise UnknownToolError(what, evidence={"known": ", ".join(TOOLS)})
    return main
