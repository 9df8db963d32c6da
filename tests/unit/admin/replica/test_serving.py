"""A replica served over HTTP, beside a model of an application."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from mustela import App, StreamsBuilder
from mustela.admin.access import access_file, read_access
from mustela.admin.replica.serving import ReplicaServer
from mustela.admin.replica.shown import REPLICA_METRICS
from mustela.cli.main import main
from mustela.errors import EnvironmentFault, MustelaError, UsageError
from mustela.queries.errors import UnknownStoreError
from mustela.runtime.replica import following, places
from mustela.runtime.replica.places import replica_place
from mustela.runtime.replica.replica import Replica
from mustela.serdes.primitives import IntSerde
from mustela.state.kinds.timed import pack_timestamped
from mustela.stores import Snapshot
from tests.patience import PATIENCE_S, looks
from tests.unit.runtime.followed import Application, bulk_reads, sources_of


class Served:
    """A replica of a model in a thread of its own.

    Args:
        app: The application.
        model: What it commits.
        stores: The stores that are followed.
    """

    def __init__(self, app: App, model: Application, stores: list[str] | None = None) -> None:
        def make(settings: Any, plan: Any, *, examine: Any, changes: Any) -> Replica:
            del examine
            sources = sources_of(model)
            return Replica(settings, plan, examine=self.examine, sources=sources, changes=changes)

        self.trouble: Exception | None = None
        self.error: BaseException | None = None
        self.faults: list[BaseException] = []
        self.server = ReplicaServer(
            app, stores=stores, on_error=self.faults.append, make_replica=make
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        assert self.error is None, self.error
        settings = app.settings.model_copy(update={"state_dir": self.server.place})
        access = read_access(access_file(settings))
        assert access is not None
        self.http = httpx.Client(
            base_url=self.server.address,
            headers={"authorization": f"Bearer {access.tokens.query}"},
            timeout=PATIENCE_S,
        )

    def examine(self) -> None:
        """Refuse what the gate would refuse."""
        if self.trouble is not None:
            raise self.trouble

    def _run(self) -> None:
        try:
            self.server.run(lambda _server: self._ready.set())
        except BaseException as error:  # noqa: BLE001 - a test looks at it
            self.error = error
        finally:
            self._ready.set()

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def shows(self, epoch: int) -> None:
        """Wait until an epoch is shown."""
        for found in looks(lambda: self.get("/info")["epoch"] == epoch):
            if found:
                return
        msg = f"epoch {epoch} is not shown"
        raise AssertionError(msg)

    def ended(self) -> BaseException | None:
        """Wait until it has ended by itself, and return why."""
        self.http.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.error

    def stop(self) -> None:
        self.http.close()
        self.server.stop()
        self._thread.join(PATIENCE_S)


@pytest.fixture
def model() -> Iterator[Application]:
    made = Application()
    with bulk_reads(made):
        yield made


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = App("app", key_groups=4, state_dir=str(tmp_path / "state"))

    @made.topology
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream("lines", key=str, value=str)
        words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
        words.count(store="counts").to_stream().to("counts", key=str, value=int)

    @made.query("total")
    def total(snapshot: Snapshot, more: int = 0) -> int:
        return sum(count for _, count in snapshot.store("counts").items()) + more

    return made


def committed(model: Application, **counts: int) -> None:
    """Commit counts of words."""
    rows: dict[bytes, bytes | None] = {}
    for word, count in counts.items():
        value = IntSerde().serialize(count)
        assert value is not None
        rows[word.encode()] = pack_timestamped(value, 5)
    model.commit(rows)


def test_a_replica_answers_as_the_application_does(app: App, model: Application) -> None:
    """Rows, counts, pages and the user's own queries; before the first epoch it says that there is
    none, and with it the probes say that it is ready."""
    served = Served(app, model)
    assert served.get("/health/ready", 503)["status"] == "catching up"
    assert served.get("/health/live")["status"] == "up"
    assert served.get("/stores/counts", 503)["code"] == "QUERY_STATE_UNAVAILABLE"
    committed(model, a=1, b=2, c=3)
    served.shows(1)
    assert served.get("/health/ready") == {
        "status": "ready", "state": "following", "behind_epochs": 0, "epoch": 1,
    }  # fmt: skip
    page = served.get("/stores/counts?from=a&limit=2")
    assert [(row["key"], row["value"]) for row in page["rows"]] == [("a", 1), ("b", 2)]
    committed(model, d=4)
    served.shows(2)
    rest = served.get(f"/stores/counts?from=a&limit=2&cursor={page['cursor']}")
    assert (rest["epoch"], [row["key"] for row in rest["rows"]]) == (1, ["c"])
    assert served.get("/stores/counts?count=true&min_epoch=2")["count"] == 4
    assert served.get("/queries/total?more=5")["result"] == 15
    served.stop()
    assert served.error is None


def test_mustela_state_asks_a_replica_by_its_address(
    app: App,
    model: Application,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows, one of them, their number and an export; with the token that it takes."""
    served = Served(app, model)
    committed(model, i=1, m=2, r=3)  # keys that the model puts where Mustela would
    served.shows(1)
    token = served.http.headers["authorization"].removeprefix("Bearer ")
    monkeypatch.chdir(tmp_path)

    def state(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        given = ["state", words[0], "app", *words[1:], "--url", served.server.address]
        found = main(given)
        told = capsys.readouterr()
        assert found == code, told.err
        return told.out if code == 0 else told.err

    assert "MUSTELA__ADMIN__QUERY_TOKEN" in state("count", "counts", code=2)
    monkeypatch.setenv("MUSTELA__ADMIN__QUERY_TOKEN", token)
    assert json.loads(state("list", "--json"))["stores"][0]["store"] == "counts"
    assert json.loads(state("get", "counts", "m"))["value"] == 2
    assert [json.loads(row)["key"] for row in state("range", "counts").splitlines()] == [*"imr"]
    assert state("count", "counts") == "3\n"
    state("export", "counts", "counts.jsonl")
    rows = [json.loads(row) for row in (tmp_path / "counts.jsonl").read_text().splitlines()]
    assert [row["value"] for row in rows] == [1, 2, 3]
    served.stop()
    assert "ADMIN_SILENT" in state("count", "counts", code=3)


def test_the_changes_of_a_replica_are_followed(app: App, model: Application) -> None:
    """A snapshot, then each epoch that is shown; it goes on where it was."""
    served = Served(app, model)
    committed(model, a=1, b=2)
    served.shows(1)
    with served.http.stream("GET", "/stores/counts/changes") as answer:
        assert answer.status_code == 200, answer.read()
        lines = (line for line in answer.iter_lines() if line.startswith(("event", "data")))
        events = zip(lines, lines, strict=False)
        assert next(events)[0] == "event: snapshot"
        assert next(events)[0] == "event: ready"
        committed(model, b=5)
        name, data = next(events)
    shown = json.loads(data.removeprefix("data: "))
    assert (name, shown["epoch"]) == ("event: change", 2)
    assert [(row["key"], row["value"]) for row in shown["rows"]] == [("b", 5)]
    committed(model, c=7)
    served.shows(3)
    headers = {"last-event-id": "2"}
    with served.http.stream("GET", "/stores/counts/changes", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        lines = (line for line in answer.iter_lines() if line.startswith("data"))
        assert json.loads(next(lines).removeprefix("data: "))["rows"][0]["key"] == "c"
    served.stop()
    assert served.error is None


def test_a_replica_needs_a_token_and_shows_its_lag(app: App, model: Application) -> None:
    """Data needs one on loopback too; the metrics are those of the reference."""
    served = Served(app, model)
    committed(model, a=1)
    served.shows(1)
    assert served.http.get("/stores", headers={"authorization": ""}).status_code == 401
    text = served.http.get("/metrics").text
    shown = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert shown | {"mustela_replica_faults_total"} >= REPLICA_METRICS.keys() - {
        "mustela_replica_faults_total"
    }
    assert "mustela_replica_lag_epochs 0.0" in text
    assert "mustela_replica_epoch 1.0" in text
    served.stop()


def test_a_fault_is_tried_again_and_a_refusal_ends_the_replica(
    app: App, model: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker that does not answer, and as another program that does not fit."""
    monkeypatch.setattr(following, "_TRY_AGAIN_S", 0.01)
    committed(model, a=1)
    served = Served(app, model)
    served.shows(1)

    class Away(EnvironmentFault):
        code = "BROKER_AWAY"
        retryable = True

    model.during = [lambda: (_ for _ in ()).throw(Away("away", fix="-"))]
    committed(model, a=2)
    for found in looks(lambda: served.faults):
        if found:
            break
    assert (
        'mustela_replica_faults_total{code="BROKER_AWAY"} 1.0' in served.http.get("/metrics").text
    )
    served.shows(2)
    served.trouble = UsageError("another program", fix="-")
    model.record = msgspec.structs.replace(model.record, fingerprint="another")
    committed(model, a=3)
    assert served.ended() is served.trouble


def test_replicas_of_one_host_have_directories_of_their_own(
    app: App, model: Application, tmp_path: Path
) -> None:
    """The first that is free; one that comes back finds what it kept, and the application's own
    state is never touched."""
    committed(model, a=1)
    one, other = Served(app, model), Served(app, model, ["counts"])
    again = Served(app, model)
    for served in (one, other, again):
        served.shows(1)
    used = [served.server.place for served in (one, other, again)]
    assert len({*used}) == 3
    home = tmp_path / "state" / "~replica" / "app"
    assert [place.parent for place in used] == [home] * 3
    one.stop()
    with replica_place(tmp_path / "state", "app", None) as free:
        assert free == used[0]
    for served in (other, again):
        served.stop()
    assert not (tmp_path / "state" / "app").exists()


def test_a_directory_has_room_for_so_many_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused; in a directory of its own, as the fix says, it runs."""
    monkeypatch.setattr(places, "PLACES_MAX", 1)
    with replica_place(tmp_path / "state", "app", None):
        with pytest.raises(places.TooManyReplicasError) as found:
            replica_place(tmp_path / "state", "app", None).__enter__()
        assert "--set state_dir=" in str(found.value)
        with replica_place(tmp_path / "other", "app", None) as place:
            assert place.parent.is_dir()


def test_a_store_that_is_not_there_is_refused_before_anything_starts(app: App) -> None:
    """By its name, with those that are."""
    with pytest.raises(UnknownStoreError) as found:
        ReplicaServer(app, stores=["count"])
    assert "choose among counts" in str(found.value)


def test_an_address_that_is_taken_leaves_nothing_behind(
    app: App, model: Application, tmp_path: Path
) -> None:
    """The directory is free again, and the error says which address."""
    one = Served(app, model)
    port = one.server.address.rpartition(":")[2]
    app.configure(**{"admin.listen": f"127.0.0.1:{port}"})
    taken = ReplicaServer(app)
    taken._make_replica = lambda settings, plan, *, examine, changes: Replica(
        settings, plan, examine=examine, sources=sources_of(model), changes=changes
    )
    with pytest.raises(MustelaError, match="cannot listen") as found:
        taken.run()
    assert port in json.dumps(found.value.fields)
    with replica_place(tmp_path / "state", "app", None) as free:
        assert free.name == "all-2"
    one.stop()
