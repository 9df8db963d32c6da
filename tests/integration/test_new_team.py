"""A new team's first weeks, as typed: from `mustela new` to a second release, on a secured broker.

Each line is a command that the guides name, in a directory of its own, without anything of this
repository's. `STARTS` are the ways in which the application is started: a process, and whatever
else runs the same program, such as an image in a root of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from mustela.deploy.pods import USER
from mustela_dev import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.daemon import broker_status
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.integration.image_root import Container, missing
from tests.patience import PATIENCE_S
from tests.unit.deploy.image.world import unpack

pytestmark = [pytest.mark.broker, pytest.mark.spark]

# The program that a wheel was installed for, when this proof runs apart: see CONTRIBUTING.md.
PYTHON = os.environ.get("MUSTELA_PROOF_PYTHON", sys.executable)
LOOK_S = 0.1
SHORT_SIGHTED = "order.amount / len(order.customer) > 0"
MENDED = "order.amount > 0"
FIRST = "    totals.to_stream().to(TOTALS)\n"
SECOND = (
    FIRST
    + '    largest = by_customer.aggregate(largest=Max("amount"), store="largest")\n'
    + '    largest.to_stream().to("shop-largest")\n'
)


class Team:
    """A project, and a terminal in its directory, with a broker's settings in the environment."""

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self.home, self.project = home, home / "shop"
        own = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("MUSTELA", "PYTHON"))
        }
        self.state = home / "state"
        self.environ = {
            **own,
            **variables,
            "COLUMNS": "200",
            "MUSTELA__STATE_DIR": str(self.state),
            "MUSTELA__ADMIN__ENABLED": "true",
            "MUSTELA__SPARK__MASTER": "local[2]",
            "MUSTELA__SPARK__DRIVER_MEMORY": "512m",
        }

    def types(self, *line: str, stdin: str = "") -> str:
        """Type a command of mustela's, and return what it printed."""
        place = self.project if self.project.is_dir() else self.home
        done = subprocess.run(
            [PYTHON, "-m", "mustela.cli.main", *line],
            cwd=place,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def asks(self, *line: str) -> list[Any]:
        """Type a command with `--json`; return its documents."""
        return [json.loads(text) for text in self.types(*line, "--json").splitlines()]

    def sends(self, *values: str) -> None:
        """Send values as they are, a line each."""
        self.types("send", "shop-orders", "-", stdin="".join(f"{value}\n" for value in values))

    def totals(self, count: int) -> list[Any]:
        """Return the first totals, as they come; it waits for them."""
        line = ("tail", "shop-totals", "--from-beginning", "--value", "json", "-n", str(count))
        return [row["value"] for row in self.asks(*line)]

    def edits(self, name: str, old: str, new: str) -> None:
        file = self.project / name
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, (name, old)
        file.write_text(text.replace(old, new), encoding="utf-8")

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Look until something holds."""
        for _ in range(int(PATIENCE_S / LOOK_S)):
            found = holds()
            if found:
                return found
            time.sleep(LOOK_S)
        raise AssertionError(what)


class Process:
    """The application as a process of this host: `mustela run shop.app:app`."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.log = team.home / "run.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "mustela.cli.main", "run", "shop.app:app"],
                cwd=team.project,
                env=team.environ,
                stdout=log,
                stderr=log,
            )

    def ends(self) -> int:
        """Ask it to end as a supervisor does; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)


class Image:
    """The application as an image of its project, made anew, in a root and as a user of its own."""

    def __init__(self, team: Team) -> None:
        self.log = team.home / "run.log"
        lock = team.project / "image.lock"
        if not lock.exists():
            team.types("image", "lock")
        layout, root = team.home / "layout", team.home / "root"
        for left in (layout, root):
            shutil.rmtree(left, ignore_errors=True)
        team.types("image", "--output", str(layout))
        image = Container(root, unpack(layout, root, owners=True), {})
        settings = {
            name: text for name, text in team.environ.items() if name.startswith("MUSTELA__")
        }
        team.state.mkdir(exist_ok=True)
        ca = shutil.copy(settings["MUSTELA__KAFKA__SSL_CA_LOCATION"], team.state)
        for mounted in (team.state, ca):
            os.chown(mounted, USER, USER)
        settings |= {
            "MUSTELA__STATE_DIR": "/state",
            "MUSTELA__KAFKA__SSL_CA_LOCATION": f"/state/{Path(ca).name}",
            "MUSTELA__ADMIN__LISTEN": "127.0.0.1:0",
            "MUSTELA__ADMIN__PROBE_LISTEN": "127.0.0.1:0",
        }
        words = image.config["config"]["Entrypoint"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                image.command(team.state, *words, **settings), stdout=log, stderr=log
            )

    def ends(self) -> int:
        """Ask the one process in it to end, as a container runtime does."""
        [inner] = psutil.Process(self._process.pid).children()
        assert set(inner.uids()) == {USER}
        inner.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        for inner in psutil.Process(self._process.pid).children():
            inner.kill()  # it changed its user, so it does not end with who started it
        self._process.wait(PATIENCE_S)


STARTS: dict[str, Callable[[Team], Any]] = {"process": Process, "image": Image}
"""The ways to start the application, each with `log`, `ends()` and `kill()`."""


class Server:
    """The admin server of the running instance, with the tokens of the file that it wrote."""

    def __init__(self, team: Team) -> None:
        file = team.state / "~admin" / "shop.json"
        found = team.until(lambda: self._read(file), "the admin server says where it is")
        self.address, self.tokens = found["address"], found["tokens"]

    @staticmethod
    def _read(file: Path) -> Any:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if found["address"] else None

    def ask(self, method: str, path: str, token: str = "") -> tuple[int, str]:
        request = urllib.request.Request(f"{self.address}{path}", method=method)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError as error:
            return 0, str(error)

    def runs(self) -> bool:
        return self.ask("GET", "/health/ready")[0] == 200

    def lag(self) -> float:
        """Return what waits, as Prometheus reads it."""
        status, text = self.ask("GET", "/metrics")
        assert status == 200
        rows = [line for line in text.splitlines() if line.startswith("mustela_lag_records{")]
        assert rows
        return sum(float(row.rpartition(" ")[2]) for row in rows)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentBroker]:
    broker = DevelopmentBroker(
        tmp_path_factory.mktemp("broker"),
        heap_mb=HEAP_MB,
        properties=PROPERTIES,
        options=BrokerOptions(fast_start=True, secure=True),
    )
    with broker:
        yield broker


@pytest.fixture
def team(tmp_path: Path, secure: DevelopmentBroker) -> Team:
    file = broker_status(secure.data_dir).client_env
    assert file is not None
    lines = file.read_text(encoding="utf-8").splitlines()
    return Team(tmp_path, dict(line.split("=", 1) for line in lines))


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_new_team_gets_to_its_second_release(
    team: Team, start: Callable[[Team], Any], secure: DevelopmentBroker
) -> None:
    """New, tested, run over TLS with a login, scraped, paused, poisoned, upgraded, replayed."""
    if start is Image and "MUSTELA_IMAGE_TEST" not in os.environ:
        pytest.skip("./dev image runs it")
    if start is Image and (reason := missing()):
        pytest.skip(reason)
    team.types("new", "shop")
    team.edits("shop/app.py", MENDED, SHORT_SIGHTED)
    tests = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_topology.py"]
    done = subprocess.run(tests, cwd=team.project, env=team.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    team.types("topics", "create", "shop.app:app")
    first = start(team)
    try:
        server = Server(team)
        team.until(server.runs, "the first release runs")
        _is_scraped_and_paused(team, server)
        _is_poisoned(team)
    except BaseException:
        first.kill()
        raise
    assert first.ends() == 0, first.log.read_text(encoding="utf-8")
    _is_upgraded(team)
    second = start(team)
    try:
        team.until(Server(team).runs, "the second release runs")
        _is_replayed(team)
    except BaseException:
        second.kill()
        raise
    assert second.ends() == 0, second.log.read_text(encoding="utf-8")
    log = second.log.read_text(encoding="utf-8")
    assert secure.client_settings["kafka.sasl.password"] not in log
    assert "Traceback" not in log
    assert not (team.state / "~admin" / "shop.json").exists()


def _is_scraped_and_paused(team: Team, server: Server) -> None:
    team.sends('{"customer": "ann", "amount": 3}')
    assert team.totals(1) == [{"orders": 1, "total": 3}]
    assert server.lag() == 0
    assert server.ask("POST", "/pause")[0] == 401
    assert server.ask("POST", "/pause", server.tokens["read"])[0] == 403
    assert server.ask("POST", "/pause", server.tokens["operate"])[0] == 202
    team.until(lambda: not server.runs(), "it is paused")
    team.sends('{"customer": "ann", "amount": 4}')
    team.until(lambda: server.lag() == 1, "the scrape tells what waits")

    def is_paused() -> bool:  # from Kafka, if the application is not on this host: seconds old
        return team.asks("status", "shop")[0]["state"] == "paused"

    team.until(is_paused, "its status tells it")
    assert server.ask("POST", "/resume", server.tokens["operate"])[0] == 202
    assert team.totals(2)[1] == {"orders": 2, "total": 7}


def _is_poisoned(team: Team) -> None:
    """One record is no JSON; for the other the program's function raises."""
    good = '{"customer": "bob", "amount": 5}'
    team.sends("not json", '{"customer": "", "amount": 6}', good)
    assert team.totals(3)[2] == {"orders": 1, "total": 5}
    letters = team.asks("dlq", "list", "shop")
    assert [one["code"] for one in letters] == ["DESERIALIZATION", "PROCESSING"]
    assert [one["step"] for one in letters] == ["shop-orders", "paid"]
    shown = team.types("dlq", "show", "shop", letters[1]["letter"])
    assert "ZeroDivisionError" in shown
    assert '{"customer": "", "amount": 6}' in shown


def _is_upgraded(team: Team) -> None:
    """A function mended, a field and a store more: asked for first, and its topics are made."""
    team.edits("shop/app.py", "    amount: int\n", '    amount: int\n    currency: str = "EUR"\n')
    team.edits("shop/app.py", "import Count, Sum", "import Count, Max, Sum")
    team.edits("shop/app.py", FIRST, SECOND)
    team.edits("shop/app.py", SHORT_SIGHTED, MENDED)
    assert "shop goes on after epoch" in team.types("check", "shop.app:app")
    team.types("topics", "create", "shop.app:app")


def _is_replayed(team: Team) -> None:
    team.sends('{"customer": "bob", "amount": 9, "currency": "USD"}')
    assert team.totals(4)[3] == {"orders": 2, "total": 14}
    largest = ("tail", "shop-largest", "--from-beginning", "--value", "json", "-n", "1")
    assert team.asks(*largest)[0]["value"] == {"largest": 9}
    assert "2 would be replayed" in team.types("dlq", "replay", "shop", "--dry-run")
    team.types("dlq", "replay", "shop", "--yes")
    assert team.totals(5)[4] == {"orders": 1, "total": 6}, "what was mended came through"

    def failed_again() -> bool:
        letters = team.asks("dlq", "list", "shop")
        return [one["replays"] for one in letters] == [1]

    team.until(failed_again, "no release reads what is no JSON")
    team.types("dlq", "drop", "shop", "--yes")
    assert team.asks("dlq", "list", "shop") == []
