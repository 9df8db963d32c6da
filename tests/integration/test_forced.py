"""`--force` of the verbs beside a living instance: it ends by name, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.cli.console import ExitCode, exit_code_of
from mustela.cli.main import main
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import EnvironmentFault
from mustela.runtime.app import App
from tests.integration.app_world import World
from tests.integration.test_standby import await_living

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


class Counting:
    """An application that counts keys, in the state that the machine's settings name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.source, self.sink = world.topic("in"), world.topic("out")

    def build(self, builder: StreamsBuilder) -> None:
        grouped = builder.stream(self.source, key=str, value=str).group_by_key()
        grouped.count(store="counts").to_stream().to(self.sink, key=str, value=int)

    def app(self, **settings: Any) -> App:
        return self.world.app(self.build, lease={"interval": "1s"}, **settings)[0]

    def send(self, keys: str) -> None:
        self.world.send(self.source, [(key, "x") for key in keys])

    def ended(self, app: App) -> EnvironmentFault:
        """Wait for the end of an instance that was taken over, as soon as there is work."""
        self.world.until(lambda: app.state.ended, "the instance ends")
        error: Any = app.error
        app.close()
        return error

    def counts(self) -> dict[str, int]:
        """Start again, until all is read; return what is counted then."""
        with self.app() as app:
            self.world.drain(app)
        return self.world.numbers(self.sink)


@pytest.mark.parametrize(
    ("verb", "after"),
    [
        # State stays, and all five records before are read again, with the new one.
        (("offsets", "set", "{app}", "{source}", "0", "0"), {"a": 3 + 3 + 1, "b": 2 + 2}),
        # The store begins empty, and only the record that comes from then on is counted.
        (("state", "drop", "{app}:app", "counts"), {"a": 1, "b": 2}),
        # All begins anew: each record is counted once.
        (("reset", "{app}"), {"a": 4, "b": 2}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_verb_that_is_forced_ends_the_living_instance(
    world: World,
    verb: tuple[str, ...],
    after: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the option nothing happens; with it the one that lives writes nothing more."""
    counting = Counting(world)
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(world.directory / "state"))
    monkeypatch.setattr("mustela.cli.state.load_app", lambda _target: counting.app())
    words = [word.format(app=world.name, source=counting.source) for word in verb]
    command = [*words, "--yes", "-b", world.broker.bootstrap_servers]
    counting.send("abaab")
    living = counting.app()
    living.start()
    await_living(living)
    world.drain(living)
    assert world.numbers(counting.sink) == {"a": 3, "b": 2}
    assert main(command) == ExitCode.USAGE
    assert "INSTANCE_ALIVE" in capsys.readouterr().err
    assert main([*command, "--force"]) == ExitCode.OK, capsys.readouterr().err
    before = len(world.rows(counting.sink))
    counting.send("a")
    error = counting.ended(living)
    assert error.code == "FENCED", error
    assert exit_code_of(error) == ExitCode.FENCED
    assert len(world.rows(counting.sink)) == before
    assert counting.counts() == after


def test_an_instance_that_misses_its_topics_first_says_that_it_was_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to commit, and looks for its topics after a reset that was forced."""
    counting = Counting(world)
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(world.directory / "state"))
    counting.send("abaab")
    living = counting.app(topics={"refresh": "200ms"})
    living.start()
    await_living(living)
    world.drain(living)
    command = ["reset", world.name, "--yes", "--force", "-b", world.broker.bootstrap_servers]
    assert main(command) == ExitCode.OK
    error = counting.ended(living)
    assert error.code == "FENCED", error
    assert counting.counts() == {"a": 3, "b": 2}
