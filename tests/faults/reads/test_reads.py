"""Clients ask for stores while workers are killed, and while lanes and releases change.

`./dev faults --reads N` plays many such programs in processes of their own, which are killed, too.
"""

from __future__ import annotations

from typing import Any

import pytest

from mustela import App
from mustela_dev.broker.probe import free_port
from tests.faults.feed import Feeder
from tests.faults.reads.app import Readers
from tests.faults.reads.book import book_of
from tests.faults.reads.clients import Clients
from tests.faults.reads.judge import Judge
from tests.faults.reads.program import KEY_GROUPS, RELEASES, draw, maker
from tests.faults.reads.served import tell
from tests.faults.spark_workers import kill_workers
from tests.integration.app_world import Watcher, World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.crash]
pytest_plugins = ["tests.integration.app_fixture"]

SEED = 202
"""Its program has a global table, versions, sessions and rows that expire; it gains documents and
windows.
"""
LANES = (2, 3, 1)
EPOCHS, ANSWERS = 2, 4
TOKEN = "queries-of-the-test-0123456789"


class Asked:
    """An application whose stores are asked, in the Spark context of the tests.

    Args:
        world: The broker and Spark.
    """

    def __init__(self, world: World) -> None:
        self.last = draw(SEED, RELEASES - 1)
        self.seen: list[dict[str, Any]] = []
        self._world = world
        place = f"127.0.0.1:{free_port()}"
        self._admin = {
            "enabled": True,
            "listen": place,
            "query_token": TOKEN,
            "request_timeout": "20s",
        }
        for topic in self.last.topics:
            world.topic(topic, partitions=2)
        sure = frozenset(draw(SEED, 0).shapes)
        shapes, addresses = self.last.shapes, {"app": f"http://{place}"}
        token = world.directory / "token"
        token.write_text(TOKEN, encoding="utf-8")
        self.clients = Clients(addresses, token, shapes, sure, seed=SEED)
        source = f"{world.name}.{self.last.topics[0]}"
        make, servers = maker(self.last.topics), world.broker.bootstrap_servers
        self._feeder = Feeder(servers, source, make, seed=SEED)

    def __enter__(self) -> Asked:
        """Begin to feed and to ask."""
        self._feeder.start()
        self.clients.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.clients.stop()
        self._feeder.stop()

    def live(self, release: int, lanes: int) -> None:
        """Run a release until clients had answers, before and after its workers were killed."""
        program = draw(SEED, release)
        app, watcher = self._world.app(
            lambda builder: program.build(builder, self._world.name),
            key_groups=KEY_GROUPS,
            lanes=lanes,
            commit_interval="50ms",
            admin=self._admin,
        )
        tell(app, program)
        readers = Readers(app, program, self._say)
        with app:
            readers.start()
            self._await_answers(app, watcher)
            assert kill_workers()
            self._await_answers(app, watcher)
            if release == RELEASES - 1:
                self._world.until(self._all_asked, "clients have asked for all stores", app)
            readers.end()

    def _all_asked(self) -> bool:
        return bool(self.clients.errors) or not self.clients.unasked()

    def _say(self, kind: str, **facts: Any) -> None:
        self.seen.append({"event": kind, **facts})

    def _await_answers(self, app: App, watcher: Watcher) -> None:
        inside, outside = len(self.seen), self.clients.count("app")
        epochs = len(watcher.epochs) + EPOCHS

        def had() -> bool:
            asked = min(len(self.seen) - inside, self.clients.count("app") - outside)
            return len(watcher.epochs) >= epochs and asked >= ANSWERS

        self._world.until(had, "clients have had answers", app)


def test_answers_are_those_of_epochs_over_lanes_and_releases(world: World) -> None:
    """Each names one that was committed, shows what it left, and none is older than one before."""
    with Asked(world) as asked:
        for release, lanes in enumerate(LANES):
            asked.live(release, lanes)
    servers, last = world.broker.bootstrap_servers, asked.last
    judge = Judge(book_of(servers, world.name, last, world.records()), last.shapes)
    judge.take(look for look in asked.seen if look["event"] == "look")
    judge.take(asked.clients.looks)
    wrong = [look["text"] for look in asked.seen if look["event"] == "misread"]
    assert not [*judge.violations, *asked.clients.errors, *wrong]
    assert len(judge.epochs) > RELEASES * EPOCHS
    assert len(judge.answers) == 10, judge.answers
