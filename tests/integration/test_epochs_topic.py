"""An epochs topic that is deleted and made again, on a real broker."""

from __future__ import annotations

import pytest

from mustela import StreamsBuilder
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.connectors.kafka.admin import TopicSpec
from mustela.errors import MustelaError
from tests.faults.feed import read_all
from tests.faults.inside import Inside, await_condition
from tests.faults.kinds.counting import word_count

pytest_plugins = ["tests.integration.app_fixture"]
pytestmark = [pytest.mark.broker, pytest.mark.spark]

_OFTEN = {"topics": {"refresh": "200ms"}}
_COPIES = 50
"""So often each row is written: the new topic is not shorter than the deleted one."""


def make_again(inside: Inside, *, copies: int = _COPIES) -> None:
    """Delete the epochs topic, and make one that holds all but the last row."""
    topic = f"{inside.name}-epochs"
    rows = read_all(inside.servers, topic, 1)[0][:-1]
    inside.admin.delete([topic])
    config = {"cleanup.policy": "compact", "retention.ms": "-1"}
    inside.admin.create([TopicSpec(name=topic, partitions=1, config=config)])
    for row in rows * copies:
        inside.produce(topic, row.key, row.value or b"")


def feed(inside: Inside) -> None:
    inside.send([("l", "ant bee cat")])


def copying(builder: StreamsBuilder, name: str) -> None:
    builder.stream(f"{name}.in", key=str, value=str).to(f"{name}.out", key=str, value=str)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_busy", [True, False])
def test_it_is_noticed_while_the_application_runs(
    inside: Inside, is_busy: bool, is_first: bool
) -> None:
    """Before the next commit, or by the next look for topics; nothing more is written."""
    inside.build(word_count)
    feed(inside)
    if not is_first:
        inside.run()
        feed(inside)
    app, _ = inside.app(**({} if is_busy else _OFTEN))
    app.start()
    inside.await_caught_up(app)
    written = len(inside.rows())
    make_again(inside)
    if is_busy:
        feed(inside)
    await_condition(lambda: app.state.ended)
    error = app.error
    assert isinstance(error, MustelaError)
    assert error.code == "EPOCHS_TOPIC_GONE"
    assert len(inside.rows()) == written


def test_it_is_noticed_after_it_was_stopped(inside: Inside) -> None:
    """Though what is in the new topic is an epoch of the application: each one names its topic."""
    inside.build(word_count)
    app, _ = inside.app()
    with app:
        for _ in range(2):
            feed(inside)
            inside.await_caught_up(app)
    make_again(inside)
    assert inside.fail().code == "EPOCHS_TOPIC_GONE"


def test_without_state_the_offsets_of_the_group_tell_of_an_empty_one(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what may have happened, and a reset makes the way free."""
    inside.build(copying)
    feed(inside)
    inside.run()
    make_again(inside, copies=0)
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(inside.state_dir))
    error = inside.fail()
    assert error.code == "OFFSETS_MOVED"
    assert "the epochs topic was deleted" in str(error)
    assert main(["reset", inside.name, "--yes", "--force", "-b", inside.servers]) == ExitCode.OK
    inside.run()
    assert len(inside.rows()) == 2
