"""The log of an application, its workers, Spark's JVM and Kafka's client: one form, no secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.app_world import World
from tests.integration.own_process import run_program

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
import logging, time
import structlog
from mustela import App

app = App("{name}", bootstrap_servers="{servers}", state_dir="{state}")
log = logging.getLogger(__name__)


def priced(text):
    if text == "pear":
        log.warning("no price", extra={{"amount": 3}})
        structlog.get_logger("till").info("closed", login="canary-registry")
        print("printed by a function")
    return text


def counted(count):
    log.info("counted %d", count)
    return count


@app.topology
def build(builder):
    lines = builder.stream("{source}", key=str, value=str).map_values(priced, name="priced")
    counts = lines.group_by_key().count(store="counts").to_stream()
    counts.map_values(counted, name="counted").to("{sink}", key=str, value=int)
"""
CANARIES = {
    "kafka.sasl.password": "canary-sasl",
    "schema_registry.basic.auth.user.info": "joe:canary-registry",
    "admin.read_token": "canary-token-of-the-admin-server",
    "spark.hadoop.fs.s3a.secret.key": "canary-spark",
}
SETTINGS = {
    "spark.master": "local[1]",
    "log.level": "debug",
    "log.loggers": "org.apache.spark.scheduler.DAGScheduler=info,mustela.kafka=debug",
    "kafka.debug": "conf",
    **CANARIES,
}


def assigned(settings: dict[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def run_until_counted(world: World, tmp_path: Path, *more: str) -> tuple[str, str]:
    """Run the program over two records, and return all that it printed."""
    return run_program(world, tmp_path, PROGRAM, [("a", "apple"), ("b", "pear")], *more)


def test_every_process_writes_the_same_form_and_no_secret(world: World, tmp_path: Path) -> None:
    """Driver, workers, prints, Spark's JVM and Kafka's client: JSON, with where they are."""
    out, err = run_until_counted(world, tmp_path, *assigned(SETTINGS))
    assert out == ""
    for canary in ("canary-sasl", "canary-registry", "canary-token", "canary-spark"):
        assert canary not in err
    rows: list[dict[str, Any]] = [json.loads(line) for line in err.splitlines()]
    assert {row["app"] for row in rows} == {world.name}
    assert all({"timestamp", "level", "logger", "event"} <= row.keys() for row in rows)
    by_event = {row["event"]: row for row in rows}
    price = by_event["no price"]
    assert (price["logger"], price["level"], price["amount"]) == ("selling", "warning", 3)
    assert (price["stage"], price["task"], price["step"]) == (0, 0, "priced")
    assert price["topic"] == f"{world.name}.in"
    assert (price["partition"], price["offset"]) == (0, 1)
    assert price["epoch"] == 1
    counted = next(row for row in rows if row["event"].startswith("counted "))
    assert (counted["stage"], counted["lane"], counted["step"]) == (1, 0, "counted")
    assert by_event["closed"]["login"] == "******"
    assert by_event["printed by a function"]["logger"] == "spark.stderr"
    loggers = {row["logger"] for row in rows}
    assert "org.apache.spark.scheduler.DAGScheduler" in loggers
    assert "mustela.kafka" in loggers
    assert "epoch 1 is committed" in by_event
    starts = next(row for row in rows if " starts: " in row["event"])
    assert (starts["lanes"], starts["guarantee"]) == (1, "exactly_once")


def test_so_does_the_worker_that_is_there_before_spark(world: World, tmp_path: Path) -> None:
    """There is none where Spark has a property that it may not ignore, such as the canary's."""
    settings = {name: told for name, told in SETTINGS.items() if not name.startswith("spark.h")}
    _, err = run_until_counted(world, tmp_path, *assigned(settings))
    assert "canary" not in err
    by_event = {row["event"]: row for row in map(json.loads, err.splitlines())}
    assert by_event["no price"]["step"] == "priced"
    assert by_event["closed"]["login"] == "******"
    assert by_event["printed by a function"]["logger"] == "spark.stderr"


def test_people_read_lines_of_text(world: World, tmp_path: Path) -> None:
    """What a function prints stays as it is."""
    told = {"spark.master": "local[1]", "log.format": "console", "log.level": "debug"}
    _, err = run_until_counted(world, tmp_path, *assigned(told))
    lines = err.splitlines()
    assert "printed by a function" in lines
    assert any("no price" in line and "step=priced" in line for line in lines)
    assert not any(line.startswith("{") for line in lines)
