"""A program of a user's on a host of the cluster, and what it wrote in the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.tools import TailedRecord, TailOptions, tail
from mustela.java import find_java
from tests.cluster.rig import SPARK, Cluster, Host
from tests.patience import PATIENCE_S, looks

__all__ = ["Program"]

PLACE = "/tmp/app"


class Program:
    """Runs ``mustela run`` on a host, with the settings that reach the broker.

    Args:
        cluster: The cluster.
        host: Where the driver runs.
        files: The user's files, by their names.
        topics: Topics to make, with their partitions.
        executors_python: The Python of executors, if it is another than the driver's.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: Host,
        files: dict[str, str],
        topics: dict[str, int],
        *,
        executors_python: Path | None = None,
    ) -> None:
        self.cluster = cluster
        self.host = host
        python = {} if executors_python is None else {"PYSPARK_PYTHON": str(executors_python)}
        self._environment = python
        for name, text in files.items():
            host.put(f"{PLACE}/{name}", text)
        told = cluster.broker.client_settings
        self.properties = {name.removeprefix("kafka."): text for name, text in told.items()}
        settings: dict[str, Any] = {"bootstrap_servers": told["bootstrap.servers"]}
        settings["kafka"] = {k: v for k, v in self.properties.items() if k != "bootstrap.servers"}
        host.put(f"{PLACE}/mustela.yaml", json.dumps(settings))
        admin = KafkaAdmin(self.properties)
        admin.create([TopicSpec(name=name, partitions=count) for name, count in topics.items()])
        admin.close()
        self._producer = Producer({**self.properties, "log_level": 0})

    def send(self, topic: str, rows: list[tuple[str, str]]) -> None:
        """Write records, and wait until the broker has them."""
        for key, value in rows:
            self._producer.produce(topic, key=key, value=value)
        assert self._producer.flush(PATIENCE_S) == 0

    @contextmanager
    def running(self, *words: str) -> Generator[Program]:
        """Run ``mustela run`` with further words for as long as the block lasts."""
        command = [sys.executable, "-m", "mustela.cli.main", "run", *words, "--json"]
        with self.started(command, self._environment):
            yield self

    @contextmanager
    def submitted(self, *words: str) -> Generator[Program]:
        """Run ``spark-submit`` with further words for as long as the block lasts."""
        environment = {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(SPARK),
        }
        with self.started([str(SPARK / "bin/spark-submit"), *words], environment):
            yield self

    @contextmanager
    def started(
        self, command: list[str], environment: Mapping[str, str] | None = None
    ) -> Generator[Program]:
        """Run a program for as long as the block lasts."""
        how: dict[str, Any] = {"log": "app.log", "directory": PLACE, "environment": environment}
        with self.cluster.running(self.host, command, **how) as process:
            self._process = process
            yield self

    def command(self, *words: str) -> str:
        """Run a command of Mustela's to its end, and return what it printed."""
        log = f"command-{len(list(self.host.logs.iterdir()))}.log"
        command = [sys.executable, "-m", "mustela.cli.main", *words]
        process = self.host.popen(command, log=log, directory=PLACE)
        code = process.wait(PATIENCE_S)
        assert code == 0, self.host.said(log)
        return self.host.said(log)

    def log(self) -> str:
        """Return the last that the program printed."""
        return self.host.said("app.log")[-6000:]

    def rows(self, topic: str) -> list[tuple[str, str]]:
        """Return the committed rows of a topic, as text."""
        found = self.committed(topic)
        return [((row.key or b"").decode(), (row.value or b"").decode()) for row in found]

    def committed(self, topic: str) -> Iterator[TailedRecord]:
        """Yield the committed records of a topic."""
        return tail(self.properties, topic, TailOptions(until_end=True))

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a kind so far."""
        lines = (line for line in self.host.said("app.log").splitlines() if line.startswith("{"))
        told = (json.loads(line) for line in lines if line.endswith("}"))
        return [one for one in told if one.get("event") == kind]

    def until_running(self) -> None:
        """Wait until the program takes records."""
        states = looks(lambda: "running" in [one.get("state") for one in self.events("state")])
        assert any(self._while_alive(states)), self.host.said("app.log")

    def until_ended(self) -> None:
        """Wait until the program has ended by itself."""
        assert any(looks(lambda: self._process.poll() is not None)), self.host.said("app.log")

    def until_epochs(self, more: int) -> None:
        """Wait until so many further epochs are committed."""
        goal = len(self.events("epoch")) + more
        told = looks(lambda: len(self.events("epoch")) >= goal)
        assert any(self._while_alive(told)), self.host.said("app.log")

    def _while_alive(self, told: Any) -> Any:
        for one in told:
            yield one
            if self._process.poll() is not None:
                return

    def latest(self, topic: str) -> dict[str, int]:
        """Return the last committed number of each key."""
        found: dict[str, int] = {}
        for row in self.committed(topic):
            assert row.key is not None
            assert row.value is not None
            found[row.key.decode()] = int.from_bytes(row.value, "big", signed=True)
        return found

    def until_latest(self, topic: str, expected: dict[str, int]) -> None:
        """Wait until the last number of each key is what is expected; more is never right."""

        def there() -> bool:
            found = self.latest(topic)
            wrong = {k: v for k, v in found.items() if v > expected.get(k, 0)}
            assert not wrong, f"counted twice: {wrong}"
            return found == expected

        assert any(self._while_alive(looks(there))), (
            f"{self.host.said('app.log')[-6000:]}\n{self.latest(topic)} is not {expected}"
        )
