"""Commands about topics, settings and shells, as they are typed; no broker is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mustela.cli.console import ExitCode
from mustela.cli.main import main, own_commands

PROGRAM = """
from mustela import App
app = App("shop", bootstrap_servers="127.0.0.1:1")
@app.topology
def build(builder):
    orders = builder.stream("orders", key=str, value=str)
    orders.group_by_key().count(store="per_customer").to_stream().to("counts")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program in the working directory."""
    module = f"operated_{abs(hash(tmp_path))}"  # a module is imported once in a process
    (tmp_path / f"{module}.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return f"{module}:app"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a command with --json and return its document."""
    assert main([*arguments, "--json"]) == ExitCode.OK, arguments
    return json.loads(capsys.readouterr().out)


def test_a_plan_of_topics_is_yaml_to_apply(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a list, or as resources of Strimzi's operator; the same topics in each form."""
    assert main(["topics", "plan", shop, "--offline", "--partitions", "6"]) == 0
    plain = yaml.safe_load(capsys.readouterr().out)["topics"]
    assert [topic["name"] for topic in plain] == [
        "orders",
        "counts",
        "shop-epochs",
        "shop-lease",
        "shop-per_customer-changelog",
    ]
    assert plain[0] == {"name": "orders", "use": "source", "partitions": 6}
    assert plain[-1]["config"]["cleanup.policy"] == "compact"
    assert main(["topics", "plan", shop, "--offline", "--format", "strimzi"]) == 0
    resources = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [one["spec"]["topicName"] for one in resources] == [one["name"] for one in plain]
    assert resources[-1]["metadata"]["name"] == "shop-per-customer-changelog"
    document = printed(capsys, "topics", "plan", shop, "--offline")
    assert document["ready"] is None
    assert set(document["topics"][0]) == {
        "name",
        "use",
        "partitions",
        "replication_factor",
        "config",
        "exists",
        "differences",
    }


def test_settings_are_checked_without_a_broker(
    shop: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong one has the exit code of wrong usage, and the error names its place."""
    document = printed(capsys, "config", "check", shop)
    assert document["valid"]
    assert document["application_id"] == "shop"
    code = [key for key, source in document["set"].items() if source == "code"]
    assert code == ["application_id", "bootstrap_servers"]
    assert main(["config", "check"]) == 0
    assert "settings are not at their default" in capsys.readouterr().out
    (tmp_path / "mustela.yaml").write_text("commit_intervall: 1s\n")
    assert main(["config", "check"]) == ExitCode.USAGE
    assert "mustela.yaml" in capsys.readouterr().err
    (tmp_path / "mustela.yaml").unlink()
    monkeypatch.setenv("MUSTELA__LANES", "many")
    assert main(["config", "check"]) == ExitCode.USAGE
    assert "MUSTELA__LANES" in capsys.readouterr().err


def test_the_schema_takes_what_the_settings_take(capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the reference, Kafka Streams' names and dotted ones; not a slip."""
    jsonschema = pytest.importorskip("jsonschema")
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    validator = jsonschema.Draft202012Validator(schema)
    good = """
application_id: wordcount
commit_interval: 200ms
lanes: null
max_source_drift: null
commit.interval.ms: 200
epoch.max_records: 5
epoch: {max_bytes: 128MiB, max_time: 0.5}
kafka: {security.protocol: sasl_ssl, linger.ms: 5}
stall: {action: exit}
"""
    assert not list(validator.iter_errors(yaml.safe_load(good)))
    for wrong in ("commit_intervall: 1s", "stall: {action: maybe}", "lanes: many", "epoch: 5"):
        assert list(validator.iter_errors(yaml.safe_load(wrong))), wrong


@pytest.mark.slow
def test_commands_and_options_complete_in_bash(capsys: pytest.CaptureFixture[str]) -> None:
    """With what is printed and nothing else."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def complete(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _mustela; "
        ask += 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            [bash, "--norc", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert complete("mustela", "topi") == ["topics"]
    assert complete("mustela", "topics", "pl") == ["plan"]
    assert "--offline" in complete("mustela", "topics", "plan", "--o")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_too(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """That names each command."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in ("topics", "offsets", "clean", "run"))


def test_a_slip_is_answered_with_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a command, a command in a group, and an option."""
    for typed, meant in (
        (["toipcs"], 'Did you mean "topics"'),
        (["topics", "lits"], 'Did you mean "list"'),
        (["tail", "t", "--vaule", "int"], "Did you mean --value"),
    ):
        assert main(typed) == ExitCode.USAGE
        told = capsys.readouterr()
        assert meant in " ".join((told.out + told.err).split())


def test_the_topology_is_text_json_or_a_diagram(
    shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as describe, and Mermaid."""
    assert main(["topology", shop, "--format", "mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR")
    assert printed(capsys, "topology", shop) == printed(capsys, "describe", shop)
    assert main(["topology", shop]) == 0
    assert "Topologies:" in capsys.readouterr().out


def test_a_topology_is_opened_where_an_instance_shows_itself(
    shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the error says how to start one that does."""
    import webbrowser

    from mustela.admin.access import Access, Tokens, access_file
    from mustela.config.settings import Settings

    monkeypatch.setenv("MUSTELA__STATE_DIR", str(tmp_path / "state"))
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert main(["topology", shop, "--open"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "ADMIN_NOT_RUNNING" in told
    assert "--set admin.enabled=true" in told
    assert not opened
    settings = Settings.load(application_id="shop", state_dir=tmp_path / "state")
    tokens = Tokens(read="r" * 32, query="q" * 32, operate="o" * 32)
    address = "http://127.0.0.1:1234"
    access = Access(application_id="shop", address=address, certificate="", pid=1, tokens=tokens)
    access.write(access_file(settings), settings.state_dir)
    assert main(["topology", shop, "--open"]) == 0
    assert opened == [f"{address}/topology"]


def test_every_command_that_prints_has_json() -> None:
    """What prints for machines alone, or draws on a terminal (`status --json`), is named here."""
    without = {"completion", "config schema", "state get", "state range"}
    found: set[str] = set()

    def walk(app: Any, name: str) -> None:
        for child in app:
            if child.startswith("-"):
                continue
            sub, full = app[child], f"{name} {child}".strip()
            if sub.default_command is None:
                walk(sub, full)
            elif not any("--json" in a.names for a in sub.assemble_argument_collection()):
                found.add(full)

    walk(own_commands(), "")
    assert found == without


class Sink:
    """Keeps what is sent, and has each topic."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, _topic: str) -> int:
        return 4

    def produce_columns(self, _topic: str, *columns: Any) -> None:
        keys, values, stamps, headers, partitions = columns
        stamps = stamps or [0] * len(keys)
        self.rows += list(zip(keys, values, stamps, headers, partitions, strict=True))

    def flush(self) -> None:
        pass


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Sink:
    """What `send` sends to."""
    from mustela.cli import sending

    made = Sink()
    monkeypatch.setattr(sending, "open_admin", lambda _servers: made)
    monkeypatch.setattr(sending, "open_sink", lambda _servers: made)
    return made


def test_records_are_sent_from_a_file_with_keys_headers_and_times(
    sink: Sink, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `tail --json` prints them: what comes out of one topic goes into another."""
    rows = [
        {"topic": "old", "partition": 3, "offset": 9, "timestamp": 1_000, "key": "a", "value": 7},
        {"key": None, "value": 8, "headers": {"trace": "1", "empty": None}},
        {"value": None, "key": "gone", "headers": [["trace", "2"], ["trace", "3"]]},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    typed = ["send", "t", "--file", str(file), "--format", "json", "--value", "int"]
    assert main([*typed, "-H", "by=me", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"topic": "t", "sent": 3}
    me = ("by", b"me")
    assert sink.rows == [
        (b"a", (7).to_bytes(8, "big"), 1_000, (me,), 3),
        (None, (8).to_bytes(8, "big"), 0, (("trace", b"1"), ("empty", None), me), None),
        (b"gone", None, 0, (("trace", b"2"), ("trace", b"3"), me), None),
    ]


def test_records_are_sent_from_lines_and_as_they_are_typed(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, standard input, a value, and a key with a value."""
    import io

    file = tmp_path / "lines"
    file.write_text("k:v\nalone\n")
    assert main(["send", "t", "--file", str(file), "--separator", ":"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("x\ty\n"))
    assert main(["send", "t", "-"]) == 0
    assert main(["send", "t", "-5"]) == 0
    assert main(["send", "t", "k", "w", "-H", "a=b"]) == 0
    assert [row[:2] for row in sink.rows] == [
        (b"k", b"v"),
        (None, b"alone"),
        (b"x", b"y"),
        (None, b"-5"),
        (b"k", b"w"),
    ]
    assert sink.rows[-1][3] == (("a", b"b"),)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"key": "a"}', "an object with a value"),
        ("[1]", "an object with a value"),
        ('{"value": 1, "kye": 2}', "unknown field 'kye'"),
        ('{"value": 1, "timestamp": "now"}', "timestamp is a whole number"),
        ("value", "line 1 of"),
    ],
)
def test_a_line_that_is_no_record_is_refused_and_the_example_of_the_refusal_is_one(
    sink: Sink, tmp_path: Path, line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """CLI_RECORD: by its number, before anything of its batch is sent."""
    file = tmp_path / "rows"
    file.write_text(line)
    typed = ["send", "t", "--file", str(file), "--format", "json"]
    assert main(typed) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert told in error
    assert not sink.rows
    example = error.partition("write, for example, ")[2].partition("\n")[0]
    file.write_text(example)
    assert main(typed) == 0
    assert sink.rows == [(b"a", b"b", 0, (("trace", b"1"),), None)]


def test_nothing_and_two_things_to_send_are_refused_and_their_fixes_help(
    sink: Sink, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value, or a file; a file that is there."""
    file = tmp_path / "rows"
    for typed in (["send", "t"], ["send", "t", "v", "-f", "x"], ["send", "t", "-f", str(file)]):
        assert main(typed) == ExitCode.USAGE
        assert "CLI_NOTHING_TO_SEND" in capsys.readouterr().err
    file.write_text("v\n")
    assert main(["send", "t", "-f", str(file)]) == 0
    assert main(["send", "t", "v"]) == 0
    assert [row[1] for row in sink.rows] == [b"v", b"v"]
