"""The pure parts of send, tail, reset and doctor."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from mustela.cli import examination, sending
from mustela.cli.console import ExitCode
from mustela.cli.doctor import report
from mustela.cli.events import EventPrinter
from mustela.cli.examination import Finding, Level
from mustela.cli.records import BadValueError, parse_value, topic_serdes
from mustela.config.settings import Settings
from mustela.errors import EnvironmentFault
from mustela.runtime.events import AppState, EpochDone
from mustela.runtime.topics.found_topics import internal_topics_of
from mustela.schemas import AvroSerde
from mustela.serdes.base import SerdePlace
from mustela.serdes.resolve import resolve_serde, serde_names
from tests.told import state_changed

SAMPLES = {
    "str": "x",
    "string": "x",
    "float": "1.5",
    "double": "1.5",
    "float32": "1.5",
    "bytes": "x",
    "bool": "true",
    "boolean": "false",
    "uuid": str(UUID(int=7)),
    "decimal": "-7.50",
    "date": "2026-11-23",
    "datetime": "2026-11-23T04:00:00Z",
    "timedelta": "PT1M30S",
    "json": '{"a": [1]}',
    "dict": '{"a": [1]}',
    "list": "[1, 2]",
    "msgpack": '{"a": 1}',
}


@dataclass(frozen=True)
class Order:
    """What a topic with a schema holds."""

    item: str
    amount: int


UNTYPED = ("void", "none", "avro", "jsonschema", "protobuf")
"""Nothing can be typed for the first two; the others need a topic and a schema registry."""


@pytest.mark.parametrize("name", [name for name in serde_names() if name not in UNTYPED])
def test_a_typed_text_is_a_value_of_its_serde(name: str) -> None:
    """What a user types for a type can be sent with it, and comes back."""
    serde = resolve_serde(name)
    text = SAMPLES.get(name, "-7")
    value = parse_value(text, serde.name)
    assert serde.deserialize(serde.serialize(value)) == value
    assert not (isinstance(value, str) and name not in ("str", "string"))


@pytest.mark.parametrize(
    ("name", "text"),
    [("int", "seven"), ("bool", "yes"), ("json", "{"), ("uuid", "7"), ("date", "today")],
)
def test_a_text_that_is_no_value_is_a_usage_error(name: str, text: str) -> None:
    """The error says which text, and of which type it is not."""
    with pytest.raises(BadValueError, match=text):
        sending.encode_typed(resolve_serde(name), text)


def test_lines_have_a_key_where_there_is_a_separator() -> None:
    """The first separator counts; a line without one has no key; an empty line is a value."""
    stream, text = io.StringIO("k\tv\tw\nplain\n\nlast"), resolve_serde(str)
    assert [row[:2] for row in sending._lines(stream, "\t", (text, text))] == [
        (b"k", b"v\tw"),
        (None, b"plain"),
        (None, b""),
        (None, b"last"),
    ]


def test_batches_leave_nothing_out() -> None:
    """Standard input of any length."""
    rows = [sending.Sent(None, b"%d" % n) for n in range(sending.BATCH + 1)]
    batches = list(sending._batches(iter(rows)))
    assert [len(batch) for batch in batches] == [sending.BATCH, 1]
    assert list(sending._batches(iter(()))) == []


def test_reset_takes_only_what_is_the_applications_own() -> None:
    """Not its input, not its output, not another application's."""
    topics = [
        "shop-epochs",
        "shop-totals-changelog",
        "shop-lines",
        "shop",
        "shop2-epochs",
        "shop-eu-epochs",
        "shop-eu-totals-changelog",
        "other-totals-changelog",
        "counts",
    ]
    assert internal_topics_of("shop", topics) == ["shop-epochs", "shop-totals-changelog"]


# -- doctor -----------------------------------------------------------------------------------


def test_the_doctor_says_how_to_mend(capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong thing is exit code 1; notes are not."""
    fine = Finding(name="java", level=Level.OK, found="17")
    note = Finding(name="broker", level=Level.NOTE, found="none", mend="start one")
    wrong = Finding(name="state", level=Level.WRONG, found="full", mend="make room")
    assert report([fine, note], json=False) == ExitCode.OK
    assert "broker: start one" in capsys.readouterr().out
    assert report([fine, wrong], json=False) == ExitCode.FAULT
    out = capsys.readouterr().out
    assert "WRONG" in out
    assert "state: make room" in out
    assert report([fine, wrong], json=True) == ExitCode.FAULT
    found = json.loads(capsys.readouterr().out)
    assert [row["level"] for row in found] == ["ok", "wrong"]


@pytest.mark.parametrize(
    ("version", "level"), [((3, 10), Level.WRONG), ((3, 11), Level.OK), ((3, 15), Level.WRONG)]
)
def test_the_doctor_looks_at_python(version: tuple[int, int], level: Level) -> None:
    """Versions that Mustela is tested with."""
    found = examination.examine_python(version)
    assert found.level is level
    assert bool(found.mend) == (level is Level.WRONG)


def test_the_doctor_names_a_missing_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line that installs one."""
    monkeypatch.setattr("mustela.java.java_candidates", lambda environment, roots: iter(()))
    found = examination._safely("java", lambda: examination.examine_java({}))
    assert found.level is Level.WRONG
    assert "no Java 17 or 21 found" in found.found
    assert "apt-get install" in found.mend


def test_the_doctor_notes_that_nobody_answers() -> None:
    """Nobody named a broker: no fault. Somebody did: a fault."""
    settings = Settings.load(application_id="a", bootstrap_servers="127.0.0.1:1")
    fault = EnvironmentFault("no answer", fix="start it")

    def refuse(_self: object) -> str:
        raise fault

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mustela.connectors.kafka.admin.KafkaAdmin.cluster_id", refuse)
        note = examination._safely(
            "broker", lambda: examination.examine_broker(settings, named=False)
        )
        wrong = examination._safely(
            "broker", lambda: examination.examine_broker(settings, named=True)
        )
    assert (note.level, wrong.level) == (Level.NOTE, Level.WRONG)
    assert "mustela broker start" in note.mend
    assert wrong.mend == "start it"


def test_the_doctor_looks_at_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not there yet is judged by the nearest that is; a full or remote disk is told."""
    place = tmp_path / "not" / "there"
    monkeypatch.setattr(examination, "_file_system", lambda _place: "ext4")
    monkeypatch.setattr("shutil.disk_usage", lambda _place: _Usage(free=50 << 30))
    assert examination.examine_directory("state", place).level is Level.OK
    monkeypatch.setattr("shutil.disk_usage", lambda _place: _Usage(free=1 << 20))
    assert examination.examine_directory("state", place).level is Level.WRONG
    monkeypatch.setattr("shutil.disk_usage", lambda _place: _Usage(free=1 << 30))
    assert examination.examine_directory("state", place).level is Level.NOTE
    monkeypatch.setattr(examination, "_file_system", lambda _place: "nfs4")
    assert "local disk" in examination.examine_directory("state", place).mend
    monkeypatch.setattr(os, "access", lambda _place, _mode: False)
    assert "state_dir" in examination.examine_directory("state", place).mend


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_the_doctor_looks_at_tmpfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MB of shared memory, or none, is a note: state is kept on disk then."""
    monkeypatch.setattr("shutil.disk_usage", lambda _place: _Usage(free=64 << 20))
    small = examination.examine_tmpfs(tmp_path)
    none = examination.examine_tmpfs(tmp_path / "none")
    assert small.level is none.level is Level.NOTE
    assert "on disk" in small.mend
    assert "on disk" in none.mend


def test_the_doctor_looks_at_memory(tmp_path: Path) -> None:
    """A container's limit counts, in both of the places where it may be written."""
    new, old = tmp_path / "memory.max", tmp_path / "limit_in_bytes"
    new.write_text("max\n")
    assert examination.examine_memory([new, old]).level is Level.OK
    old.write_text(f"{2 << 30}\n")
    found = examination.examine_memory([new, old])
    assert found.level is Level.NOTE
    assert found.found.startswith("2048 MiB")
    old.write_text("9223372036854771712\n")
    assert examination.examine_memory([new, old]).level is Level.OK


def test_the_doctor_finds_the_file_system(tmp_path: Path) -> None:
    """The longest mount point that holds the path; blanks in it are written as octal."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"a / ext4 rw 0 0\nb {tmp_path} nfs4 rw 0 0\nc {tmp_path}/with\\040blank tmpfs rw 0 0\n"
    )
    (tmp_path / "with blank").mkdir()
    (tmp_path / "without").mkdir()
    assert examination._file_system(tmp_path / "with blank", mounts) == "tmpfs"
    assert examination._file_system(tmp_path / "without", mounts) == "nfs4"
    assert examination._file_system(Path("/"), mounts) == "ext4"
    assert examination._file_system(tmp_path, tmp_path / "none") == ""


def test_the_doctor_survives_its_own_faults() -> None:
    """What cannot be looked at is a finding."""

    def faint() -> Finding:
        raise RuntimeError("fainted")

    assert examination._safely("x", faint).level is Level.WRONG


# -- what run tells -----------------------------------------------------------------------------


EPOCH = EpochDone(
    epoch=3,
    records=10,
    lag=2,
    seconds=0.25,
    job_seconds=0.2,
    watermark=-1,
    counters={"late": 1},
    reports=(),
)


def test_run_tells_programs_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """One document a line, each with its kind."""
    printer = EventPrinter("shop")
    printer.on_event(state_changed(AppState.RUNNING))
    printer.on_event(EPOCH)
    printer.on_error(ValueError("bad"))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["event"] for row in found] == ["state", "epoch", "error"]
    assert found[1]["records"] == 10
    assert {row["application_id"] for row in found} == {"shop"}


def test_a_typed_text_is_written_by_the_schema_of_its_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is typed is JSON; the registry's newest schema says which bytes it makes."""
    monkeypatch.setenv("MUSTELA__SCHEMA_REGISTRY__URL", "mock://typed")
    place = SerdePlace("orders")
    registered = AvroSerde(Order).bound(place, {"url": "mock://typed"})
    written = registered.serialize(Order("pear", 7))
    _, serde = topic_serdes("orders", "str", "avro")
    assert serde.serialize(parse_value('{"item": "pear", "amount": 7}', serde.name)) == written
    assert serde.deserialize(written) == {"item": "pear", "amount": 7}
