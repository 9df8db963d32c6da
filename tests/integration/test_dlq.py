"""Dead letters on a real broker: listed, replayed exactly once whatever is killed, dropped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.main import main
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.ranges import RangeReader
from mustela.plan.letters import letter_headers
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeTopic, plain_producer, values_of
from tests.patience import looks

pytestmark = pytest.mark.broker
pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]


class Letters:
    """An application with dead letters.

    Attributes:
        name: The application.
        source: Where its records were read from.
    """

    def __init__(
        self,
        properties: dict[str, Any],
        make_topic: MakeTopic,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.source = make_topic(2, retention_ms="-1")
        self.topic = make_topic(1, retention_ms="-1")
        self.name = f"app-{self.topic}"
        self.properties = properties
        self._capsys = capsys
        self._producer = plain_producer(properties)
        self._admin, self._reader = KafkaAdmin(properties), RangeReader(properties)
        self.environment = {
            "MUSTELA__DEAD_LETTER_TOPIC": self.topic,
            "MUSTELA__BOOTSTRAP_SERVERS": str(properties["bootstrap.servers"]),
        }
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def write(self, count: int, *, step: str = "parse", **more: str) -> None:
        """Write letters of records 0, 1, … of partition 1, each with a header of its own."""
        for number in range(count):
            facts = {
                "step": step,
                "class": "ValueError",
                "text": f"number {number} is bad",
                "attempts": 1,
                "topic": self.source,
                "partition": 1,
                "offset": number,
                **more,
            }
            epoch = ("mustela.epoch", b"7")  # as an application adds it to each row
            headers = [("trace", b"t%d" % number), *letter_headers(facts), epoch]
            self._producer.produce(
                self.topic, b"%d" % number, b"k%d" % number, headers=headers, timestamp=1000
            )
        assert self._producer.flush(30) == 0

    def send_to_source(self, key: str, value: str, headers: list[Any]) -> None:
        """Write a record to partition 1 of the source topic."""
        self._producer.produce(self.source, value, key, partition=1, headers=headers)
        assert self._producer.flush(30) == 0

    def type(self, *arguments: str) -> tuple[int, str]:
        """Run ``mustela dlq …`` and return its exit code and what it printed."""
        verb, *rest = arguments
        self._capsys.readouterr()
        code = main(["dlq", verb, self.name, *rest])
        return code, self._capsys.readouterr().out

    def waiting(self) -> list[str]:
        """Return the places of the letters that wait."""
        code, out = self.type("list", "--json")
        assert code == 0
        return [json.loads(line)["letter"] for line in out.splitlines()]

    def await_waiting(self, *places: str) -> None:
        """Wait until these letters wait, and no others."""
        assert any(found == [*places] for found in looks(self.waiting)), self.waiting()

    def await_records(self, wanted: list[str]) -> None:
        """Wait until the source topic has these records: a commit shows a moment after it."""
        assert any(found == wanted for found in looks(self.records)), self.records()

    def records(self) -> list[str]:
        """Return the values of the records in the source topic."""
        place = (self.source, 1)
        ((_, end),) = self._admin.end_offsets([place]).items()
        found = values_of(self._reader, self.source, 0, end, partition=1) if end else []
        return sorted((value or b"").decode() for value in found)


@pytest.fixture
def letters(
    properties: dict[str, Any],
    make_topic: MakeTopic,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Letters:
    return Letters(properties, make_topic, capsys, monkeypatch)


def test_a_list_shows_what_was_raised_and_not_again_where(letters: Letters) -> None:
    """A long message is cut at its beginning: what is wrong stands at its end."""
    where = "step 'parse' failed on a record of topic 'orders': ValueError: "
    letters.write(1, text=f"{where}invalid literal for int() with base 10: 'twelve'")
    letters.write(1, text=f"{where}{'long ' * 30}and then the cause", offset="1")
    code, out = letters.type("list")
    assert code == 0
    assert "invalid literal for int() with base 10: 'twelve'" in out
    assert "failed on a record" not in out
    assert "…" in out
    assert "and then the cause" in out
    assert max(map(len, out.splitlines())) < 250
    code, out = letters.type("list", "--wide")
    assert f"{where}{'long ' * 30}and then the cause" in out


def test_letters_are_listed_and_shown(letters: Letters) -> None:
    """With where the record was, why it failed, its own headers and its bytes."""
    letters.write(2)
    letters.write(1, step="other")
    code, out = letters.type("list", "--step", "parse")
    assert code == 0
    assert "number 1 is bad" in out
    assert "0:2" not in out
    assert f"{letters.source}:1:1" in out
    code, out = letters.type("show", "0:1", "--json")
    facts = json.loads(out)
    assert (facts["key"], facts["value"], facts["timestamp"]) == ("k1", "1", 1000)
    assert (facts["topic"], facts["partition"], facts["offset"]) == (letters.source, 1, 1)
    assert (facts["class"], facts["attempts"], facts["state"]) == ("ValueError", "1", "waiting")
    assert facts["headers"] == [["trace", "t1"]]
    code, out = letters.type("list", "--grep", "number 0", "--json")
    assert [json.loads(line)["letter"] for line in out.splitlines()] == ["0:0", "0:2"]


def test_a_replay_sends_each_record_once_however_often_it_is_run(letters: Letters) -> None:
    """Back to its topic and partition, with key, time and headers; a dry run sends nothing."""
    letters.write(5)
    code, out = letters.type("replay", "--dry-run")
    assert (code, out) == (0, f"5 would be replayed to {letters.source}\n")
    assert letters.records() == []
    code, out = letters.type("replay", "0:1", "0:3", "--yes", "--json")
    assert json.loads(out) == {"replayed": 2, "topics": {letters.source: 2}, "left": {}}
    letters.await_records(["1", "3"])
    letters.await_waiting("0:0", "0:2", "0:4")
    assert letters.type("replay", "--yes", "--rate", "1000")[0] == 0
    assert letters.type("replay", "--yes")[0] == 0
    letters.await_records(["0", "1", "2", "3", "4"])
    letters.await_waiting()
    facts = json.loads(letters.type("show", "0:1", "--json")[1])
    assert (facts["state"], facts["sent_to"]) == ("replayed", letters.source)


def test_a_record_that_fails_again_says_how_often_it_was_replayed(
    letters: Letters, make_topic: MakeTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own headers stay, what was said of the failure goes; ``--to`` names another topic."""
    letters.write(1)
    other = make_topic(1, retention_ms="-1")
    assert letters.type("replay", "--yes", "--to", other)[0] == 0
    capsys.readouterr()
    assert main(["tail", other, "--from-beginning", "-n", "1", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["headers"] == [["trace", "t0"], ["mustela.replays", "1"]]
    assert (row["key"], row["value"], row["timestamp"]) == ("k0", "0", 1000)


def test_a_letter_without_the_record_as_it_was_read_is_left(letters: Letters) -> None:
    """And the reason said; what was cut cannot be replayed at all."""
    letters.write(1, value="as it reached the step", offset="7")
    letters.write(1, **{"cut.value": "1000000"})
    code, out = letters.type("replay", "--yes", "--json")
    assert code == 0
    left = json.loads(out)["left"]
    assert sorted(left.values()) == [1, 1]
    assert letters.records() == []


def test_a_letter_of_another_lane_is_replayed_as_the_record_was_read(letters: Letters) -> None:
    """Its bytes are read again from its topic."""
    letters.send_to_source("k", "as it was read", [("trace", b"9")])
    letters.write(1, value="as it reached the step")
    facts = json.loads(letters.type("show", "0:0", "--json")[1])
    assert (facts["key"], facts["value"]) == ("k", "as it was read")
    assert facts["headers"] == [["trace", "9"]]
    assert letters.type("replay", "--yes")[0] == 0
    letters.await_records(["as it was read"] * 2)


@pytest.mark.parametrize("point", ["half-produced", "flushed", "committed"])
def test_a_replay_that_is_killed_is_run_again_and_sends_each_record_once(
    letters: Letters, point: str, tmp_path: Path
) -> None:
    """The record and the note of its replay are in one transaction."""
    letters.write(6)
    environment = {
        **os.environ,
        **letters.environment,
        "MUSTELA_FAULT_POINT": f"{point}:2",
        "MUSTELA_FAULT_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "mustela.cli.main", "dlq", "replay", letters.name, "--yes"]
    with subprocess.Popen([*command, "--rate", "2"], env=environment) as replay:
        assert any(looks((tmp_path / point).exists))
        os.kill(replay.pid, signal.SIGKILL)
    assert letters.type("replay", "--yes")[0] == 0
    letters.await_records(["0", "1", "2", "3", "4", "5"])
    letters.await_waiting()


def test_dropped_letters_are_gone_and_deleted_as_far_as_none_waits_before(
    letters: Letters, admin: KafkaAdmin
) -> None:
    """Kafka deletes from the oldest on; the others are marked, and deleted later."""
    letters.write(4)
    code, out = letters.type("drop", "0:0", "0:2", "--dry-run")
    assert (code, out) == (0, "2 of step parse\n")
    code, out = letters.type("drop", "0:0", "0:2", "--yes", "--json")
    assert json.loads(out) == {"dropped": 2, "deleted_before": {"0": 1}}
    letters.await_waiting("0:1", "0:3")
    assert list(admin.earliest_offsets([(letters.topic, 0)]).values()) == [1]
    assert letters.type("replay", "--yes")[0] == 0
    letters.await_records(["1", "3"])
    code, out = letters.type("drop", "--yes", "--json")
    assert json.loads(out) == {"dropped": 0, "deleted_before": {"0": 4}}


def test_what_is_typed_wrong_is_answered(
    letters: Letters, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to type."""
    for wrong, told in (
        (("show", "17"), "PARTITION:OFFSET"),
        (("replay", "--rate", "0"), "--rate 100"),
        (("show", "0:99"), "list --all"),
    ):
        verb, *rest = wrong
        assert main(["dlq", verb, letters.name, *rest]) == 2
        error = capsys.readouterr().err
        assert told in error
        assert "CLI_LETTER" in error
    letters.write(1)
    (shown,) = letters.waiting()
    assert main(["dlq", "show", letters.name, shown]) == 0
    assert main(["dlq", "replay", letters.name, shown, "--rate", "100", "--dry-run"]) == 0
    assert main(["dlq", "replay", letters.name]) == 2
    assert "--yes" in capsys.readouterr().err


def test_without_a_topic_of_letters_it_says_where_it_comes_from(
    broker: DevelopmentBroker,
    make_topic: MakeTopic,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No application wrote any; or the topic has a name of its own, which settings can say."""
    command = ["dlq", "list", "nobody-at-all", "-b", broker.bootstrap_servers]
    assert main(command) == 2
    assert "NO_DEAD_LETTERS" in capsys.readouterr().err
    monkeypatch.setenv("MUSTELA__DEAD_LETTER_TOPIC", make_topic(1))
    assert main(command) == 0
