"""An application that moves between hosts, each with a disk of its own, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.cli.main import main
from mustela.dsl.builder import StreamsBuilder
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = [
    "tests.broker_fixture",
    "tests.spark_fixture",
    "tests.integration.app_fixture",
]

KEYS = [f"k{number}" for number in range(12)]


def count(source: str, to: str) -> Any:
    """Return a topology that counts by key."""

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).group_by_key().count(
            store="counts"
        ).to_stream().to(to, key=str, value=int)

    return build


def test_state_of_another_life_is_not_used_on_a_host_that_a_reset_did_not_reach(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be caught up from the new life's changelog, with the old life's counts below it."""
    lines, out = world.topic("lines", 2), world.topic("out")
    build = count(lines, out)
    a, b = world.directory / "host-a", world.directory / "host-b"
    for host in (a, b):  # life 1: five of each key
        world.send(lines, [(key, "v") for key in KEYS] * (3 if host == a else 2))
        world.run(build, state_dir=host)
    assert world.numbers(out) == dict.fromkeys(KEYS, 5)
    first = world.records()[-1]
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(a))
    servers = ("-b", world.broker.bootstrap_servers)
    assert main(["reset", world.name, "--to-latest", "--yes", *servers]) == 0
    assert list(b.glob("*/*/[0-9]*/rows.flat")), "the reset did not reach the other host"
    for rounds in range(4):  # life 2 on host A: as far as the old life's changelog, and further
        world.send(lines, [(key, "v") for key in KEYS[rounds:]])
        world.run(build, state_dir=a)
    last = world.records()[-1]
    assert last.life != first.life
    ends = zip(last.changelog_ends["counts"], first.changelog_ends["counts"], strict=True)
    assert any(new >= old > 0 for new, old in ends), "old state would look like it could go on"
    world.send(lines, [(key, "v") for key in KEYS])
    world.run(build, state_dir=b)
    expected = {key: min(number + 1, 4) + 1 for number, key in enumerate(KEYS)}
    assert world.numbers(out) == expected
    world.send(lines, [(key, "v") for key in KEYS])
    world.run(build, state_dir=a)
    assert world.numbers(out) == {key: number + 1 for key, number in expected.items()}
