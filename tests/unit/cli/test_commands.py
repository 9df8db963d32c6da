"""The pure parts of send, tail, reset, doctor and Kafka's tools."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from uuid import UUID

import pytest
from rich.console import Console

from mustela.broker.tools import TOOLS
from mustela.cli import examination, records, tools
from mustela.cli.console import ExitCode
from mustela.cli.demo.report import DemoOutcome, Screen, State, next_lines, outcome_fields
from mustela.cli.doctor import report
from mustela.cli.events import EventPrinter
from mustela.cli.examination import Finding, Level
from mustela.cli.main import main
from mustela.cli.records import BadValueError, parse_value
from mustela.config.settings import Settings
from mustela.errors import EnvironmentFault
from mustela.runtime.events import AppState, EpochDone, Restoring, StateChanged
from mustela.runtime.topics.found_topics import internal_topics_of
from mustela.serdes.resolve import resolve_serde, serde_names

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


@pytest.mark.parametrize("name", [name for name in serde_names() if name not in ("void", "none")])
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
        records._encode(resolve_serde(name), text)


def test_lines_have_a_key_where_there_is_a_separator() -> None:
    """The first separator counts; a line without one has no key; an empty line is a value."""
    stream = io.StringIO("k\tv\tw\nplain\n\nlast")
    assert list(records._lines(stream, "\t")) == [
        ("k", "v\tw"),
        (None, "plain"),
        (None, ""),
        (None, "last"),
    ]


def test_batches_leave_nothing_out() -> None:
    """Standard input of any length."""
    rows = [(None, str(n)) for n in range(records.STDIN_BATCH + 1)]
    batches = list(records._batches(rows))
    assert [len(batch) for batch in batches] == [records.STDIN_BATCH, 1]
    assert list(records._batches([])) == []


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


def test_every_tool_that_asks_a_broker_exists() -> None:
    """The list of those that are given one names only tools that are offered."""
    assert set(TOOLS) >= tools._ASK_A_BROKER


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bootstrap-server", "a:1", "--list"],
        ["--bootstrap-server=a:1", "--list"],
        ["--bootstrap-controller", "a:1", "--list"],
        ["--help"],
        [],
    ],
)
def test_a_tool_that_was_told_is_left_alone(arguments: list[str]) -> None:
    """A broker that the user names wins; help needs none."""
    assert tools.with_broker("kafka-topics", arguments, lambda: "b:2") == arguments


def test_an_unknown_tool_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the tools that there are."""
    assert main(["kafka-nonsense", "--list"]) == ExitCode.USAGE
    assert "kafka-consumer-groups" in capsys.readouterr().err


def test_a_tool_replaces_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the terminal, Java's environment, and the broker of the settings."""
    ran: list[list[str]] = []

    def become(path: str, command: list[str], environment: dict[str, str]) -> None:
        assert path == command[0]
        assert environment["LC_ALL"] == "C.UTF-8"
        ran.append(command)
        raise KeyboardInterrupt

    monkeypatch.setenv("MUSTELA__BOOTSTRAP_SERVERS", "there:1234")
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(
        "mustela.broker.tools.tool_command", lambda name, args, request: ["/java", name, *args]
    )
    assert main(["kafka-topics", "--list"]) == ExitCode.INTERRUPTED
    assert ran == [["/java", "kafka-topics", "--bootstrap-server", "there:1234", "--list"]]


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


def test_the_doctor_looks_at_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars that are still to come are a note, an offline directory without them is a fault."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    online = Settings.load(application_id="a")
    assert examination.examine_jars(online).level is Level.NOTE
    offline = Settings.load(application_id="a", jars={"directory": tmp_path})
    found = examination._safely("jars", lambda: examination.examine_jars(offline))
    assert found.level is Level.WRONG
    assert str(tmp_path) in found.found


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


# -- what run tells, and what the demonstration shows -------------------------------------------


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


def test_run_tells_people_of_states_only(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each epoch would be a flood."""
    printer = EventPrinter("shop", json=False)
    printer.on_event(StateChanged(state=AppState.RUNNING))
    printer.on_event(Restoring(done=1, groups=4, records={"totals": 9}))
    printer.on_event(EPOCH)
    printer.on_error(EnvironmentFault("gone"))
    printer.on_error(EnvironmentFault("died", evidence={"spark": "because", "said": "a\nb"}))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "shop: is running",
        "shop: restored 1 of 4 key groups, 9 records",
        "shop: tries again after an error (ENVIRONMENT): gone",
        "shop: tries again after an error (ENVIRONMENT): died; spark: because; said: a",
    ]


def test_run_tells_programs_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """One document a line, each with its kind."""
    printer = EventPrinter("shop", json=True)
    printer.on_event(StateChanged(state=AppState.RUNNING))
    printer.on_event(EPOCH)
    printer.on_error(ValueError("bad"))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["event"] for row in found] == ["state", "epoch", "error"]
    assert found[1]["records"] == 10
    assert {row["application_id"] for row in found} == {"shop"}


OUTCOME = DemoOutcome(
    lines=10,
    words=20,
    distinct=5,
    mismatches=0,
    missing=0,
    duplicates=0,
    torn_epochs=0,
    seconds=2.0,
    lines_per_s=5.0,
    epochs=4,
    kills=3,
    replayed_epochs=2,
)


def test_the_outcome_has_the_promised_fields() -> None:
    """What other programs read from ``--json``."""
    assert " ".join(outcome_fields(OUTCOME)) == (
        "lines words distinct mismatches missing duplicates torn_epochs seconds lines_per_s "
        "epochs kills replayed_epochs"
    )


@pytest.mark.parametrize("quiet", [True, False])
def test_faults_are_shown_to_everybody(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error where a program reads standard output."""
    screen = Screen(quiet=quiet)
    screen.program("x = 1\n", "mustela run x:app")
    screen.words([("[bold]", 3), ("tab\there", 2), ("x", 1)])
    screen.outcome(OUTCOME, ["line 3 is twice in the side stream"], 0.5)
    printed = capsys.readouterr()
    shown = printed.err if quiet else printed.out
    assert "FAULT  line 3 is twice in the side stream" in shown
    assert "all checks passed" not in shown
    assert (printed.out == "") == quiet
    assert ("[bold]" in shown) != quiet
    assert ("killed 3 times" in shown) != quiet


def test_progress_without_a_terminal_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The last state is always printed, another only now and then."""
    screen = Screen(quiet=False)
    state = State(lines=1500, total=3000, words=7, epochs=2, lag=5, lanes=2, kills=1)
    with screen:
        for _ in range(5):
            screen.update(state)
        screen.update(state, last=True)
    out = capsys.readouterr().out.splitlines()
    line = "lines 1,500 of 3,000  words 7  epochs 2  lag 5  lanes 2  kills 1"
    assert out == [line, line]


def test_progress_on_a_terminal_fits_into_80_columns() -> None:
    """A bar, and a line with all the numbers; nothing is cut off."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None)
    screen = Screen(quiet=False, console=console)
    state = State(lines=599_999, total=600_000, words=1_993_972, epochs=69, lag=5, lanes=2, kills=3)
    with screen:
        screen.update(state, last=True)
    assert state.text() in " ".join(file.getvalue().split("\n")).replace("   ", "  ")


def test_the_next_lines_can_be_typed() -> None:
    """Paths with a blank are quoted."""
    lines = next_lines(
        "mustela",
        home=Path("/tmp/a b/app"),
        scratch=Path("/tmp/a b"),
        application_id="wordcount",
    )
    assert lines[0] == "cd '/tmp/a b/app'"
    assert "mustela kafka-consumer-groups --describe --group wordcount" in lines
    assert lines[-1] == "mustela demo --stop '/tmp/a b'"
