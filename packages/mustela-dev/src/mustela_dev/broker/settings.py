"""The files that the development broker reads: its properties and its logging configuration."""

from __future__ import annotations

from collections.abc import Mapping

from mustela_dev.broker.probe import LOOPBACK

__all__ = ["LOG4J_TEXT", "LOGS_DIRECTORY", "jvm_options", "properties_text", "server_properties"]

# Relative to the data directory, where the broker runs: no path needs quoting.
LOGS_DIRECTORY = "kafka"

LOG4J_TEXT = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


def server_properties(
    port: int, controller_port: int, changes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the properties of a broker that is its own controller and listens on loopback alone.

    Nothing is deleted by age, because records with old timestamps would be deleted at once; set
    ``retention.ms`` on a topic to change this. Topics are not created automatically.

    Args:
        port: The port for clients.
        controller_port: The port of the controller.
        changes: Properties that override these.
    """
    listeners = f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": LOGS_DIRECTORY,
        "auto.create.topics.enable": "false",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",
        "log.retention.bytes": "-1",
        # The default would take half of a small heap before the first record arrives.
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        "log.cleaner.io.buffer.size": str(256 << 10),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        # A killed broker is admitted again only when its old session has expired, so this is
        # shorter than Kafka's 9 s; if it were much shorter, a machine under load would expel it.
        "broker.heartbeat.interval.ms": "1000",
        "broker.session.timeout.ms": "6000",
        **(changes or {}),
    }


def properties_text(properties: Mapping[str, str]) -> str:
    """Return ``properties`` as the text of a Java properties file."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("=", "\\=")
    encoded = plain.encode("utf-16-be")
    units = [int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2)]
    written = "".join(chr(unit) if unit < 0x7F else f"\\u{unit:04x}" for unit in units)
    return f"\\{written}" if written.startswith((" ", "#", "!")) else written


def jvm_options(*, heap_mb: int, fast_start: bool) -> list[str]:
    """Return the options of the broker's Java.

    Args:
        heap_mb: Its heap, in megabytes.
        fast_start: Compile quickly rather than well: up sooner, slower under load.
    """
    if fast_start:
        speed = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    else:
        speed = ["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    return [
        f"-Xms{min(heap_mb, 128)}m",
        f"-Xmx{heap_mb}m",
        *speed,
        "-XX:+ExitOnOutOfMemoryError",
        # No files of the JVM itself under /tmp.
        "-XX:-UsePerfData",
        "-Xshare:auto",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        # Native libraries are unpacked here; the next start removes what a killed broker left.
        "-Djava.io.tmpdir=tmp",
        "-Dlog4j2.configurationFile=log4j2.properties",
    ]
