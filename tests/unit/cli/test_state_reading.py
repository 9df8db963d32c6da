"""mustela state list, get, range, count and export, over the stores of a test driver."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.admin.data import files, standing
from mustela.admin.data.files import ParquetMissingError, RowFile, RowFileError, read_rows
from mustela.admin.data.standing import (
    RemoteState,
    StandingState,
    StateTornError,
    StateUnreadableError,
)
from mustela.cli import state_import, state_reading
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.clock import ManualClock
from tests.unit.admin.data.shown import QUERY, Served, stores

PROGRAM = """
from mustela import App
app = App("words-of-state", state_dir="state")
"""
Run = Callable[..., str]


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder, key_groups=4) as made:
        words = made.create_input_topic("words", key=str, value=str)
        for at, word in enumerate(["a", "b", "a", "c", "d"]):
            words.pipe_input(word, "x", timestamp=at * 6_000)
        prices = made.create_input_topic("prices", key=str, value=float)
        for at in range(4):
            prices.pipe_input("pen", at / 2, timestamp=at * 1_000)
        yield made


@pytest.fixture
def run(
    driver: TopologyTestDriver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run a command of a stopped application, and return what it printed."""
    (tmp_path / "words_of_state.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    @contextmanager
    def standing_state(*_given: Any) -> Generator[StandingState]:
        state = StandingState(driver.queries.source, ManualClock(1_000))
        yield state
        state.close()

    monkeypatch.setattr(state_reading, "_standing", standing_state)

    def run(*words: str, code: int = ExitCode.OK) -> str:
        capsys.readouterr()
        assert main(["state", *words]) == code
        told = capsys.readouterr()
        return told.out if code == ExitCode.OK else told.err

    return run


APP = "words_of_state:app"


def test_rows_are_listed_found_counted_and_read_in_order(run: Run) -> None:
    """As JSON, with what the store keeps beside a value."""
    assert "sessions" in run("list", APP)
    assert json.loads(run("get", APP, "counts", "a")) == {
        "key": "a", "value": 2, "timestamp": 12_000,
    }  # fmt: skip
    assert run("get", APP, "counts", "z", code=ExitCode.FAULT) == "there is no row of this key\n"
    lines = run("range", APP, "counts", "--from", "b", "--limit", "2").splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["b", "c"]
    lines = run("range", APP, "counts", "--reverse", "--limit", "1").splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["d"]
    assert run("count", APP, "windowed", "--time-from", "10000") == "3\n"
    assert json.loads(run("get", APP, "prices", "pen", "--as-of", "1970-01-01T00:00:01Z")) == {
        "key": "pen", "value": 0.5, "timestamp": 1_000, "valid_to": 2_000,
    }  # fmt: skip
    assert len(run("get", APP, "prices", "pen", "--show", "versions").splitlines()) == 4
    assert len(run("range", APP, "prices", "--versions").splitlines()) == 4


@pytest.mark.parametrize("store", ["counts", "windowed", "sessions", "prices", "orders"])
def test_both_kinds_of_files_have_the_same_rows(
    run: Run, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, and read back as they were written."""
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(standing, "PAGE_ROWS", 2)
    run("export", APP, store, "rows.jsonl")
    run("export", APP, store, "rows.parquet")
    lines = [*read_rows(tmp_path / "rows.jsonl")]
    assert [*read_rows(tmp_path / "rows.parquet")] == lines
    types = {field.name: str(field.type) for field in pq.read_schema("rows.parquet")}
    wanted = {"orders": ("int64", "string"), "prices": ("string", "double")}
    assert (types["key"], types["value"]) == wanted.get(store, ("string", "int64"))
    assert [json.loads(line) for line in run("export", APP, store, "-").splitlines()] == lines
    assert not [*tmp_path.glob(".*.part")]


@pytest.mark.parametrize(
    ("serde", "kind", "documents"),
    [
        ("str", "string", ["", "a", '"7"', "null", None]),
        ("int", "int64", [0, -(2**63), 2**63 - 1, None]),
        ("float", "double", [0.5, "NaN", "Infinity", "-Infinity", None]),
        ("bool", "bool", [True, False, None]),
        ("bytes", "binary", ["", "AP8=", None]),
        ("Order", "string", [{"total": 1}, "text", None]),
    ],
)
def test_parquet_has_columns_of_the_types_of_keys_and_values(
    serde: str, kind: str, documents: list[Any], tmp_path: Path
) -> None:
    """Whoever else reads the file finds text and numbers; what is read back is what was written."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    rows = [{"key": "k", "value": document, "timestamp": 5} for document in documents]
    with RowFile.writing(path, "parquet", {"key": "str", "value": serde}) as target:
        target.write(rows)
    schema = parquet.read_schema(path)
    assert (str(schema.field("key").type), str(schema.field("value").type)) == ("string", kind)
    assert [*read_rows(path)] == rows


def test_what_is_asked_wrong_is_refused_and_its_fix_helps(run: Run) -> None:
    """An application that is not there, a store that is not there, a file that cannot be."""
    assert "STATE_NOT_FOUND" in run("list", "words-of-state", code=ExitCode.USAGE)
    read = ("--source", "changelogs")
    told = run("list", "words-of-state", *read, code=ExitCode.USAGE)
    assert "with the types of its program, which was not named" in told
    run("list", APP, *read)
    told = run("get", APP, "count", "a", code=ExitCode.USAGE)
    assert "STATE_QUESTION" in told
    assert "mustela state list" in told
    run("list", APP)
    assert "STATE_EXPORT_FILE" in run("export", APP, "counts", "no/x.jsonl", code=ExitCode.USAGE)
    run("export", APP, "counts", "x.jsonl")


def test_what_a_kind_of_store_does_not_have_is_answered_with_what_to_type(run: Run) -> None:
    """A refusal of the server names addresses; a command's names its own options."""
    told = run("get", APP, "windowed", "a", code=ExitCode.USAGE)
    assert "--show windows" in told
    assert "/stores/" not in told
    assert run("get", APP, "windowed", "a", "--show", "windows")
    told = run("get", APP, "sessions", "a", code=ExitCode.USAGE)
    assert "--show sessions" in told
    assert run("get", APP, "sessions", "a", "--show", "sessions")
    told = run("get", APP, "counts", "a", "--show", "versions", code=ExitCode.USAGE)
    assert "leave out --show" in told
    assert run("get", APP, "counts", "a")


def test_an_address_needs_its_scheme_and_somebody_who_listens(run: Run) -> None:
    """The fix is the address that was meant; where nobody listens, who says where he does."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    told = run("list", "words-of-state", "--url", place, code=ExitCode.USAGE)
    assert f"write http://{place}" in told
    told = run("list", "words-of-state", "--url", f"http://{place}", code=ExitCode.ENVIRONMENT)
    assert "say their address when they start" in told


def test_a_file_says_by_its_name_how_rows_are_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is refused; without the library for Parquet there are lines."""
    told = run("export", APP, "counts", "rows.csv", code=ExitCode.USAGE)
    assert RowFileError.code in told
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = run("export", APP, "counts", "rows.parquet", code=ExitCode.ENVIRONMENT)
    assert ParquetMissingError.code in told
    assert ".jsonl" in told
    run("export", APP, "counts", "rows.jsonl")
    (tmp_path / "other.jsonl").write_text('{"no": "row"}\n')
    with pytest.raises(RowFileError, match="line 1"):
        [*read_rows(tmp_path / "other.jsonl")]
    assert files.form_of_file("rows.jsonl") == "jsonl"


class Pages(standing.StateAnswers):
    """A server whose pages are not of one epoch."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        self.answers = [*answers]

    def asked(self, path: Any, parameters: Any) -> tuple[int, bytes]:
        del path, parameters
        status, document = self.answers.pop(0)
        return status, json.dumps(document).encode()


def test_rows_of_two_epochs_are_not_one_export() -> None:
    """It says so, in place of a file that is torn; what is stopped is of one epoch."""
    page: dict[str, Any] = {"epoch": 3, "rows": [1], "cursor": "c"}
    torn = Pages((200, page), (200, {**page, "epoch": 4, "continued_from_epoch": 3}))
    with pytest.raises(StateTornError, match="epoch 3") as found:
        [*torn.pages(["counts"], {}, whole=True)]
    assert "--source changelogs" in str(found.value)
    whole = Pages((200, page), (200, {"epoch": 3, "rows": [2]}))
    assert [page["rows"] for page in whole.pages(["counts"], {}, whole=True)] == [[1], [2]]


class Server:
    """An admin server whose application commits an epoch before each page, and is slow."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def data(self, target: str, body: bytes | None = None) -> tuple[int, bytes]:
        if target.startswith("/stores/"):
            self.served.tick()
            self.served.clock.advance(61_000)
        method = "GET" if body is None else "POST"
        headers = {"authorization": f"Bearer {QUERY.query}", "host": "localhost"}
        answer = self.served.client.ask(method, target, headers=headers, content=body or b"")
        return answer.status_code, answer.content


def test_an_export_of_what_runs_is_one_epoch_however_slow_it_is(
    driver: TopologyTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its epoch is held; rows of a page without that go on in another epoch."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(standing, "PAGE_ROWS", 1)
    served = Served(driver)
    state = RemoteState(Server(served))  # type: ignore[arg-type]
    pages = [*state.pages(("counts",), {}, whole=True)]
    assert len({page["epoch"] for page in pages}) == 1
    assert [page["rows"][0]["key"] for page in pages] == ["a", "b", "c", "d"]
    assert served.queries._keeper._open == {}
    free = [*state.pages(("counts",), {})]
    assert len({page["epoch"] for page in free}) == 4
    assert state.count("counts", {})[0] == 4


def test_a_server_that_cannot_answer_now_is_asked_again() -> None:
    """As while the application restores its state."""
    busy = Pages((503, {"error": "it restores", "fix": "try again"}), (200, {"stores": []}))
    with pytest.raises(StateUnreadableError, match="it restores"):
        busy.ask()
    assert busy.ask() == {"stores": []}


def test_rows_stay_or_go(run: Run) -> None:
    """Not both; and a store that no start has known yet is known after one."""
    words = ("import", APP, "counts", "x.jsonl", "--merge", "--replace")
    assert "STATE_IMPORT_WAYS" in run(*words, code=ExitCode.USAGE)
    record: Any = SimpleNamespace(changelog_ends={})
    with pytest.raises(state_import.StoreNewError, match="counts") as found:
        state_import.check_known(record, "counts", "counts")
    assert "start the application" in str(found.value)
    record.changelog_ends["counts"] = [0]
    state_import.check_known(record, "counts", "counts")
