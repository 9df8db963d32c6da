"""Plain PySpark Structured Streaming, on the same PySpark and two cores."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kafka import Topics
from benchmarks.peers.base import Peer, joined, program_path
from mustela.java import find_java
from mustela_dev.broker.jars import resolve_jars


@dataclass(slots=True)
class SparkPeer(Peer):
    """Structured Streaming with RocksDB state; its progress is what its checkpoint committed."""

    name: str = field(default="pyspark", init=False)

    def command(self) -> list[str]:
        return [
            sys.executable,
            str(program_path("spark_app.py")),
            *self.arguments(),
            *("--records", str(self.assignment.records)),
            *("--jars", joined(list(resolve_jars("spark-kafka")))),
        ]

    def environment(self) -> Mapping[str, str]:
        return {"JAVA_HOME": str(find_java().home)}

    def progress(self, topics: Topics) -> int:  # noqa: ARG002 - its offsets are not in Kafka
        todo = self.assignment
        return committed_by(todo.state_dir / "checkpoint", (todo.input_topic, *todo.sides))


def committed_by(checkpoint: Path, topics: Collection[str]) -> int:
    """How many records of some topics the newest committed batch of a checkpoint has reached."""
    commits = checkpoint / "commits"
    batches = [
        int(entry.name)
        for entry in (commits.iterdir() if commits.is_dir() else ())
        if entry.name.isdigit()
    ]
    if not batches:
        return 0
    try:
        text = (checkpoint / "offsets" / str(max(batches))).read_text()
    except FileNotFoundError:
        return 0
    reached = 0
    for line in text.splitlines():
        if line.startswith("{"):  # the batch's own settings, then one line for each source
            found = json.loads(line)
            reached += sum(sum(found[topic].values()) for topic in topics if topic in found)
    return reached
