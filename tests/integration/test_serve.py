"""A replica as a process of its own, started from the command line, beside a real application."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mustela import App
from mustela.admin.access import read_access
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, looks

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
from mustela import App
from mustela.stores import Snapshot

app = App({name!r}, bootstrap_servers={servers!r}, state_dir={state_dir!r}, key_groups=4)

@app.topology
def build(builder):
    rows = builder.stream({source!r}, key=str, value=str)
    rows.group_by_key().count(store="counts")
    lengths = rows.map_values(len, name="lengths", value=int)
    lengths.group_by_key().reduce(max, store="longest")

@app.query("total")
def total(snapshot: Snapshot) -> int:
    return sum(count for _, count in snapshot.store("counts").items())
"""


class Serving:
    """A process of ``mustela serve``.

    Args:
        process: The process.
        told: What it said when it was ready.
    """

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self.process = process
        self.place = Path(told["place"])
        (file,) = (self.place / "~admin").iterdir()
        access = read_access(file)
        assert access is not None
        self.http = httpx.Client(
            base_url=told["address"],
            headers={"authorization": f"Bearer {access.tokens.query}"},
            timeout=PATIENCE_S,
        )

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def rows(self, store: str) -> dict[str, Any]:
        found = self.get(f"/stores/{store}?limit=1000")
        return {row["key"]: row["value"] for row in found["rows"]}

    def comes_to(self, epoch: int) -> None:
        """Wait until an epoch is shown."""
        for found in looks(lambda: (self.get("/info")["epoch"] or 0) >= epoch):
            assert self.process.poll() is None, "it has ended"
            if found:
                return
        msg = f"epoch {epoch} is not shown"
        raise AssertionError(msg)


@contextmanager
def serving(directory: Path, *words: str) -> Iterator[Serving]:
    """Serve the program of a directory."""
    command = [sys.executable, "-m", "mustela.cli.main", "serve", "program", "--json", *words]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        assert told["event"] == "serving"
        served = Serving(process, told)
        yield served
        served.http.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert not list((served.place / "~admin").iterdir()), "the tokens are gone with it"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_replica_of_the_command_line_follows_an_application_and_outlives_it(
    world: World, tmp_path: Path
) -> None:
    """It starts before anything was committed, shows what the application shows, and answers when
    that is down; another one that begins then has the same from the changelogs."""
    source = world.topic("in", partitions=2)
    text = PROGRAM.format(
        name=world.name,
        servers=world.broker.bootstrap_servers,
        state_dir=str(tmp_path / "elsewhere"),
        source=source,
    )
    (tmp_path / "program.py").write_text(text)
    known: dict[str, Any] = {}
    exec(compile(text, "program.py", "exec"), known)
    build = known["app"]._build
    app: App = world.app(build)[0]
    with serving(tmp_path) as served:
        assert served.http.get("/health/ready").status_code == 503
        with app:
            world.send(source, [(f"k{n % 40:02}", "x" * n) for n in range(200)])
            world.drain(app)
            wanted = dict(app.store("counts").items()), dict(app.store("longest").items())
            with app.snapshot() as snapshot:
                served.comes_to(snapshot.epoch)
            assert (served.rows("counts"), served.rows("longest")) == wanted
        assert served.get("/queries/total")["result"] == 200
        assert served.rows("counts") == wanted[0]
    with serving(tmp_path, "--stores", "longest") as other:
        other.comes_to(1)
        for found in looks(lambda: other.rows("longest") == wanted[1]):
            if found:
                break
        assert [store["store"] for store in other.get("/stores")["stores"]] == ["longest"]
        assert other.rows("longest") == wanted[1]
