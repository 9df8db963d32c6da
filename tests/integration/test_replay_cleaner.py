"""Replays beside a broker's log cleaner that has really removed rows."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType as Operation,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry as Entry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource as Resource,  # pyright: ignore[reportPrivateImportUsage]
)

from mustela.cli.console import ExitCode
from mustela.cli.main import main
from tests.integration.app_world import World
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

EAGER = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.0001", "delete.retention.ms": "0"}
"""Each write closes the segment before it, and the cleaner may work on that at once."""
CLEANER_PAUSE = "log.cleaner.backoff.ms"
HISTORY = {"history.epochs": 1000}
LAG = "min.compaction.lag.ms"

SHOP = """
from mustela import App

app = App({name!r}, settings={settings!r})


@app.topology
def build(builder):
    words = builder.stream({source!r}, key=str, value=str).group_by_key()
    words.count(store="counts").to_stream().to({sink!r}, key=str, value=int)
"""


class Cleaner:
    """A log cleaner that works all the time, over topics with other settings."""

    def __init__(self, servers: str) -> None:
        self._client = AdminClient({"bootstrap.servers": servers})
        self._broker = next(iter(self._client.list_topics(timeout=60).brokers))

    def set_broker(self, pause_ms: str | None) -> None:
        self._alter("broker", str(self._broker), {CLEANER_PAUSE: pause_ms})

    def set(self, topic: str, config: dict[str, str]) -> None:
        self._alter("topic", topic, config)

    def _alter(self, kind: str, name: str, config: Mapping[str, str | None]) -> None:
        entries = [
            Entry(
                key,
                value,
                incremental_operation=Operation.DELETE if value is None else Operation.SET,
            )
            for key, value in config.items()
        ]
        asked = Resource(kind, name, incremental_configs=entries)
        for future in self._client.incremental_alter_configs([asked]).values():
            future.result(PATIENCE_S)


def test_the_cleaner_takes_nothing_that_history_age_keeps_and_what_it_took_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows that an epoch needs outlive the cleaner; without `history.age` they do not."""
    monkeypatch.chdir(world.directory)
    monkeypatch.setattr(sys, "path", [str(world.directory), *sys.path])
    stem = f"cleaned{len(sys.modules)}"
    source, sink = world.topic("in"), world.topic("out")
    chosen = {"bootstrap_servers": world.broker.bootstrap_servers, "key_groups": 1, **HISTORY}
    text = SHOP.format(name=world.name, settings=chosen, source=source, sink=sink)
    (world.directory / f"{stem}.py").write_text(text)
    module = importlib.import_module(stem)
    changelog = f"{world.name}-counts-changelog"
    control = world.topic("control", cleanup_policy="compact")
    cleaner = Cleaner(world.broker.bootstrap_servers)
    cleaner.set_broker("200")
    cleaner.set(control, EAGER)
    words = [f"w{n}" for n in range(5)]

    def more(topics: tuple[str, ...] = ()) -> None:
        """One epoch, in which every count changes; and the same rows in other topics."""
        for topic in (source, *topics):
            world.send(topic, [(word, "x", 1_000) for word in words])
        world.drain(app)

    def told(*options: str, epoch: int, code: int = 0) -> tuple[str, str]:
        assert main(["replay", f"{stem}:app", "--epoch", str(epoch), *options]) == code
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    try:
        app, _ = world.app(module.build, **{**HISTORY, "key_groups": 1})
        with app:
            more()
            epoch = world.records()[-1].epoch
            cleaner.set(changelog, EAGER)
            for _ in range(3):
                more((control,))

            def is_cleaned(topic: str) -> bool:
                world.send(control, [("w0", "x")])  # closes a segment
                return len({row.offset for row in world.rows(topic)}) < 15

            world.until(lambda: is_cleaned(control), "the cleaner has been at work", app)
            assert len(world.rows(changelog)) == 20
            head, *rows = map(json.loads, told("--json", epoch=epoch)[0].splitlines())
            assert (head["compared"], head["differences"]) == (10, 0)
            assert {row["value"] for row in rows if "store" in row} == {1}

            cleaner.set(changelog, {LAG: "0"})

            def is_gone() -> bool:
                more()
                return min(row.offset for row in world.rows(changelog)) > 5

            world.until(is_gone, "the cleaner has taken what the epoch wrote", app)
            last = world.records()[-1].epoch
        errors = told(epoch=epoch + 1, code=ExitCode.ENVIRONMENT)[1]
        assert "HISTORY_GONE" in errors
        assert f"compaction may have changed what {changelog} held before it" in errors
        fix = f"mustela replay {stem}:app --epoch {last + 1}"
        assert fix in errors
        told(epoch=last + 1)
    finally:
        cleaner.set_broker(None)
