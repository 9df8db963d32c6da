"""Kafka Streams as a process that answers questions, one line of JSON each."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mustela.java import Java, find_java
from mustela_dev.broker.jars import jars_cache, resolve_jars
from tests.patience import PATIENCE_S

__all__ = ["KafkaStreams", "Refused", "missing_compiler"]

_SOURCES = Path(__file__).parent / "java"
_COMPILE_TIMEOUT_S = 120
_HEAP = "256m"


class Refused(Exception):
    """Kafka Streams does not build or run what it was asked."""


def missing_compiler() -> str:
    """Return why no Java program can be compiled here; empty where one can."""
    try:
        java = find_java()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is the reason
        return f"no Java: {problem}"
    return "" if _compiler(java).exists() else f"no javac beside {java.executable}: install a JDK"


def _compiler(java: Java) -> Path:
    return java.executable.with_name("javac")


def _compiled(java: Java, jars: Sequence[Path]) -> Path:
    """Return the folder of the classes, compiled once for each state of the sources."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(java.version.encode())
    for part in [*sources, *jars]:
        digest.update(part.read_bytes() if part.suffix == ".java" else part.name.encode())
    home = jars_cache().parent / "differential"
    classes = home / digest.hexdigest()[:12]
    if not classes.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            target = Path(scratch) / "classes"
            subprocess.run(
                [
                    str(_compiler(java)),
                    *("-nowarn", "-cp", os.pathsep.join(map(str, jars))),
                    *("-d", str(target)),
                    *map(str, sources),
                ],
                check=True,
                timeout=_COMPILE_TIMEOUT_S,
                env=java.environment(os.environ),
            )
            if not classes.is_dir():
                target.rename(classes)
    return classes


class KafkaStreams:
    """Kafka Streams' own test driver in a Java process that is kept alive.

    Args:
        scratch: A directory for its state.
    """

    def __init__(self, scratch: Path) -> None:
        java = find_java()
        jars = resolve_jars("kafka-streams")
        self._unanswered = 0
        classpath = os.pathsep.join(map(str, [_compiled(java, jars), *jars]))
        self._process = subprocess.Popen(
            [
                str(java.executable),
                *(f"-Xmx{_HEAP}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                *("-cp", classpath, "differential.Main", str(scratch)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=java.environment(os.environ),
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return what was written and what is kept.

        ``outputs`` has what was written after each input: number of the sink, key, value, time
        and headers; ``stores`` what the named stores answer at the end, by question. Where a buffer
        is full that must not be, there are outputs of the inputs before alone, and no stores.

        Raises:
            Refused: If Kafka Streams refuses the topology, or fails on an input.
        """
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        self._unanswered += 1
        to.write(json.dumps(question) + "\n")
        to.flush()
        line = ""
        while self._unanswered:  # who asked before may have been interrupted
            line = back.readline()
            self._unanswered -= 1
        assert line, f"Kafka Streams ended with {self._process.wait(PATIENCE_S)}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
