"""Two applications whose names and stores' names make one changelog's name, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.cli.main import main
from mustela.dsl.builder import StreamsBuilder
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]
pytest_plugins = ["tests.integration.app_fixture"]


def counts(world: World, store: str, source: str, to: str) -> Any:
    """Return a topology that counts by key in a store."""

    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream(source, key=str, value=str)
        lines.group_by_key().count(store=store).to_stream().to(to, key=str, value=int)

    return build


def test_no_application_writes_the_changelog_of_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped before it writes; nor does a reset of one delete what the other one has."""
    lines, out, others = world.topic("lines"), world.topic("out"), world.topic("others")
    world.send(lines, [("k", "a"), ("k", "b")])
    mine = counts(world, "b-x", lines, out)
    world.run(mine)
    assert world.numbers(out) == {"k": 2}
    log, larger = f"{world.name}-b-x-changelog", f"{world.name}-b"
    ends = world.admin.end_offsets([(log, group) for group in range(4)])
    theirs = counts(world, "x", lines, others)
    error = world.fail(theirs, application_id=larger)
    assert error.code == "CHANGELOG_SHARED"
    assert error.fields["application"] == world.name
    assert world.admin.end_offsets(ends) == ends
    assert world.values(others) == []
    world.run(counts(world, "y", lines, others), application_id=larger)
    assert world.numbers(others) == {"k": 2}
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(world.directory / "state"))
    words = ["--yes", "--force", "-b", world.broker.bootstrap_servers]
    assert main(["reset", larger, *words]) == 0
    assert f"{larger}-y-changelog" not in world.admin.topics()
    world.send(lines, [("k", "c")])
    world.run(mine)
    assert world.numbers(out) == {"k": 3}
    world.run(counts(world, "y", lines, others), application_id=larger)
    assert main(["reset", world.name, *words]) == 0
    left = {topic for topic in world.admin.topics() if topic.startswith(f"{world.name}-")}
    assert left == {f"{larger}-{end}" for end in ("epochs", "lease", "y-changelog")}
