"""Kafka Streams in Java: compiled here, run in one JVM with two stream threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.base import Peer, joined, program_path
from mustela.java import find_java
from mustela_dev.broker.jars import jars_cache, resolve_jars

_COMPILE_TIMEOUT_S = 120
_HEAP = "1g"
_THREADS = 2


@dataclass(slots=True)
class KafkaStreamsPeer(Peer):
    """Kafka Streams 4.1: cache of 10 MB, topology optimisation on, RocksDB."""

    name: str = field(default="kafka_streams", init=False)
    threads: int = _THREADS

    def repartitions(self) -> bool:
        return self.assignment.program in ("word_count", "rekeyed", "foreign_key_join")

    def command(self) -> list[str]:
        java = find_java()
        jars = resolve_jars("kafka-streams")
        classes = compiled(jars)
        return [
            str(java.executable),
            f"-Xmx{_HEAP}",
            *("-cp", joined([classes, *jars])),
            "benchmarks.Main",
            *self.arguments(),
            *("--threads", str(self.threads)),
        ]


@dataclass(slots=True)
class TunedKafkaStreamsPeer(KafkaStreamsPeer):
    """The same as somebody sets it up who knows it well: `Tuning.java` says how."""

    name: str = field(default="kafka_streams_tuned", init=False)

    def command(self) -> list[str]:
        return [*KafkaStreamsPeer.command(self), *("--tuned", "true")]


def compiled(jars: tuple[Path, ...]) -> Path:
    """The folder of the peer's classes, compiled once for each state of its sources."""
    java = find_java()
    sources = sorted(program_path("kafka_streams").glob("*.java"))
    digest = hashlib.sha256(java.version.encode())
    for part in [*sources, *jars]:
        digest.update(part.read_bytes() if part.suffix == ".java" else part.name.encode())
    home = jars_cache().parent / "benchmarks"
    classes = home / f"kafka-streams-{digest.hexdigest()[:12]}"
    if classes.is_dir():
        return classes
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        target = Path(scratch) / "classes"
        subprocess.run(
            [
                str(java.executable.with_name("javac")),
                *("-cp", joined(jars)),
                *("-d", str(target)),
                *(str(source) for source in sources),
            ],
            check=True,
            timeout=_COMPILE_TIMEOUT_S,
            env=java.environment(os.environ),
        )
        if not classes.is_dir():
            target.rename(classes)
    return classes
