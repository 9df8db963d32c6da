"""What each endpoint shows of an application."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.admin.application import application
from mustela.admin.endpoints import endpoints, json_answer
from mustela.errors import EnvironmentFault
from mustela.runtime.app_errors import AppStateError
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.events import AppState
from mustela.runtime.lease import StandbyReport
from mustela.runtime.status.board import TRACES_MAX
from mustela.runtime.status.snapshot import WorkerView
from tests.unit.admin.fakes import LINES_0, LINES_1, SECRET, TOKENS, Client, FakeApp


@pytest.fixture
def app(tmp_path: Path) -> FakeApp:
    return FakeApp(tmp_path)


def test_a_process_lives_while_it_starts_restores_and_runs(app: FakeApp) -> None:
    """``/health/live`` is about being stuck, not about being done: else a restore is killed."""
    for state in (AppState.STARTING, AppState.STANDBY, AppState.RESTORING, AppState.RUNNING):
        app.comes_to(state)
        app.clock.advance(1000 if state is AppState.RUNNING else 3_600_000)
        answer = app.client().get("/health/live")
        assert (answer.status_code, answer.json()["status"]) == (200, "up"), state


def test_a_process_whose_commits_stall_longer_than_the_limit_is_down(app: FakeApp) -> None:
    """With work in hand and no commit for ``stall.after``, a supervisor should restart it."""
    app.runs()
    app.begins(Phase.IN_HAND, Phase.BEGUN)
    app.clock.advance(300_000 - 220)
    assert app.client().get("/health/live").status_code == 200
    app.clock.advance(1)
    answer = app.client().get("/health/live")
    assert (answer.status_code, answer.json()["status"]) == (503, "down")
    assert answer.json()["limit_seconds"] == 300


def test_what_has_nothing_to_do_or_is_paused_does_not_stall(app: FakeApp) -> None:
    """Silence is no stall: each look that finds nothing counts as progress, and a pause is."""
    app.runs()
    for _ in range(3):
        app.clock.advance(200_000)
        app.board.begin_turn(app.barrier)
        app.tells()
    assert app.client().get("/health/live").status_code == 200
    app.comes_to(AppState.PAUSED)
    app.clock.advance(3_600_000)
    assert app.client().get("/health/live").status_code == 200


@pytest.mark.parametrize("state", [AppState.STOPPED, AppState.FAILED])
def test_a_process_that_has_ended_is_down(app: FakeApp, state: AppState) -> None:
    """The server may outlive the application, when it is mounted."""
    app.comes_to(state)
    assert app.client().get("/health/live").status_code == 503


def test_indicators_of_the_program_are_shown_and_counted_and_make_it_unready(app: FakeApp) -> None:
    """Each by its name; one that does not answer is not waited for by the next probe."""
    answers: dict[str, Any] = {"db": None, "cache": True}
    for name in answers:
        app.indicators.add(name, lambda name=name: answers[name])
    app.runs()
    ready = app.client().get("/health/ready")
    assert (ready.status_code, ready.json()["indicators"]) == (
        200,
        {"db": {"status": "up"}, "cache": {"status": "up"}},
    )
    answers["db"] = "cannot log in: password=hunter2"
    app.clock.advance(1_001)
    unwell = app.client().get("/health/ready")
    assert (unwell.status_code, unwell.json()["status"]) == (503, "unwell")
    assert unwell.json()["why"] == "not well: db"
    assert unwell.json()["indicators"]["db"]["status"] == "down"
    assert "hunter2" not in unwell.text
    assert app.client().get("/health/live").status_code == 200
    assert {name: answer.failed for name, answer in app.indicators.last().items()} == {
        "db": 1,
        "cache": 0,
    }


def test_a_restore_is_not_ready_and_says_how_far_each_store_is(app: FakeApp) -> None:
    """503 with JSON, so that a rollout waits and a person sees why."""
    app.restores(3, 4, counts=1_200)
    answer = app.client().get("/health/ready")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "restoring",
        "state": "restoring",
        "restore": {
            "key_groups_done": 3,
            "key_groups": 4,
            "stores": {"counts": {"records": 1_200}},
        },
    }


def test_an_application_is_ready_while_its_epochs_can_commit(app: FakeApp) -> None:
    """It is not while the broker does not answer, and is again when it does."""
    app.runs()
    assert app.client().get("/health/ready").json() == {"status": "ready", "state": "running"}
    app.board.on_error(EnvironmentFault(f"no broker answers at u:{SECRET}", fix="-"))
    app.tells(is_well=False)
    answer = app.client().get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "failing")
    assert answer.json()["fault"]["code"] == "ENVIRONMENT"
    app.tells()
    assert app.client().get("/health/ready").status_code == 200


def test_a_stalled_or_paused_application_is_not_ready(app: FakeApp) -> None:
    """No epoch commits then."""
    app.runs()
    app.clock.advance(400_000)
    answer = app.client().get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "stalled")
    app.comes_to(AppState.PAUSED)
    answer = app.client().get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "paused")


def test_info_says_what_runs_and_what_went_wrong(app: FakeApp) -> None:
    """The first look of whoever is called at night."""
    app.comes_to(AppState.STARTING)
    app.runs(first=10)
    app.commits()
    app.board.on_error(EnvironmentFault("the broker at http://u:p@h is away", fix="-"))
    info = app.client().json("/info")
    assert info["application_id"] == "orders"
    assert [each["state"] for each in info["history"]] == ["created", "starting"]
    assert (info["state"], info["epoch"], info["incarnation"]) == ("running", 1, 3)
    assert (info["lag"], info["lanes"], info["key_groups"]) == (3, 2, 4)
    assert info["faults"][0]["what"] == "the broker at http://******@h is away"


def test_config_shows_every_setting_with_its_source_and_no_secret(tmp_path: Path) -> None:
    """Secrets are masked by name and by look, wherever they stand."""
    app = FakeApp(
        tmp_path,
        kafka={"sasl.password": SECRET, "ssl.key.pem": f"-----BEGIN KEY-----{SECRET}"},
        admin__read_token=SECRET + "!",
        spark={"spark.proxy": f"http://joe:{SECRET}@proxy:1/"},
        lanes=3,
    )
    answer = app.client().get("/config", TOKENS.read)
    assert SECRET not in answer.text
    shown = answer.json()
    assert shown["lanes"] == {"value": 3, "source": "code"}
    assert shown["emit"] == {"value": "barrier", "source": "default"}
    assert shown["kafka.sasl.password"]["value"] == "******"


def test_no_endpoint_shows_a_secret(tmp_path: Path) -> None:
    """Secrets planted in settings and errors are in no answer."""
    app = FakeApp(
        tmp_path,
        kafka={"sasl.password": SECRET},
        admin__read_token=SECRET + "-r",
        admin__operate_token=SECRET + "-o",
    )
    app.runs()
    app.commits({f"failed_records:{'x'}": 1})
    app.board.on_error(EnvironmentFault(f"sasl.password={SECRET}", fix="-"))
    client = app.client()
    for endpoint in client.app._endpoints.values():
        if endpoint.method == "GET":
            assert SECRET not in client.get(endpoint.path, TOKENS.operate).text, endpoint.path


def test_topology_is_told_as_json_text_and_mermaid(app: FakeApp) -> None:
    """For programs, for people who know Kafka Streams, and to be drawn."""
    client = app.client()
    nodes = client.json("/topology")["nodes"]
    assert nodes[0]["name"] == "lines"
    assert client.json("/topology?format=json")["stages"][1]["stores"] == ["counts"]
    assert client.get("/topology?format=text").text == app.graph.describe()
    drawn = client.get("/topology?format=mermaid").text
    assert drawn.startswith("flowchart LR\n")
    assert '[("counts")]' in drawn
    assert client.get("/topology?format=svg").status_code == 400


def test_state_names_each_store_its_changelog_and_its_disk(app: FakeApp, tmp_path: Path) -> None:
    """Where state is, and how much of it."""
    app.runs()
    app.committed.changelog_ends["counts"] = [5, 0, 7, 1]
    app.tells()
    stage = app.plan.stages[1]
    here = tmp_path / "orders" / stage.identity / "00000"
    here.mkdir(parents=True)
    (here / "data.mdb").write_bytes(b"x" * 100_000)
    shown = app.client().json("/state")
    assert shown["stores"] == [
        {
            "store": "counts",
            "kind": "timestamped_key_value",
            "stage": 1,
            "logged": True,
            "changelog": "orders-counts-changelog",
            "changelog_end": 13,
        }
    ]
    assert shown["stages"][0]["bytes"] >= 100_000


def test_offsets_show_how_much_waits_in_each_partition(app: FakeApp) -> None:
    """Lag by partition, and in all."""
    assert app.client().json("/offsets")["partitions"] == []
    app.runs(first=10, second=4)
    shown = app.client().json("/offsets")
    assert shown["lag"] == 5
    assert shown["partitions"] == [
        {"topic": "lines", "partition": 0, "next": 7, "end": 10, "lag": 3},
        {"topic": "lines", "partition": 1, "next": 2, "end": 4, "lag": 2},
    ]


def test_watermarks_name_the_partition_that_holds_them(app: FakeApp) -> None:
    """The first question when windows do not close is: which partition?"""
    app.runs()
    shown = app.client().json("/watermarks")
    assert (shown["watermark_ms"], shown["behind_clock_ms"]) == (980_000, 20_000)
    assert shown["held_by"] == [{"topic": "lines", "partition": 1}]
    app.committed.watermark.rest(LINES_1, 2_000_000, read_to_end=True)
    app.tells(held=[LINES_0])
    shown = app.client().json("/watermarks")
    assert shown["held_by"] == [{"topic": "lines", "partition": 0}]
    by_partition = {row["partition"]: row for row in shown["partitions"]}
    assert by_partition[1]["idle"]
    assert by_partition[0]["waits_for_records"]


def test_a_partition_without_any_record_holds_the_watermark(app: FakeApp) -> None:
    """It has come to no time at all."""
    app.runs()
    new = LINES_0._replace(partition=2)
    app.committed.watermark.track([new], 1_000_000)
    app.tells()
    shown = app.client().json("/watermarks")
    assert shown["held_by"] == [{"topic": "lines", "partition": 2}]


def test_barriers_show_the_phases_of_the_last_epochs_and_of_the_one_in_flight(
    app: FakeApp,
) -> None:
    """The newest comes first; each phase has its time."""
    app.runs()
    for _ in range(TRACES_MAX + 5):
        app.commits()
    app.begins(Phase.IN_HAND)
    shown = app.client().json("/debug/barriers")
    assert len(shown["recent"]) == TRACES_MAX
    newest = shown["recent"][0]
    assert (newest["epoch"], newest["outcome"], newest["records"]) == (105, "committed", 4)
    assert newest["phases"] == [
        {"phase": "choosing", "seconds": 0.01},
        {"phase": "running", "seconds": 0.2},
        *(
            {"phase": name, "seconds": 0.005}
            for name in ("in-hand", "begun", "produced", "offsets-added", "commit-sent")
        ),
    ]
    assert (shown["in_flight"]["epoch"], shown["in_flight"]["phase"]) == (106, "in-hand")
    assert shown["stuck_phase"] is None


def test_barriers_name_the_phase_that_is_stuck(app: FakeApp) -> None:
    """Three times as long as the longest of the last ones, and no blink."""
    app.runs()
    app.commits()
    app.begins(Phase.IN_HAND, Phase.BEGUN)
    app.clock.advance(990)
    assert app.client().json("/debug/barriers")["stuck_phase"] is None
    app.clock.advance(10)
    shown = app.client().json("/debug/barriers")
    assert shown["stuck_phase"] == "begun"
    assert shown["in_flight"]["phases"][-1] == {"phase": "begun", "seconds": 1.005}


def test_threads_show_what_each_worker_is_at(app: FakeApp) -> None:
    """Pid, lane, step, time in it, and, when asked, the record and where in Python."""

    def workers(stacks: bool) -> list[WorkerView]:
        view = WorkerView(pid=77, activity="step", stage=1, lane=2, step="count", seconds=4.5)
        told = replace(view, record="key b'k'", stack="Thread 1:\n  File app.py, line 3")
        return [told if stacks else view]

    app.workers = workers
    shown: Any = app.client().json("/debug/threads", TOKENS.query)
    (worker,) = shown["workers"]
    assert (worker["pid"], worker["lane"], worker["step"]) == (77, 2, "count")
    assert (worker["seconds"], worker["record"]) == (4.5, "key b'k'")
    assert worker["stack"][-1] == "  File app.py, line 3"
    assert any(thread["thread"] == "MainThread" for thread in shown["driver"])
    assert shown["hosts_not_asked"] == []
    shown = app.client().json("/debug/threads?stacks=false", TOKENS.query)
    assert shown["workers"][0]["stack"] is None
    assert app.client().get("/debug/threads?stacks=1", TOKENS.query).status_code == 400


@pytest.mark.parametrize(
    ("path", "done"),
    [
        ("/pause", "pause"),
        ("/resume", "resume"),
        ("/shutdown", "stop"),
        ("/ha/switch", "switch  False"),
        ("/ha/switch?to=b&force=true", "switch b True"),
        ("/ha/promote", "promote"),
    ],
)
def test_operations_are_asked_of_the_application(app: FakeApp, path: str, done: str) -> None:
    """They are asked for, and the answer does not wait until they are done."""
    answer = app.client().post(path, TOKENS.operate)
    assert answer.status_code == 202
    assert app.asked == [done]


def test_the_standbys_that_an_instance_hears_of_are_shown(app: FakeApp) -> None:
    """With their epochs and their memory; -1 stands for no epoch, and is not shown."""
    app.runs()
    report = StandbyReport(
        standby="b/1",
        host="b",
        pid=8,
        place="there",
        time_ms=1,
        ttl_ms=3_000,
        epoch=-1,
        memory_bytes=7,
        ready=False,
    )
    known = replace(app.watched, standbys=lambda: [report])
    served = application(known, endpoints(lambda _w, _q: json_answer({})), app.policy())
    shown: Any = Client(served).json("/ha")
    assert shown["state"] == "running"
    told = {"host": "b", "pid": 8, "ready": False, "epoch": None, "memory_bytes": 7}
    assert shown["standbys"] == [told]


def test_an_operation_that_does_not_fit_is_a_conflict(app: FakeApp) -> None:
    """The error's text and code come back, and no server error."""

    def refuse() -> None:
        msg = "the application cannot pause while it is stopped"
        raise AppStateError(msg, fix="make a new App")

    known = replace(app.watched, pause=refuse)
    served = application(known, endpoints(lambda _w, _q: json_answer({})), app.policy())
    answer = Client(served).post("/pause", TOKENS.operate)
    assert (answer.status_code, answer.json()["code"]) == (409, "APP_STATE")


def test_a_probe_port_says_yes_or_no_and_shows_nothing(app: FakeApp) -> None:
    """It may be open to others, so it names no store, no error and no time."""
    app.restores(1, 4, counts=5)
    answer = app.probe().get("/health/ready")
    assert (answer.status_code, answer.json()) == (503, {"status": "restoring"})
    assert app.probe().get("/health/live").json() == {"status": "up"}
    for path in ("/info", "/metrics", "/config", "/pause"):
        assert app.probe().get(path, TOKENS.operate).status_code == 404
