"""The dashboard and the alerts of the wheel ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from mustela.admin.catalogue import CATALOGUE
from mustela.events import AppState

PROMTOOL = shutil.which("promtool")
PLACE = files("mustela.admin").joinpath("monitoring")
DASHBOARD: Any = json.loads(PLACE.joinpath("dashboard.json").read_text(encoding="utf-8"))
ALERTS: Any = yaml.safe_load(PLACE.joinpath("alerts.yaml").read_text(encoding="utf-8"))
RULES: list[Any] = ALERTS["groups"][0]["rules"]
_USE = re.compile(r"(mustela_\w+)(\{[^}]*\})?")
_BY = re.compile(r"by \(([^)]*)\)")
OF_SCRAPES = {"instance", "job", "le"}


def expressions() -> list[tuple[str, str]]:
    found = [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]
    found += [
        (variable["name"], variable["query"]["query"])
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    ]
    return found + [(rule["alert"], rule["expr"]) for rule in RULES]


def metric_of(name: str) -> str:
    """Return the metric that a series belongs to."""
    for end in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(end)
        if base != name and base in CATALOGUE and CATALOGUE[base].kind == "histogram":
            return base
    return name


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_every_expression_asks_for_metrics_and_labels_that_there_are(
    where: str, expression: str
) -> None:
    """And uses a counter as a counter, a histogram as one."""
    used = _USE.findall(expression)
    assert used, where
    labels = set(OF_SCRAPES)
    states = re.findall(r'state="(\w+)"', expression)
    assert set(states) <= {state.value for state in AppState}, where
    for name, matchers in used:
        metric = CATALOGUE[metric_of(name)]
        labels |= set(metric.labels)
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert asked <= {*metric.labels, "instance"}, (where, name)
        if metric.kind == "counter":
            assert re.search(rf"(rate|increase)\(\s*{name}", expression), (where, name)
    for group in _BY.findall(expression):
        assert {label.strip() for label in group.split(",")} <= labels, where


def test_legends_name_labels_of_what_they_show() -> None:
    """A label that is summed away would be an empty place."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            sums = _BY.findall(target["expr"])
            if sums:
                assert named <= {
                    label.strip()
                    for label in sums[-1 if "/" not in target["expr"] else 0].split(",")
                }, panel["title"]


def test_every_metric_of_what_goes_wrong_is_on_the_dashboard() -> None:
    """Nobody looks for what is not shown."""
    text = json.dumps(DASHBOARD)
    shown = {metric_of(name) for name, _ in _USE.findall(text)}
    left_out = {
        "mustela_state_since_seconds",
        "mustela_incarnation",
        "mustela_epoch",
        "mustela_user_total",
        "mustela_step_events_total",
        "mustela_epoch_in_flight_seconds",
        "mustela_watermark_seconds",
        "mustela_partition_idle",
        "mustela_store_changelog_end",
        "mustela_kafka_queue_bytes",
        "mustela_owner_bytes_total",
        "mustela_processes",
    }
    assert CATALOGUE.keys() - shown - left_out == set()


def test_panels_do_not_lie_upon_each_other() -> None:
    """And each has its own number."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_each_alert_says_what_and_what_to_look_at() -> None:
    """With a severity to route it by."""
    assert len({rule["alert"] for rule in RULES}) == len(RULES) == 13
    for rule in RULES:
        assert rule["alert"].startswith("Mustela")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}


ODD = {
    # series, values of a minute each, when, and the alerts that fire then
    'mustela_state{instance="a",job="m",state="failed"}': ("1x10", "5m", "MustelaFailed"),
    'mustela_stalled_seconds{instance="a",job="m"}': ("0+60x20", "15m", "MustelaStalled"),
    'mustela_lag_records{instance="a",job="m",topic="t"}': (
        "1000+2000x60",
        "50m",
        "MustelaLagGrows",
    ),
    'mustela_health_up{instance="a",job="m",indicator="i"}': ("0x30", "25m", "MustelaUnwell"),
    'mustela_faults_total{instance="a",job="m",code="X"}': ("0+2x30", "25m", "MustelaTriesAgain"),
    'mustela_failed_records_total{instance="a",job="m",step="s"}': (
        "0+1x30",
        "25m",
        "MustelaRecordsFail",
    ),
    'mustela_dead_letters_total{instance="a",job="m",step="s"}': (
        "0+1x30",
        "25m",
        "MustelaDeadLetters",
    ),
    'mustela_state{instance="a",job="m",state="restoring"}': ("1x60", "40m", "MustelaRestoreLong"),
    'mustela_state{instance="a",job="m",state="paused"}': ("1x90", "80m", "MustelaPaused"),
    'mustela_commit_seconds_bucket{instance="a",job="m",le="10"}': (
        "0+10x60",
        "40m",
        "MustelaCommitsSlow",
    ),
}
"""What makes each alert fire; those of two metrics are in `PAIRS`."""

PAIRS = {
    "MustelaWatermarkStands": {
        'mustela_watermark_seconds{instance="a",job="m"}': "5x90",
        'mustela_records_read_total{instance="a",job="m"}': "0+10x90",
    },
    "MustelaRecordsLate": {
        'mustela_dropped_records_total{instance="a",job="m",reason="late",step="s"}': "0+5x90",
        'mustela_records_read_total{instance="a",job="m"}': "0+100x90",
    },
    "MustelaLaneSkewed": {
        'mustela_lane_skew_ratio{instance="a",job="m",stage="1"}': "3.5x90",
        'mustela_records_read_total{instance="a",job="m"}': "0+60000x90",
    },
}
CALM = {
    'mustela_state{instance="a",job="m",state="running"}': "1x90",
    'mustela_stalled_seconds{instance="a",job="m"}': "0x90",
    'mustela_health_up{instance="a",job="m",indicator="i"}': "1x90",
    'mustela_lag_records{instance="a",job="m",topic="t"}': "50000x90",
    'mustela_records_read_total{instance="a",job="m"}': "0+60000x90",
    'mustela_watermark_seconds{instance="a",job="m"}': "0+60x90",
    'mustela_lane_skew_ratio{instance="a",job="m",stage="1"}': "1.2x90",
    'mustela_dropped_records_total{instance="a",job="m",reason="late",step="s"}': "0+1x90",
    'mustela_faults_total{instance="a",job="m",code="X"}': "3x90",
    'mustela_commit_seconds_bucket{instance="a",job="m",le="0.1"}': "0+10x90",
    'mustela_commit_seconds_bucket{instance="a",job="m",le="+Inf"}': "0+10x90",
}


def scenes() -> list[dict[str, Any]]:
    """Return a test of promtool's for each alert, and one in which all is well."""
    firing: list[tuple[str, str, dict[str, str]]] = []
    for series, (values, when, alert) in ODD.items():
        more = {series: values}
        if "bucket" in series:
            more[series.replace('"10"', '"5"')] = "0x60"
            more[series.replace('"10"', '"+Inf"')] = values
        firing.append((alert, when, more))
    firing += [(alert, "75m", series) for alert, series in PAIRS.items()]
    assert {alert for alert, _, _ in firing} == {rule["alert"] for rule in RULES}
    found = [
        {
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": when,
                    "exp_samples": [{"labels": "{}", "value": 1}],
                }
            ],
        }
        for alert, when, series in firing
    ]
    calm = [{"series": series, "values": values} for series, values in CALM.items()]
    quiet = {"expr": "count(ALERTS)", "eval_time": "80m", "exp_samples": []}
    return [*found, {"interval": "1m", "input_series": calm, "promql_expr_test": [quiet]}]


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package prometheus")
def test_each_alert_fires_when_it_should_and_none_when_all_is_well(tmp_path: Path) -> None:
    """Prometheus' own tool reads the rules and runs them over made-up series."""
    assert PROMTOOL is not None
    rules = tmp_path / "alerts.yaml"
    rules.write_bytes(PLACE.joinpath("alerts.yaml").read_bytes())
    scene = tmp_path / "tests.yaml"
    scene.write_text(yaml.safe_dump({"rule_files": [str(rules)], "tests": scenes()}))
    for command in (["check", "rules", str(rules)], ["test", "rules", str(scene)]):
        done = subprocess.run(
            [PROMTOOL, *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package prometheus")
def test_every_expression_of_the_dashboard_is_one(tmp_path: Path) -> None:
    """As a recording rule, which is how promtool reads an expression."""
    assert PROMTOOL is not None
    rules = [
        {"record": f"x:{number}", "expr": target["expr"].replace("$__rate_interval", "1m")}
        for number, target in enumerate(
            target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
        )
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": rules}]}))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(rules) > 30
