"""Topics planned, made, and all of an application removed, by the commands and on a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mustela import App, StreamsBuilder
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from tests.integration.app_world import World
from tests.patience import SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
from mustela import App
app = App({name!r}, bootstrap_servers={servers!r}, state_dir={state!r}, key_groups=4,
          processing_handler="dead_letter")
@app.topology
def build(builder):
    numbers = builder.stream({source!r}, key=str, value=str).map_values(lambda v: str(int(v)))
    numbers.group_by_key().count(store="counts").to_stream().to({sink!r})
"""


@pytest.fixture
def shop(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program whose topics nobody has made."""
    names = {"name": world.name, "source": f"{world.name}.in", "sink": f"{world.name}.out"}
    text = PROGRAM.format(
        servers=world.broker.bootstrap_servers, state=str(tmp_path / "state"), **names
    )
    module = "cleaned_" + world.name.replace("-", "_").replace(".", "_")
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return f"{module}:app"


def run(world: World, tmp_path: Path, values: list[str]) -> None:
    """Run the same program here, until all is read."""
    source, sink = f"{world.name}.in", f"{world.name}.out"

    def build(builder: StreamsBuilder) -> None:
        numbers = builder.stream(source, key=str, value=str).map_values(lambda v: str(int(v)))
        numbers.group_by_key().count(store="counts").to_stream().to(sink)

    settings: Any = world.settings(state_dir=tmp_path / "state", processing_handler="dead_letter")
    app = App(session=world.spark, **settings)
    app.topology(build)
    world.send(source, [("k", value) for value in values])
    with app:
        assert app.wait_until_caught_up(SOON)
        lease = f"{world.name}-lease"
        world.until(lambda: world.admin.describe([lease]) and world.rows(lease), "it says so", app)
        # While it runs, and has said so, nobody removes it.
        assert main(["clean", world.name, "-b", world.broker.bootstrap_servers, "--yes"]) == 2


def test_topics_are_made_as_planned_and_all_of_an_application_is_removed(
    shop: str, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it read and wrote stays; an application that starts after that starts from nothing."""
    name = world.name
    own = [f"{name}-counts-changelog", f"{name}-dead-letters", f"{name}-epochs", f"{name}-lease"]

    def told(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == ExitCode.OK
        return json.loads(capsys.readouterr().out)

    plan = told("topics", "plan", shop, "--partitions", "3")
    assert not plan["ready"]
    assert {topic["exists"] for topic in plan["topics"]} == {False}
    made = told("topics", "create", shop, "--partitions", "3")["created"]
    assert sorted(made) == sorted([f"{name}.in", f"{name}.out", *own])
    assert told("topics", "create", shop)["created"] == []
    again = told("topics", "plan", shop)
    assert again["ready"], again
    assert world.admin.describe([f"{name}.out"])[f"{name}.out"].partitions == 3

    run(world, tmp_path, ["1", "one", "2"])
    assert "INSTANCE_ALIVE" in capsys.readouterr().err
    assert len(world.rows(f"{name}-dead-letters")) == 1
    would = told("clean", shop, "--dry-run")
    assert {f"delete topic {topic}" for topic in own} <= set(would["would"])
    assert world.admin.group_offsets(name)
    assert sorted(world.admin.describe(own)) == own
    done = told("clean", shop, "--yes")
    assert done["done"] == would["would"]
    assert not world.admin.describe(own)
    assert not world.admin.group_offsets(name)
    assert not (tmp_path / "state" / name).exists()
    assert len(world.rows(f"{name}.in")) == 3
    assert told("clean", shop, "--yes")["done"] == []

    run(world, tmp_path, ["3"])
    assert world.numbers(f"{name}.out") == {"k": 3}


def test_a_topic_that_differs_is_told_with_both_values(
    shop: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a comment of the YAML, which stays one."""
    from mustela.connectors.kafka.admin import TopicSpec

    log = f"{world.name}-counts-changelog"
    world.admin.create([TopicSpec(name=log, partitions=7, config={"cleanup.policy": "delete"})])
    assert main(["topics", "plan", shop]) == ExitCode.OK
    shown = capsys.readouterr()
    assert "# partitions: 7, not 4" in shown.out
    assert "# cleanup.policy: delete, not compact" in shown.out
    assert yaml.safe_load(shown.out)["topics"]
    assert "topics differ from the plan" in shown.err
